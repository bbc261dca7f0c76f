"""How weights move: descent and flow."""

from featureprism.training.adversarial import logistic_descent
from featureprism.training.any_scale import balanced_flow
from featureprism.training.descent import gradient_descent, stochastic_descent
from featureprism.training.first_layer import first_layer_descent, growing_lumps
from featureprism.training.flow import gradient_flow
from featureprism.training.kkt_patterns import PatternPoint, flow_limit, pattern_point
from featureprism.training.losses import Loss
from featureprism.training.margins import log_loss, margin_ascent, margin_descent, point_weights
from featureprism.training.max_margin import MaxMargin, NotSeparableError, max_margin_network
from featureprism.training.span import start_in_span
from featureprism.training.symmetric import Draw, Phase, fresh, from_pool, symmetric_step, train_symmetric
from featureprism.training.trajectory import Ended, Trajectory

__all__ = [
    "Draw",
    "Ended",
    "Loss",
    "MaxMargin",
    "NotSeparableError",
    "PatternPoint",
    "Phase",
    "Trajectory",
    "balanced_flow",
    "first_layer_descent",
    "flow_limit",
    "fresh",
    "from_pool",
    "gradient_descent",
    "gradient_flow",
    "growing_lumps",
    "log_loss",
    "logistic_descent",
    "margin_ascent",
    "margin_descent",
    "max_margin_network",
    "pattern_point",
    "point_weights",
    "start_in_span",
    "stochastic_descent",
    "symmetric_step",
    "train_symmetric",
]
