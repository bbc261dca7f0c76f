"""People's own models, read as networks that give every class a score."""

from featureprism.networks.reading.archives import save_model
from featureprism.networks.reading.called import CalledScores
from featureprism.networks.reading.classifier import Classifier
from featureprism.networks.reading.graph import GraphScores
from featureprism.networks.reading.ours import input_dim
from featureprism.networks.reading.points import as_points
from featureprism.networks.reading.read import read_model

__all__ = ["CalledScores", "Classifier", "GraphScores", "as_points", "input_dim", "read_model", "save_model"]
