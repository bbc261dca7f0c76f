"""The site: `make docs` builds it offline into docs/_build/html, and a warning is an error."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib  # noqa: E402

matplotlib.use("Agg")

import featureprism  # noqa: E402

project = "featureprism"
copyright = "The featureprism authors"
version = release = featureprism.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "myst_parser",
    "typeset",
    "atlas_pages",
    "plain_docstrings",
    "sphinx.ext.napoleon",  # after plain_docstrings: sections of numpydoc
    "loose_pages",
    "findings",
    "reference",
]
exclude_patterns = [
    "_build",
    "_ext",
    "_templates",
    "**/README.md",
    "gallery/*.ipynb",
    "**sg_execution_times.rst",
]
templates_path = ["_templates"]
html_static_path = ["_static", str(Path(featureprism.__file__).parent / "lab" / "web")]
html_math_renderer = "katex"
html_css_files = ["site.css"]
html_theme = "pydata_sphinx_theme"
html_title = "featureprism"
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "featureprism"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_prev_next": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "primary_sidebar_end": [],
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "atlas/index": []}
html_context = {"default_mode": "auto"}

autosummary_generate = True
autodoc_preserve_defaults = True  # progress=no_progress, not the address of a function
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
add_module_names = False
napoleon_google_docstring = False
viewcode_line_numbers = True
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_double_inline = True  # $$…$$ in the middle of a paragraph
myst_heading_anchors = 3
myst_links_external_new_tab = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"outside_paper|__init__",
    "min_reported_time": 1,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "within_subsection_order": "gallery_order.FirstThingsFirst",
    "abort_on_example_error": True,
    "plot_gallery": "True",
}
