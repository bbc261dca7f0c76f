"""A Lipschitz constant that the user knows."""

from jaxtyping import Int
from torch import Tensor

from featureprism.checker.certificate import Certificate
from featureprism.models.model import Model
from featureprism.verify.method import Method
from featureprism.verify.pairs import Pairs
from featureprism.verify.query import Limits, Query


class GivenLipschitz(Method):
    """margin/L for a constant L of every margin; whoever gives it answers for it."""

    def __init__(self, constant: float) -> None:
        self.constant = constant

    def applies(self, model: Model, query: Query) -> bool:
        return True

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        margin = pairs.margins(rows)(pairs.points(rows)).clamp_min(0)
        for j, radius in zip(rows.tolist(), (margin / self.constant).tolist(), strict=True):
            pairs.keep(j, Certificate(radius, "given Lipschitz constant", pairs.query.norm))
