"""What a method of proof is: where it applies, and what it proves of pairs."""

from abc import ABC, abstractmethod
from math import inf

from jaxtyping import Float, Int
from torch import Tensor

from featureprism.models.model import Model
from featureprism.verify.pairs import Pairs
from featureprism.verify.query import Limits, Query


class Method(ABC):
    """A way to prove radii; abstract. The driver asks methods in the order of their cost."""

    is_closed_form = False  # it leaves nothing to attack or to prove
    is_cheap = False  # it is tried before the attack takes its time
    norms: tuple[float, ...] = (2, inf)  # that it knows

    @abstractmethod
    def applies(self, model: Model, query: Query) -> bool:
        """Whether it can say anything."""

    @abstractmethod
    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> Float[Tensor, "s r d"] | None:
        """Put certificates into some pairs; returns perturbations near which shorter flips may be, if it knows any."""
