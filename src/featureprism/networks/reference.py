"""Classifiers that know the centres, and their exact ℓ2 radii.

All three read x only through the scores a_k = ⟨x, μ_k⟩/‖μ_k‖ of orthogonal centres, so a perturbation of x
is a perturbation of the scores of the same norm.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._inputs import check_points
from featureprism.brackets import RadiusBracket
from featureprism.geometry import row_norms, unit_rows
from featureprism.models.activations import relu_power

ORTHOGONALITY_TOLERANCE = (
    1e-6  # largest cosine between two centres still called orthogonal (float32 QR: 2e-7)
)
ROUNDING = 1e-12  # float64 scores of size ~1, a handful of sums
NEWTON_STEPS = 40  # quadratic convergence from the safe side; 40 covers a flat start
MULTIPLIER_GRID = 257  # points of the one-dimensional root search for F^(p)
RADII_TOGETHER = 1000  # points whose grids are in memory at a time


class _ScoreClassifier(nn.Module):
    """Reads x through the scores of orthogonal centres of one norm; abstract."""

    def __init__(self, centres: Float[Tensor, "k d"], labels: Float[Tensor, " k"]) -> None:
        super().__init__()
        directions = unit_rows(centres)
        cosines = directions @ directions.T - torch.eye(len(centres), dtype=centres.dtype)
        norms = row_norms(centres)
        if float(cosines.abs().max()) > ORTHOGONALITY_TOLERANCE or not torch.allclose(norms, norms[:1]):
            raise ValueError("Reference classifiers need orthogonal centres of one norm.")
        check_points(centres, labels)
        self.register_buffer("directions", directions)
        self.register_buffer("labels", labels)
        self.directions: Tensor
        self.labels: Tensor

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the classifier can see."""
        return self.directions

    def scores(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "n kp"], Float[Tensor, "n kn"]]:
        """Scores with the positive and with the negative centres."""
        a = x @ self.directions.T
        return a[:, self.labels > 0], a[:, self.labels < 0]

    def own_and_other(
        self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]
    ) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n k"]]:
        """Scores of the centres of the point's own class and of the other; absent ones are -inf."""
        a = x @ self.directions.T
        own = self.labels.unsqueeze(0) == y.unsqueeze(1)
        absent = torch.full_like(a, -torch.inf)
        return torch.where(own, a, absent), torch.where(own, absent, a)


class NearestCluster(_ScoreClassifier):
    """f(x) = max_{k positive} a_k - max_{k negative} a_k. Source: gmm-flow, eq. (4)."""

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x) for every point."""
        positive, negative = self.scores(x)
        return positive.amax(dim=1) - negative.amax(dim=1)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "NearestCluster":
        """The same function of z = basisᵀ x."""
        return NearestCluster(self.directions.to(basis.dtype) @ basis, self.labels.to(basis.dtype))

    def exact_radius(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Least ‖δ‖ with y f(x + δ) ≤ 0, in closed form (see `pooled_radius`)."""
        check_points(x, y)
        own, other = self.own_and_other(x, y)
        return pooled_radius(own, other.amax(dim=1))


class BayesClassifier(_ScoreClassifier):
    """The Bayes rule of a mixture of Gaussians, as (σ²/‖μ‖)(LSE_+ - LSE_-) of ‖μ‖a_k/σ² with a_k = ⟨x, μ_k⟩/‖μ‖.

    Log-sum-exp keeps the exponents, of size D/α² ~ 1e5 and more, harmless.

    Parameters
    ----------
    centres : tensor (k, d)
        Centres of the clusters.
    labels : tensor (k,)
        Label of each centre, -1 or +1.
    noise_std : float
        Standard deviation σ of the noise in each coordinate.

    References
    ----------
    gmm-flow, Proposition 2.
    """

    def __init__(self, centres: Float[Tensor, "k d"], labels: Float[Tensor, " k"], noise_std: float) -> None:
        super().__init__(centres, labels)
        self.temperature = noise_std**2 / float(row_norms(centres)[0])
        if not self.temperature > 0:
            raise ValueError(f"The Bayes rule needs noise_std > 0, got {noise_std}.")

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x) for every point."""
        t = self.temperature
        positive, negative = (t * torch.logsumexp(a / t, dim=1) for a in self.scores(x))
        return positive - negative

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "BayesClassifier":
        """The same function of z = basisᵀ x."""
        reduced = BayesClassifier(self.directions.to(basis.dtype) @ basis, self.labels.to(basis.dtype), 1.0)
        reduced.temperature = self.temperature
        return reduced

    def radius_bracket(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> RadiusBracket:
        """max ≤ t·LSE(·/t) ≤ max + t log k, so shifted nearest-cluster radii enclose the true one."""
        check_points(x, y)
        own, other = self.own_and_other(x, y)
        num_own = torch.isfinite(own).sum(dim=1)
        rival = other.amax(dim=1)
        slack_other = self.temperature * torch.isfinite(other).sum(dim=1).log()
        certified = pooled_radius(own, rival + slack_other)
        attacked = pooled_radius(own, rival - self.temperature * num_own.log())
        return RadiusBracket((certified - ROUNDING).clamp_min(0).numpy(), (attacked + ROUNDING).numpy())


class PolynomialClassifier(_ScoreClassifier):
    """F^(p)(x) = Σ_{k positive} [a_k]₊^p - Σ_{k negative} [a_k]₊^p with a_k = ⟨x, μ_k⟩/‖μ‖.

    Parameters
    ----------
    centres : tensor (k, d)
        Centres of the clusters.
    labels : tensor (k,)
        Label of each centre, -1 or +1.
    p : float
        The power.

    References
    ----------
    gmm-flow, equation (9).
    """

    def __init__(self, centres: Float[Tensor, "k d"], labels: Float[Tensor, " k"], p: float) -> None:
        super().__init__(centres, labels)
        if not p >= 1:
            raise ValueError(f"The power p must be at least 1, got {p}.")
        self.p = p

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """F^(p)(x) for every point."""
        return relu_power(x @ self.directions.T, self.p) @ self.labels

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """F^(p)(x) and its gradient."""
        a = x @ self.directions.T
        slope = self.p * relu_power(a, self.p - 1) * self.labels
        return relu_power(a, self.p) @ self.labels, slope @ self.directions

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "PolynomialClassifier":
        """The same function of z = basisᵀ x."""
        return PolynomialClassifier(
            self.directions.to(basis.dtype) @ basis, self.labels.to(basis.dtype), self.p
        )

    def exact_radius(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Least ‖δ‖ with y F(x + δ) ≤ 0 for p > 2 (see `separable_radius`)."""
        check_points(x, y)
        own, other = self.own_and_other(x, y)
        blocks = zip(own.split(RADII_TOGETHER), other.split(RADII_TOGETHER), strict=True)
        return torch.cat([separable_radius(mine, theirs, self.p) for mine, theirs in blocks])


def pooled_radius(own: Float[Tensor, "n k"], rival: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Least ‖δ‖ that brings the largest own score down to one rival score, which may rise.

    With own scores sorted, the r largest and the rival meet at their mean t, for the r with
    own_r ≥ t ≥ own_(r+1): radius² = (t - rival)² + Σ_{i≤r} (own_i - t)². 0 if the rival is above already.
    """
    ordered = own.sort(dim=1, descending=True).values
    present = torch.isfinite(ordered)
    filled = torch.where(present, ordered, torch.zeros_like(ordered))
    count = torch.arange(1, own.shape[1] + 1, dtype=own.dtype)
    level = (rival.unsqueeze(1) + filled.cumsum(dim=1)) / (count + 1)
    following = torch.cat([ordered[:, 1:], torch.full_like(ordered[:, :1], -torch.inf)], dim=1)
    pooled = (level >= following).to(torch.int8).argmax(dim=1, keepdim=True)  # first r that fits
    t = level.gather(1, pooled).squeeze(1)
    drop = (filled - t.unsqueeze(1)).clamp_min(0) * present
    radius = ((t - rival) ** 2 + (drop**2).sum(dim=1)).sqrt()
    return torch.where(rival >= ordered[:, 0], torch.zeros_like(radius), radius)


def separable_radius(own: Float[Tensor, "n k"], other: Float[Tensor, "n k"], p: float) -> Float[Tensor, " n"]:
    """Least ‖δ‖ with Σ [own + δ]₊^p ≤ Σ [other + δ]₊^p, p > 2, from its stationarity conditions.

    With multiplier m ≥ 0 own scores move to the root of c + m c^(p-1) = own, other scores to a root of
    c - m c^(p-1) = other. At a minimum at most one of these is the larger root (a second one would be a second
    direction of negative curvature), and exchanging two scores shows it is that of the largest other score.
    So each point has one curve in the value c of that score, on which all crossings are found by a grid and
    bisection; the cheapest one, or erasing all own scores, is the minimum.
    """
    if not p > 2:
        raise ValueError(f"The exact radius of F^(p) is known for p > 2, got p = {p}; use an attack.")
    own = torch.where(torch.isfinite(own), own, torch.zeros_like(own)).clamp_min(0)
    rival, at = other.max(dim=1)
    rest = other.scatter(1, at.unsqueeze(1), -torch.inf)
    rest = torch.where(torch.isfinite(rest), rest, torch.zeros_like(rest)).clamp_min(0)
    lowest, erase = rival.clamp_min(0), torch.linalg.vector_norm(own, dim=1)

    # c from its lowest value (no multiplier, so not flipped) to where erasing the own scores is cheaper; fine near both ends
    share = torch.linspace(0, 1, MULTIPLIER_GRID, dtype=own.dtype)
    share = torch.cat([torch.logspace(-14, -3, 45, dtype=own.dtype), share[1:]]).sort().values
    top = lowest + erase + rest.amax(dim=1) + 1e-9
    grid = lowest.unsqueeze(1) + (top - lowest).unsqueeze(1) * share  # (n, g)
    points = torch.arange(len(own)).repeat_interleave(len(share))
    gap, _ = _gap_and_cost(own[points], rest[points], rival[points], grid.flatten(), p)
    start = lowest.unsqueeze(1)
    grid = torch.cat([start, grid], dim=1)
    above = torch.cat([torch.ones_like(start, dtype=torch.bool), gap.reshape(len(own), -1) > 0], dim=1)

    point, column = (above[:, :-1] != above[:, 1:]).nonzero(as_tuple=True)
    left, right, sign = grid[point, column], grid[point, column + 1], above[point, column]
    curve = own[point], rest[point], rival[point]
    for _ in range(60):
        middle = (left + right) / 2
        same = (_gap_and_cost(*curve, middle, p)[0] > 0) == sign
        left, right = torch.where(same, middle, left), torch.where(same, right, middle)
    _, cost = _gap_and_cost(*curve, right, p)
    best = erase.scatter_reduce(0, point, cost.sqrt(), "amin")
    flipped = (own**p).sum(dim=1) <= (rest**p).sum(dim=1) + lowest**p
    return torch.where(flipped, torch.zeros_like(best), best)


def _gap_and_cost(own: Tensor, rest: Tensor, rival: Tensor, c: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Σ own^p - Σ other^p and ‖δ‖² on the stationary curve where the rival score stands at c."""
    m = ((c - rival) / c.clamp_min(1e-300) ** (p - 1)).unsqueeze(1)
    low, high = _root_below(own, m, p), _smaller_root_above(rest, m, p)
    gap = (low**p).sum(dim=1) - (high**p).sum(dim=1) - c**p
    moved = ((low - own) ** 2).sum(dim=1) + ((high - rest) ** 2).sum(dim=1)
    return gap, moved + (c - rival) ** 2


def _root_below(score: Tensor, m: Tensor, p: float) -> Tensor:
    """The c in [0, score] with c + m c^(p-1) = score: closed for p = 3, else Newton from above."""
    if p == 3:
        return 2 * score / (1 + (1 + 4 * m * score).sqrt())
    c = score.expand(torch.broadcast_shapes(score.shape, m.shape))
    for _ in range(NEWTON_STEPS):
        power = m * c ** (p - 2)
        c = (c - (c + power * c - score) / (1 + (p - 1) * power)).clamp_min(0)
    return c


def _smaller_root_above(score: Tensor, m: Tensor, p: float) -> Tensor:
    """The smaller c ≥ score with c - m c^(p-1) = score, or the turning point where there is none."""
    if p == 3:
        return 2 * score / (1 + (1 - 4 * m * score).clamp_min(0).sqrt())
    turning = (m * (p - 1)).clamp_min(1e-300) ** (-1 / (p - 2))
    c = torch.minimum(score, turning)
    for _ in range(NEWTON_STEPS):
        power = m * c ** (p - 2)
        slope = (1 - (p - 1) * power).clamp_min(1e-12)
        c = torch.minimum(c + (score - c + power * c) / slope, turning)
    return c
