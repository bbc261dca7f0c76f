"""A KKT point of the max-margin problem, exactly: the convex problem of networks with one direction for each sign.

Gradient flow on an exponential or logistic loss goes to KKT points of

    min ½‖θ‖²   subject to   y_i N(x_i) ≥ 1,   N(x) = Σ_j v_j [⟨w_j, x⟩ + b_j]₊   (double-edged, eq. 2).

One of them has a single neuron for each sign of v_j. With u_s = Σ |v_j| (w_j, b_j) over the neurons of sign s and
x̃ = (x, 1), the least norm is ½‖θ‖² = ‖u₊‖ + ‖u₋‖, and as own responses are at least 1 the problem is convex:

    min ‖u₊‖ + ‖u₋‖   subject to   ⟨u_s, x̃_i⟩ ≥ 1   and   ⟨u_s - u_{-s}, x̃_i⟩ ≥ 1   for every i of sign s.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featureprism._inputs import check_points
from featureprism._nonnegative import nonnegative_minimum
from featureprism._threads import one_thread
from featureprism.models.activations import ReLU
from featureprism.models.one_layer import TwoLayerNet

MAX_REWEIGHTINGS = 100
SETTLED = 1e-12  # relative change of the two norms
REFINEMENTS = 2
MET = 1e-9  # what a constraint may miss before rounding is not to blame
INFEASIBLE = 1e-12  # share of the Farkas combination that is left


class NotSeparableError(ValueError):
    """No network with one direction for each sign has all margins positive."""


@dataclass(frozen=True)
class MaxMargin:
    """The least-norm network with one neuron for each sign, and the multipliers that prove it.

    Attributes
    ----------
    net : TwoLayerNet
        The network.
    alone, against : tensor (n,)
        Multipliers of the two constraints of each point: λ_i = alone_i + against_i, and where the neuron of the other
        sign is on its kink, against_i/λ_i is its Clarke derivative.
    """

    net: TwoLayerNet
    alone: Float[Tensor, " n"]
    against: Float[Tensor, " n"]

    @property
    def multipliers(self) -> Float[Tensor, " n"]:
        """λ_i of y_i N(x_i) ≥ 1; they add up to ½‖θ‖²."""
        return self.alone + self.against

    @property
    def kink_shares(self) -> Float[Tensor, " n"]:
        """Clarke derivative of the neuron of the other sign where it sits on its kink."""
        return self.against / self.multipliers.clamp_min(1e-300)


@one_thread()
def max_margin_network(x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> MaxMargin:
    """The ReLU network with one neuron for each class that has the least norm among those with all margins at least 1.

    The problem is convex and solved to rounding in float64: ‖u‖ = min_a ½(‖u‖²/a + a) turns it into least-norm problems under linear
    constraints (Lawson & Hanson, chapter 23), reweighted until both norms settle. That gradient flow ends here is an observation, not a
    theorem.

    Parameters
    ----------
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.

    Returns
    -------
    MaxMargin
        The network as `net`, and its multipliers.

    Raises
    ------
    NotSeparableError
        With the points whose constraints contradict each other, if there is no such network.

    References
    ----------
    double-edged, equation (2).

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(100, 2, 2, 1.0, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample_balanced(clusters, 3, generator=fp.generator_for("train", 0))
    >>> net = fp.training.max_margin_network(data.x, data.y).net
    >>> round((net(data.x.double()) * data.y).min().item(), 6)
    1.0
    """
    check_points(x, y)
    x, y = x.double(), y.double()
    if len(y) == 0 or not (bool((y > 0).any()) and bool((y < 0).any())):
        raise ValueError("A max-margin network needs points of both classes.")
    lifted = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
    scale = torch.linalg.vector_norm(lifted, dim=1).max()
    points, basis = _in_span(lifted / scale)
    problem = _Constraints(points.numpy(), y.numpy())
    norms, multipliers = np.ones(2), problem.likely
    directions = np.zeros((2, points.shape[1]))
    for _ in range(MAX_REWEIGHTINGS):
        multipliers = problem.least_norm(norms, multipliers)
        directions = problem.directions(norms, multipliers)
        before, norms = norms, np.linalg.norm(directions, axis=1)
        if np.abs(norms - before).max() <= SETTLED * norms.max():
            break
    u = torch.from_numpy(directions) @ basis.T / scale
    alone, against = torch.from_numpy(multipliers / scale.item()).split(len(y))
    return MaxMargin(_balanced(u), alone, against)


def _in_span(points: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates in the span of the rows, and its basis; all of space when there are more points than dimensions."""
    if points.shape[0] >= points.shape[1]:
        return points, torch.eye(points.shape[1], dtype=points.dtype)
    basis, triangle = torch.linalg.qr(points.T)
    return triangle.T.contiguous(), basis


class _Constraints:
    """⟨u_s, p_i⟩ ≥ 1, then ⟨u_s - u_{-s}, p_i⟩ ≥ 1, of the points p_i of sign s: 2n of them.

    `sides` (2n, 2) holds the coefficients of u₊ and u₋. Each least-norm problem min ½ Σ_s ‖u_s‖²/a_s has u_s = a_s Σ λ side_s p, and
    its multipliers minimise ½ λᵀGλ - 1ᵀλ over λ ≥ 0, G being the inner products of the points times those of the sides, a_s apiece.
    """

    def __init__(self, points: np.ndarray, y: np.ndarray) -> None:
        own = np.stack([y > 0, y < 0], axis=1).astype(points.dtype)
        self.sides, self.points, self.size = np.concatenate([own, 2 * own - 1]), points, len(y)
        self.likely = np.repeat([0.0, 1.0], len(y))  # most support vectors of the second kind

    @cached_property
    def inner(self) -> np.ndarray:
        """⟨p_i, p_j⟩, which every problem needs."""
        return np.tile(self.points @ self.points.T, (2, 2))

    def directions(self, norms: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """(2, r): u₊ and u₋ of the multipliers."""
        alone, against = (multipliers[:, None] * self.sides).reshape(2, self.size, 2)
        return norms[:, None] * ((alone + against).T @ self.points)

    def responses(self, directions: np.ndarray) -> np.ndarray:
        """The left sides."""
        return (self.sides * np.tile(self.points @ directions.T, (2, 1))).sum(axis=1)

    def least_norm(self, norms: np.ndarray, before: np.ndarray) -> np.ndarray:
        """The multipliers: in blocks from those of the problem before, or where points depend on each other by active sets."""
        gram = (self.sides * norms) @ self.sides.T * self.inner
        found = nonnegative_minimum(gram, np.ones(len(gram)), before > 0)
        if found is not None:
            found = self._refined(gram, norms, found)
            if self.responses(self.directions(norms, found)).min() >= 1 - MET:
                return found
        return self._by_active_sets(norms)

    def _refined(self, gram: np.ndarray, norms: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """The same with constraints of positive multipliers met to rounding: products of G lose twice the digits."""
        from scipy.linalg import cho_factor, cho_solve  # takes half a second

        active = np.flatnonzero(multipliers > 0)
        factor = cho_factor(gram[np.ix_(active, active)])
        for _ in range(REFINEMENTS):
            missing = 1 - self.responses(self.directions(norms, multipliers))[active]
            multipliers[active] = np.maximum(multipliers[active] + cho_solve(factor, missing), 0)
        return multipliers

    def _by_active_sets(self, norms: np.ndarray) -> np.ndarray:
        """Minimise ‖(Rᵀλ, 1ᵀλ - 1)‖ over λ ≥ 0, where R v ≥ 1 are the constraints on v_s = u_s/√a_s; then λ/(1 - 1ᵀλ)."""
        from scipy.optimize import nnls  # takes half a second

        twice = np.tile(self.points, (2, 1))
        rows = np.concatenate([(self.sides * np.sqrt(norms))[:, s : s + 1] * twice for s in (0, 1)], axis=1)
        size = np.linalg.norm(rows, axis=1).max()
        stacked = np.vstack([rows.T / size, np.ones(len(rows))])
        target = np.zeros(len(stacked))
        target[-1] = 1
        weights, _ = nnls(stacked, target, maxiter=50 * len(rows))
        left = 1 - weights.sum()
        if left <= INFEASIBLE:
            guilty = sorted({int(i) % self.size for i in np.argsort(-weights)[:6] if weights[i] > 0})
            raise NotSeparableError(
                "Not separable by a depth-2 network with one direction for each sign: the margins of points "
                f"{', '.join(map(str, guilty))} (among others) contradict each other, so the smallest violation of y N(x) ≥ 1 is 1 "
                f"(the zero network). Their constraints cancel up to {np.linalg.norm(rows.T @ weights) / size:.1e}."
            )
        return weights / left / size**2


def _balanced(u: Float[Tensor, "2 r"]) -> TwoLayerNet:
    """One neuron for each sign with v² = ‖w‖² + b² and |v| (w, b) = u."""
    root = torch.linalg.vector_norm(u, dim=1).sqrt()
    lifted = u / root.unsqueeze(1)
    votes = root * torch.tensor([1.0, -1.0], dtype=u.dtype)
    return TwoLayerNet(lifted[:, :-1], votes, lifted[:, -1], activation=ReLU())
