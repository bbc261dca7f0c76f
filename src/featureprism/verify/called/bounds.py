"""Radii of nearest neighbours and kernel machines: what is known of each kind."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._threads import one_thread
from featureprism.attacks import Towards, minimal_radius

FEASIBLE = 1e-9  # relative to the squared distances: a violation below this is rounding
INSIDE = 1e-7  # share of the way to the stranger that a witness goes beyond the edge of its cell
NEAR = 100  # points of the class, the nearest, whose bisectors bound the radius before anything is solved
CUTS = 60  # half-spaces added one by one before a programme is given up and its bound from below is kept


def nearest_neighbour_radius(
    train: Float[np.ndarray, "n d"], labels: np.ndarray, x: Float[np.ndarray, " d"], y: object
) -> tuple[float, Float[np.ndarray, " d"] | None]:
    """A lower bound of the radius of one point, and the shortest perturbation found that flips it, None where there is none.

    Their lengths agree to INSIDE unless CUTS runs out; both are 0 where misclassified.
    """
    same_class, strangers = train[labels == y], train[labels != y]
    to_same, to_strangers = (points - x for points in (same_class, strangers))
    same_square, strange_square = ((to_same**2).sum(axis=1), (to_strangers**2).sum(axis=1))
    if strange_square.min() <= same_square.min():
        return 0.0, np.zeros_like(x)
    near = np.argsort(same_square)[:NEAR]
    gaps = np.maximum(same_square[near, None] + strange_square - 2 * to_same[near] @ to_strangers.T, 1e-300)
    bounds = ((strange_square - same_square[near, None]) / (2 * np.sqrt(gaps))).max(axis=0)
    low, high, shortest = np.inf, np.inf, None
    for j in np.argsort(bounds):
        if bounds[j] >= high:
            break
        delta, proven = _to_cell(to_same, same_square, to_strangers[j], strange_square[j], high)
        low = min(low, proven)
        if delta is not None:
            # the stranger lies inside its cell, which is convex: a little towards it from the edge is inside too
            delta = delta + INSIDE * (to_strangers[j] - delta)
            if np.linalg.norm(delta) < high:
                high, shortest = float(np.linalg.norm(delta)), delta
    return min(low, high), shortest


def _to_cell(
    same_class: Float[np.ndarray, "n d"],
    same_square: Float[np.ndarray, " n"],
    stranger: Float[np.ndarray, " d"],
    strange_square: float,
    best: float,
) -> tuple[Float[np.ndarray, " d"] | None, float]:
    """The argument (None where not found) and a lower bound of min ‖δ‖ s.t. Aδ ≥ c, with one row for each point of the class.

    A_i = 2(x_j - x_i), c_i = ‖x_j - x‖² - ‖x_i - x‖²; the worst cut joins in turn.
    """
    from scipy.optimize import nnls  # takes half a second

    A, c = 2 * (stranger - same_class), strange_square - same_square
    chosen = [int((c / np.linalg.norm(A, axis=1).clip(1e-300)).argmax())]
    low = 0.0
    for _ in range(CUTS):
        # the projection of 0 on {Aδ ≥ c}, by non-negative least squares (Lawson & Hanson, least-distance programming)
        system = np.vstack([A[chosen].T, c[chosen]])
        target = np.append(np.zeros(same_class.shape[1]), 1.0)
        multipliers, _ = nnls(system, target)
        residual = system @ multipliers - target
        if residual[-1] > -1e-12:
            return None, np.inf  # the half-spaces have no common point
        delta = -residual[:-1] / residual[-1]
        low = max(low, float(np.linalg.norm(delta)))
        if low >= best:
            return None, low
        violation = c - A @ delta
        worst = int(violation.argmax())
        if violation[worst] <= FEASIBLE * strange_square:
            return delta, low
        chosen.append(worst)
    return None, low


STRONGEST = 8  # support vectors of each class that the attack starts towards


class KernelNet(nn.Module):
    """f(x) = Σ_i α_i exp(-γ‖x - x_i‖²) + b, with its gradient and its norm in the kernel's space."""

    def __init__(self, points: Tensor, alpha: Tensor, bias: float, gamma: float) -> None:
        super().__init__()
        self.points, self.alpha = nn.Parameter(points), nn.Parameter(alpha)
        self.bias, self.gamma = bias, gamma

    def _kernel(self, x: Tensor) -> Tensor:
        return torch.exp(-self.gamma * torch.cdist(x, self.points) ** 2)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x)."""
        return self._kernel(x) @ self.alpha + self.bias

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """f(x) and ∇f(x) = 2γ Σ_i α_i k(x, x_i) (x_i - x)."""
        weighted = self._kernel(x) * self.alpha
        total = weighted.sum(dim=1)
        return total + self.bias, 2 * self.gamma * (weighted @ self.points - total.unsqueeze(1) * x)

    @torch.no_grad()
    def certified(self, margin: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """r with ‖f‖_H √(2 - 2 exp(-γr²)) = margin: by Cauchy-Schwarz in the space of the kernel, f changes less on the way."""
        square = self.alpha @ self._kernel(self.points) @ self.alpha
        share = (margin.clamp_min(0) ** 2 / (2 * square)).clamp_max(1 - 1e-12)
        return (-torch.log1p(-share) / self.gamma).sqrt() * (1 - 1e-9)


def kernel_radii(machine: Any, x: Float[np.ndarray, "n d"], label: np.ndarray) -> Float[np.ndarray, " n"]:
    """(n,) ℓ2 radii within which the true class wins all its duels against the others, and so the vote."""
    k, first = len(machine.classes_), np.concatenate([[0], np.cumsum(machine.n_support_)])
    points, gamma = torch.as_tensor(machine.support_vectors_).double(), float(machine._gamma)
    radius, z, duel = np.full(len(x), np.inf), torch.as_tensor(x).double(), 0
    for i in range(k):
        for j in range(i + 1, k):
            alpha = np.zeros(len(points))
            alpha[first[i] : first[i + 1]] = machine.dual_coef_[j - 1, first[i] : first[i + 1]]
            alpha[first[j] : first[j + 1]] = machine.dual_coef_[i, first[j] : first[j + 1]]
            net = KernelNet(points, torch.as_tensor(alpha), float(machine.intercept_[duel]), gamma)
            with torch.no_grad():
                value = net(z).numpy()
            # of two classes scikit-learn turns the sign round: positive means the second one
            sign = -1.0 if k == 2 else 1.0
            for true_class, s in ((i, sign), (j, -sign)):
                rows = label == true_class
                margin = torch.as_tensor(s * value[rows])
                radius[rows] = np.minimum(radius[rows], net.certified(margin).numpy())
            duel += 1
    return np.where(np.isfinite(radius), radius, 0.0)


@one_thread()
def kernel_flips(
    machine: Any, x: Float[np.ndarray, "n d"], label: np.ndarray, norm: float, domain: Any
) -> Float[np.ndarray, "n d"]:
    """Perturbations that flip a machine of two classes: by its gradient, from the strongest support vectors of the other class."""
    points = torch.as_tensor(machine.support_vectors_).double()
    alpha = torch.as_tensor(machine.dual_coef_[0]).double()
    net = KernelNet(points, alpha, float(machine.intercept_[0]), float(machine._gamma))
    z, signs = torch.as_tensor(x).double(), torch.as_tensor(2.0 * label - 1)
    strong = torch.cat([(s * alpha).topk(min(STRONGEST, len(alpha))).indices for s in (1.0, -1.0)])
    starts = [Towards(points[strong], torch.sign(alpha[strong]))]
    upper = 2 * float(torch.cdist(z, points).max())
    flips = minimal_radius(
        net, z, signs, starts=starts, upper=upper, norm=norm, domain=domain, steps=10, rounds=3
    )
    # a little beyond the boundary, where scikit-learn's own arithmetic has changed its answer as well
    return torch.where(torch.isfinite(flips.radius).unsqueeze(1), (1 + 1e-9) * flips.delta, 0.0).numpy()
