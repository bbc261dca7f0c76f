"""Weights of features: the same model, points and bounds in other units, bracketed there and taken back."""

from dataclasses import dataclass, replace
from math import frexp, inf

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from featureprism.brackets import RadiusBracket
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.models import Scores
from featureprism.checker.quadratic import QuadraticScores
from featureprism.checker.weights import weighted_bounds, weighted_model
from featureprism.models.model import Model, of_weights
from featureprism.verify.query import Query

STILL = (
    2.0**20
)  # a fixed feature weighs so much more than the others that what it may move counts for nothing
STRETCHES = (
    0.0,
    1e-13,
    1e-11,
    1e-9,
    1e-7,
    1e-5,
    1e-4,
    1e-3,
)  # relative: how much farther a witness may have to go after rounding


@dataclass(frozen=True, eq=False)
class Weighted:
    """A model, points and a question in units in which every weight is 1.

    A feature with the weight inf gets a finite weight that is a power of two: a proof about it says more than what was asked.
    """

    model: Model
    x: Float[Tensor, "n d"]
    query: Query
    weights: Float64[np.ndarray, " d"]
    fixed: np.ndarray

    @classmethod
    def of(cls, model: Model, x: Float[Tensor, "n d"], query: Query) -> "Weighted":
        """Everything in the units of the query's weights."""
        assert query.weights is not None
        fixed = np.isinf(query.weights)
        weights = finite_weights(model, query.weights)
        points = x * torch.from_numpy(weights)
        bounds = None
        if query.bounds is not None:
            lower, upper = (
                np.broadcast_to(np.asarray(s, dtype=np.float64), weights.shape) for s in query.bounds
            )
            bounds = weighted_bounds(lower, upper, weights)
        moving = points[:, torch.from_numpy(~fixed)]
        farthest = float(torch.linalg.vector_norm(moving, ord=query.norm, dim=1).max())
        reach = query.max_radius or (4 * farthest if farthest > 0 else 4.0)
        question = replace(query, bounds=bounds, max_radius=reach, weights=None)
        return cls(in_units(model, weights), points, question, weights, fixed)

    def back(self, bracket: RadiusBracket, model: Model, x: Float[Tensor, "n d"]) -> RadiusBracket:
        """The bracket of the original points: every witness in their units, and seen to flip the original model."""
        assert bracket.witness is not None
        assert bracket.label is not None
        label = torch.from_numpy(bracket.label)
        delta = torch.from_numpy(np.where(self.fixed, 0.0, bracket.witness / self.weights))
        left = torch.from_numpy(np.isfinite(bracket.attacked) & (bracket.attacked > 0))
        final, flipped = torch.zeros_like(delta), torch.zeros_like(left)
        for stretch in STRETCHES:
            trial = self._inside(x, delta * (1 + stretch))
            new = left & ~flipped & _flips(model, x + trial, label)
            final[new], flipped = trial[new], flipped | new
        size = torch.linalg.vector_norm(final * torch.from_numpy(self.weights), ord=self.query.norm, dim=1)
        attacked = np.where(left.numpy(), np.where(flipped.numpy(), size.numpy(), inf), bracket.attacked)
        attacked = np.maximum(
            attacked, bracket.certified
        )  # rounding of a norm may not turn the bracket round
        return replace(bracket, witness=final.numpy(), attacked=attacked)

    def _inside(self, x: Tensor, delta: Tensor) -> Tensor:
        if self.query.bounds is None:
            return delta
        lower, upper = (torch.from_numpy(side / self.weights) for side in self.query.bounds)
        return torch.minimum(torch.maximum(x + delta, lower), upper) - x


@torch.no_grad()
def _flips(model: Model, z: Tensor, label: Tensor) -> Tensor:
    scores = model.scores(z)
    of_label = scores.gather(1, label.unsqueeze(1)).squeeze(1)
    return of_label <= scores.scatter(1, label.unsqueeze(1), -inf).amax(dim=1)


def finite_weights(model: Model, weights: Float64[np.ndarray, " d"]) -> Float64[np.ndarray, " d"]:
    """The weights, those of fixed features so large that their columns are STILL times smaller than the largest of the others."""
    fixed = np.isinf(weights)
    if not fixed.any():
        return weights
    first = _first_layer(model)
    size = np.ones_like(weights) if first is None else np.abs(first).max(axis=0)
    largest = float((size[~fixed] / weights[~fixed]).max())
    ratio = size[fixed] / largest if largest > 0 else size[fixed]
    powers = [2.0 ** max(-60, min(60, frexp(r)[1])) if r > 0 else 1.0 for r in ratio.tolist()]
    finite = weights.copy()
    finite[fixed] = STILL * np.array(powers)
    return finite


def _first_layer(model: Model) -> np.ndarray | None:
    match model.weights:
        case LinearScores() | QuadraticScores():
            return model.weights.V
        case Scores():
            return model.weights.W
        case Layers():
            return model.weights.weights[0]
        case _:
            return None


def in_units(model: Model, w: Float64[np.ndarray, " d"]) -> Model:
    """The model in units of 1/w_j for every coordinate."""
    about = {"classes": model.classes, "origin": model.origin}
    if model.weights is not None:
        return of_weights(weighted_model(model.weights, w), **about)
    return Model(InUnits(model.net, torch.from_numpy(w)), reason=model.reason, **about)


class InUnits(nn.Module):
    """Any other network on points in units of 1/w_j: it can only be attacked."""

    def __init__(self, net: nn.Module, w: Float[Tensor, " d"]) -> None:
        super().__init__()
        self.net, self.w, self.num_classes = net, w, int(getattr(net, "num_classes", 2))

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The scores."""
        return self.net(z / self.w)
