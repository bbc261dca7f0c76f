"""How weights move: descent and flow."""

from featureprism.training.any_scale import balanced_flow
from featureprism.training.descent import gradient_descent, stochastic_descent
from featureprism.training.first_layer import first_layer_descent, growing_lumps
from featureprism.training.flow import gradient_flow
from featureprism.training.kkt_patterns import flow_limit, pattern_point
from featureprism.training.losses import Loss
from featureprism.training.margins import margin_descent
from featureprism.training.max_margin import MaxMargin, NotSeparableError, max_margin_network
from featureprism.training.span import start_in_span
from featureprism.training.symmetric import Phase, from_pool, train_symmetric
from featureprism.training.trajectory import Ended, Trajectory

__all__ = [
    "Ended",
    "Loss",
    "MaxMargin",
    "NotSeparableError",
    "Phase",
    "Trajectory",
    "balanced_flow",
    "first_layer_descent",
    "flow_limit",
    "from_pool",
    "gradient_descent",
    "gradient_flow",
    "growing_lumps",
    "margin_descent",
    "max_margin_network",
    "pattern_point",
    "start_in_span",
    "stochastic_descent",
    "train_symmetric",
]
