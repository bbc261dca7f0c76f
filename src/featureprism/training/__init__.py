"""How weights move: descent and flow."""

from featureprism.training.any_scale import balanced_flow
from featureprism.training.descent import gradient_descent, stochastic_descent
from featureprism.training.first_layer import first_layer_descent
from featureprism.training.flow import gradient_flow
from featureprism.training.losses import Loss

__all__ = [
    "Loss",
    "balanced_flow",
    "first_layer_descent",
    "gradient_descent",
    "gradient_flow",
    "stochastic_descent",
]
