"""A KKT point of the max-margin problem, exactly: the convex problem of networks with one direction for each sign.

Gradient flow on an exponential or logistic loss goes to KKT points of

    min ½‖θ‖²   subject to   y_i N(x_i) ≥ 1,   N(x) = Σ_j v_j [⟨w_j, x⟩ + b_j]₊   (double-edged, eq. 2)

and trained networks gather in two directions, one for each sign of v_j. With u_s = Σ |v_j| (w_j, b_j) over the neurons of sign s and
x̃ = (x, 1), the least norm is ½‖θ‖² = ‖u₊‖ + ‖u₋‖, and as own responses are at least 1 the problem is convex:

    min ‖u₊‖ + ‖u₋‖   subject to   ⟨u_s, x̃_i⟩ ≥ 1   and   ⟨u_s - u_{-s}, x̃_i⟩ ≥ 1   for every i of sign s.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.networks.activations import ReLU
from featureprism.networks.two_layer import TwoLayerNet
from featureprism.records import check_points
from featureprism.threads import one_thread

MAX_REWEIGHTINGS = 100
SETTLED = 1e-12  # relative change of the two norms
INFEASIBLE = 1e-12  # share of the Farkas combination that is left


class NotSeparableError(ValueError):
    """No network with one direction for each sign has all margins positive."""


@dataclass(frozen=True)
class MaxMargin:
    """The least-norm network with one neuron for each sign, and what proves it.

    `alone` and `against` are the multipliers of the two constraints of each point: λ_i = alone_i + against_i, and where the
    neuron of the other sign sits on its kink, against_i/λ_i is its Clarke derivative.
    """

    net: TwoLayerNet
    alone: Float[Tensor, " n"]
    against: Float[Tensor, " n"]

    @property
    def multipliers(self) -> Float[Tensor, " n"]:
        """λ_i of y_i N(x_i) ≥ 1; they add up to ½‖θ‖²."""
        return self.alone + self.against


@one_thread()
def max_margin_network(x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> MaxMargin:
    """Solve the convex problem of the module's head to rounding, in float64.

    ‖u‖ = min_a ½(‖u‖²/a + a) turns it into least-norm problems under linear constraints, each a non-negative least squares in 2n
    columns (Lawson & Hanson, ch. 23), reweighted until both norms settle. Raises NotSeparableError with the points whose constraints
    contradict each other (Farkas) when there is no such network. That the flow ends here is an observation, not a theorem.

    >>> import featureprism as fp
    >>> clusters = fp.orthogonal_clusters(100, 2, 2, 1.0, generator=fp.generator_for("centres", 0))
    >>> data = fp.sample_balanced(clusters, 3, generator=fp.generator_for("train", 0))
    >>> net = fp.max_margin_network(data.x, data.y).net
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
    rows = _constraints(points, y)
    norms = np.ones(2)
    multipliers, directions = np.zeros(len(rows)), np.zeros((2, points.shape[1]))
    for _ in range(MAX_REWEIGHTINGS):
        weighted = (rows * np.sqrt(norms)[:, None]).reshape(len(rows), -1)
        multipliers, least = _least_norm(weighted, len(y))
        directions = np.sqrt(norms)[:, None] * least.reshape(2, -1)
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


def _constraints(points: Tensor, y: Tensor) -> np.ndarray:
    """(2n, 2, r): coefficients of (u₊, u₋) in ⟨u_s, x̃_i⟩, then in ⟨u_s - u_{-s}, x̃_i⟩."""
    own = torch.stack([y > 0, y < 0], dim=1).to(points.dtype)  # (n, 2)
    alone = own.unsqueeze(2) * points.unsqueeze(1)
    against = (2 * own - 1).unsqueeze(2) * points.unsqueeze(1)
    return torch.cat([alone, against]).numpy()


def _least_norm(rows: np.ndarray, num_points: int) -> tuple[np.ndarray, np.ndarray]:
    """min ½‖v‖² with rows·v ≥ 1, as (multipliers, v): minimise ‖(rowsᵀλ, 1ᵀλ - 1)‖ over λ ≥ 0, then v = rowsᵀλ/(1 - 1ᵀλ)."""
    size = np.linalg.norm(rows, axis=1).max()
    stacked = np.vstack([rows.T / size, np.ones(len(rows))])
    target = np.zeros(len(stacked))
    target[-1] = 1
    from scipy.optimize import nnls  # takes half a second

    weights, _ = nnls(stacked, target, maxiter=50 * len(rows))
    left = 1 - weights.sum()
    combination = rows.T @ weights
    if left <= INFEASIBLE:
        guilty = sorted({int(i) % num_points for i in np.argsort(-weights)[:6] if weights[i] > 0})
        raise NotSeparableError(
            "Not separable by a depth-2 network with one direction for each sign: the margins of points "
            f"{', '.join(map(str, guilty))} (among others) contradict each other, so the smallest violation of y N(x) ≥ 1 is 1 "
            f"(the zero network). Their constraints cancel up to {np.linalg.norm(combination) / size:.1e}."
        )
    return weights / left / size**2, combination / left / size**2


def _balanced(u: Float[Tensor, "2 r"]) -> TwoLayerNet:
    """One neuron for each sign with v² = ‖w‖² + b² and |v| (w, b) = u."""
    root = torch.linalg.vector_norm(u, dim=1).sqrt()
    lifted = u / root.unsqueeze(1)
    votes = root * torch.tensor([1.0, -1.0], dtype=u.dtype)
    return TwoLayerNet(lifted[:, :-1], votes, lifted[:, -1], activation=ReLU())
