"""Functions x ↦ f(x) with visible neurons, and reference classifiers."""

from featureprism.models.activations import PolynomialReLU, PowerReLU, ReLU, Tanh
from featureprism.models.one_layer import TwoLayerNet
from featureprism.models.read import load_net, save_net
from featureprism.networks.adapter import TwoLogits
from featureprism.networks.balanced_weights import balanced
from featureprism.networks.constructions import (
    averaging_classifier,
    decoupled_classifier,
    robust_margin_classifier,
)
from featureprism.networks.grouped import BinaryReadout
from featureprism.networks.initial import (
    biased_start,
    gaussian_shape,
    gaussian_start,
    grouped_start,
    nudge_to_own_class,
    unit_votes_start,
    voting_start,
)
from featureprism.networks.plain import MLP, LinearClassifier
from featureprism.networks.reference import BayesClassifier, PolynomialClassifier
from featureprism.networks.symmetric import SymmetricNet, symmetric_start

__all__ = [
    "MLP",
    "BayesClassifier",
    "BinaryReadout",
    "LinearClassifier",
    "PolynomialClassifier",
    "PolynomialReLU",
    "PowerReLU",
    "ReLU",
    "SymmetricNet",
    "Tanh",
    "TwoLayerNet",
    "TwoLogits",
    "averaging_classifier",
    "balanced",
    "biased_start",
    "decoupled_classifier",
    "gaussian_shape",
    "gaussian_start",
    "grouped_start",
    "load_net",
    "nudge_to_own_class",
    "robust_margin_classifier",
    "save_net",
    "symmetric_start",
    "unit_votes_start",
    "voting_start",
]
