"""Functions x ↦ f(x) with visible neurons, and reference classifiers."""

from featureprism.models.activations import (
    Activation,
    PolynomialReLU,
    PowerReLU,
    ReLU,
    Tanh,
)
from featureprism.models.archives import load_net, load_points, save_net, save_points
from featureprism.models.scores import LayeredScores, LinearScores, QuadraticMargin, QuadraticScores, ScoreNet
from featureprism.models.two_layer import TwoLayerNet, stack
from featureprism.networks.adapter import TwoLogits
from featureprism.networks.balanced_weights import BalancedWeights, balanced
from featureprism.networks.constructions import (
    averaging_classifier,
    decoupled_classifier,
    robust_margin_classifier,
    shared_features_net,
)
from featureprism.networks.gates import smoothed_relu, smoothed_step
from featureprism.networks.grouped import BinaryReadout, GroupedNet, summed_readout
from featureprism.networks.initial import (
    biased_start,
    gaussian_mlp,
    gaussian_shape,
    gaussian_start,
    grouped_start,
    nudge_as_printed,
    nudge_to_own_class,
    random_signs,
    unit_votes_start,
    voting_start,
)
from featureprism.networks.low_complexity import CubicNet, IndicatorClassifier, PolynomialKernel, TangentNet
from featureprism.networks.plain import MLP, LinearClassifier
from featureprism.networks.reference import BayesClassifier, NearestCluster, PolynomialClassifier
from featureprism.networks.symmetric import SymmetricNet, pure_net, symmetric_start

__all__ = [
    "MLP",
    "Activation",
    "BalancedWeights",
    "BayesClassifier",
    "BinaryReadout",
    "CubicNet",
    "GroupedNet",
    "IndicatorClassifier",
    "LayeredScores",
    "LinearClassifier",
    "LinearScores",
    "NearestCluster",
    "PolynomialClassifier",
    "PolynomialKernel",
    "PolynomialReLU",
    "PowerReLU",
    "QuadraticMargin",
    "QuadraticScores",
    "ReLU",
    "ScoreNet",
    "SymmetricNet",
    "TangentNet",
    "Tanh",
    "TwoLayerNet",
    "TwoLogits",
    "averaging_classifier",
    "balanced",
    "biased_start",
    "decoupled_classifier",
    "gaussian_mlp",
    "gaussian_shape",
    "gaussian_start",
    "grouped_start",
    "load_net",
    "load_points",
    "nudge_as_printed",
    "nudge_to_own_class",
    "pure_net",
    "random_signs",
    "robust_margin_classifier",
    "save_net",
    "save_points",
    "shared_features_net",
    "smoothed_relu",
    "smoothed_step",
    "stack",
    "summed_readout",
    "symmetric_start",
    "unit_votes_start",
    "voting_start",
]
