"""Writes the atlas before Sphinx reads its sources."""

import shutil
from pathlib import Path
from typing import Any

import atlas

from featureprism.lab import all_papers
from featureprism.lab.experiment import SCALES
from featureprism.lab.published import figure_path, read_published


def _write(app: Any, config: Any) -> None:
    docs, results = Path(app.srcdir), Path(app.srcdir) / config.atlas_results
    target = docs / "atlas" / "figures"
    target.mkdir(parents=True, exist_ok=True)
    figures = {}
    for item in (item for paper in all_papers().values() for item in paper.experiments):
        for scale in SCALES:
            source = figure_path(results, item.id, scale)
            if source.is_file():
                shutil.copyfile(source, target / source.name)
                figures[item.id, scale] = f"atlas/figures/{source.name}"
    written = set(atlas.write_atlas(all_papers(), read_published(results), figures, docs))
    for path in (docs / "atlas").rglob("*.rst"):
        if path not in written:
            path.unlink()


def setup(app: Any) -> dict[str, bool]:
    app.add_config_value("atlas_results", "results", "env")
    app.connect("config-inited", _write)  # before Sphinx looks for pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
