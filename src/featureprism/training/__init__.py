"""How weights move: descent and flow."""

from featureprism.training.any_scale import balanced_flow
from featureprism.training.descent import gradient_descent, stochastic_descent
from featureprism.training.first_layer import first_layer_descent
from featureprism.training.flow import gradient_flow
from featureprism.training.losses import Loss
from featureprism.training.margins import log_loss, margin_ascent, margin_descent, point_weights
from featureprism.training.max_margin import MaxMargin, NotSeparableError, max_margin_network

__all__ = [
    "Loss",
    "MaxMargin",
    "NotSeparableError",
    "balanced_flow",
    "first_layer_descent",
    "gradient_descent",
    "gradient_flow",
    "log_loss",
    "margin_ascent",
    "margin_descent",
    "max_margin_network",
    "point_weights",
    "stochastic_descent",
]
