"""Classifiers as data, and how people's own models become such."""

from featureprism.models.model import Model
from featureprism.models.read import read_model

__all__ = ["Model", "read_model"]
