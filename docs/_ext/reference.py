"""Writes the reference: the names at the top, then one page for each module with its public names."""

from importlib import import_module
from pathlib import Path
from typing import Any

import featureprism

MODULES = {  # in reading order
    "verify": "Radii, proofs and properties of your model",
    "audit": "What a model has learned, and which head is better",
    "heads": "Robust heads on top of an embedding",
    "models": "Models as they are read from files and libraries",
    "attacks": "Attacks",
    "data": "Data with known structure",
    "networks": "Networks with visible neurons",
    "training": "Training: gradient descent and gradient flow",
    "probes": "Probes: what the neurons learned",
    "lab": "Claims, verdicts, experiments and sweeps",
    "zoo": "Image networks that come with the library",
    "geometry": "Balls of perturbations",
    "seeds": "Random generators",
}


def _headed(title: str, mark: str) -> str:
    return f"{title}\n{mark * len(title)}\n\n"


def _table(names: list[str]) -> str:
    rows = "\n   ".join(sorted(names))
    return f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n   {rows}\n\n"


def pages() -> dict[str, str]:
    """The index, and a page for every module; a name of the top has its page there."""
    top = set(featureprism.__all__)
    listed = "".join(f"   {name}\n" for name in MODULES)
    index = (
        _headed("API reference", "=")
        + "The names at the top of ``featureprism`` are those most people need. The others are in modules, which are imported when "
        "they are used: ``import featureprism as fp`` gives ``fp.data.sample``. Every example runs in the tests. What is not listed "
        "here may change without notice. Letters and shapes: :doc:`/notation`.\n\n"
        ".. currentmodule:: featureprism\n\n"
        + _headed("At the top", "-")
        + _table(featureprism.__all__)
        + _headed("Modules", "-")
        + f".. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    )
    texts = {"index": index}
    for name, title in MODULES.items():
        module = import_module(f"featureprism.{name}")
        names = [n for n in module.__all__ if n not in top and callable(getattr(module, n))]
        above = [n for n in module.__all__ if n in top]
        also = (
            f"Also of this module: {', '.join(f':py:obj:`featureprism.{n}`' for n in above)}.\n\n"
            if above
            else ""
        )
        summary = (module.__doc__ or "").strip().split("\n\n")[0]
        texts[name] = (
            _headed(f"{title} (featureprism.{name})", "=")
            + f"{summary}\n\n{also}"
            + (f".. currentmodule:: featureprism.{name}\n\n{_table(names)}" if names else "")
        )
    return texts


def public_names() -> set[str]:
    """The full names that have a page: those at the top, and those of a module that are not at the top."""
    top = set(featureprism.__all__)
    modules = {name: import_module(f"featureprism.{name}") for name in MODULES}
    below = {f"featureprism.{m}.{n}" for m, module in modules.items() for n in module.__all__ if n not in top}
    return below | {f"featureprism.{name}" for name in top}


def _write(app: Any, _config: Any) -> None:
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    for path in (folder / "generated").glob("*.rst"):  # of names that are gone
        if path.stem not in public_names():
            path.unlink()
    for name, text in pages().items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("config-inited", _write)  # before Sphinx looks for pages, and autosummary for names
    return {"parallel_read_safe": True, "parallel_write_safe": True}
