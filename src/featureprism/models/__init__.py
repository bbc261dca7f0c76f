"""Classifiers as data, and how people's own models become such."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from featureprism.inputs import as_points
from featureprism.models.model import Model, NotANetwork, as_model, of_weights
from featureprism.models.read import read_model

if TYPE_CHECKING:
    from featureprism.models.reading.called import CalledScores
    from featureprism.models.reading.graph import GraphScores

_MODULES = {"CalledScores": "called", "GraphScores": "graph"}  # these bring scipy along

__all__ = [
    "CalledScores",
    "GraphScores",
    "Model",
    "NotANetwork",
    "as_model",
    "as_points",
    "of_weights",
    "read_model",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.reading.{_MODULES[name]}"), name)
