"""People's own models, read as networks that give every class a score."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from featureprism.inputs import as_points
from featureprism.models.reading.classifier import Classifier, NotANetwork

if TYPE_CHECKING:
    from featureprism.models.reading.archives import save_model
    from featureprism.models.reading.called import CalledScores
    from featureprism.models.reading.graph import GraphScores
    from featureprism.models.reading.ours import input_dim
    from featureprism.models.reading.read import read_model

_MODULES = {  # what brings scipy along is imported when it is asked for
    "CalledScores": "called",
    "GraphScores": "graph",
    "input_dim": "ours",
    "read_model": "read",
    "save_model": "archives",
}

__all__ = [
    "CalledScores",
    "Classifier",
    "GraphScores",
    "NotANetwork",
    "as_points",
    "input_dim",
    "read_model",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
