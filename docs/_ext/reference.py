"""Writes the index of the reference: every public name, module by module."""

from pathlib import Path
from typing import Any

import featureprism

MODULES = {
    "Your model": ("certificates", "brackets", "records", "attacks", "geometry"),
    "Data": ("data", "seeds"),
    "Networks": ("networks",),
    "Training": ("training",),
    "Probes": ("probes",),
    "Robust heads": ("heads",),
    "Experiments": ("lab",),
}


def index_page() -> str:
    """A table for each group of modules; a public name of a module without a group stands at the end."""
    groups: dict[str, list[str]] = {title: [] for title in (*MODULES, "More")}
    for name in featureprism.__all__:
        module = getattr(featureprism, name).__module__.split(".")[1]
        title = next((t for t, modules in MODULES.items() if module in modules), "More")
        groups[title].append(name)
    parts = [
        "API reference\n=============\n\n",
        "Everything at the top of ``featureprism``; what is not here is in its module, ``featureprism.networks``, ",
        "``featureprism.probes`` and so on. Every example runs in the tests. Letters and shapes: :doc:`/notation`.\n\n",
        ".. currentmodule:: featureprism\n\n",
    ]
    for title, names in groups.items():
        if names:
            rows = "\n   ".join(sorted(names))
            parts.append(
                f"{title}\n{'-' * len(title)}\n\n.. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n   {rows}\n\n"
            )
    return "".join(parts)


def _write(app: Any, _config: Any) -> None:
    path, text = Path(app.srcdir) / "reference" / "index.rst", index_page()
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", _write)  # before Sphinx looks for pages, and autosummary for names
    return {"parallel_read_safe": True, "parallel_write_safe": True}
