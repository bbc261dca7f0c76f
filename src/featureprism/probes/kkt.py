"""How far a network is from a KKT point of the max-margin problem on a data set.

    min ½‖θ‖²   subject to   y_i N(x_i) ≥ 1,   N(x) = Σ_j v_j [⟨w_j, x⟩ + b_j]₊

KKT: w_j = Σ_i λ_i y_i v_j φ'_ij x_i,  b_j = Σ_i λ_i y_i v_j φ'_ij,  v_j = Σ_i λ_i y_i [⟨w_j, x_i⟩ + b_j]₊, λ_i ≥ 0,
λ_i (y_i N(x_i) - 1) = 0, with φ'_ij = 1 above the kink, 0 below and anything in [0, 1] on it (Clarke). Source: double-edged,
eqs. (3), (4), (6), (7), which leave out the condition for v_j.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featureprism._inputs import as_tensors, check_points
from featureprism._nonnegative import nonnegative_minimum
from featureprism._threads import one_thread
from featureprism.geometry import row_norms
from featureprism.networks import ReLU, TwoLayerNet

ROUNDS = 12  # of the search for derivatives on kinks
ENOUGH = 0.98  # it ends where a round leaves so much of the squared residual
RIDGE = 1e-12  # of the largest diagonal entry of a Gram matrix whose columns depend on each other to rounding
ROUNDING = 1e-9  # cosine with the residual below which a gradient does not point to it
SUPPORT = 1e-6  # a point whose multiplier is above this share of the largest supports the margin


@dataclass(frozen=True)
class KKTAudit:
    """The KKT conditions of a network, measured after rescaling it to least margin 1.

    Attributes
    ----------
    multipliers : tensor (n,)
        Multipliers λ of the points.
    on_kink_share : tensor (n, h)
        Derivative of a neuron on its kink at a point, where it is free; 0 elsewhere.
    stationarity : float
        ‖left - right side‖/‖θ‖ of the stationarity condition.
    stationarity_w, stationarity_b, stationarity_v : float
        Its parts for weights, biases and output weights.
    feasibility : float
        1 - the least margin before rescaling.
    slackness : float
        max_i λ_i |y_i N(x_i) - 1|/Σλ.
    normalised_margin : float
        min y N/‖θ‖².
    balance : float
        max_j |v_j² - ‖w_j‖² - b_j²|/max v_j², 0 at a KKT point.
    sum_gap : float
        |Σλ/(‖θ‖²/2) - 1|, 0 at a KKT point.
    support : tensor (n,) of bool
        Points on the margin.
    on_kink : int
        Pairs of a neuron and a point with |⟨w_j, x_i⟩ + b_j| ≤ tolerance ‖(w_j, b_j)‖ ‖(x_i, 1)‖.
    tolerance : float
        The tolerance that was used.
    """

    multipliers: Float[Tensor, " n"]
    on_kink_share: Float[Tensor, "n h"]
    stationarity: float
    stationarity_w: float
    stationarity_b: float
    stationarity_v: float
    feasibility: float
    slackness: float
    normalised_margin: float
    balance: float
    sum_gap: float
    support: Bool[Tensor, " n"]
    on_kink: int
    tolerance: float

    def as_row(self) -> dict[str, Any]:
        """The numbers as a flat row."""
        names = (
            "stationarity",
            "stationarity_w",
            "stationarity_b",
            "stationarity_v",
            "feasibility",
            "slackness",
        )
        names += ("normalised_margin", "balance", "sum_gap", "on_kink", "tolerance")
        return {name: getattr(self, name) for name in names} | {"support": int(self.support.sum())}


@one_thread()
@torch.no_grad()
def kkt_audit(
    net: TwoLayerNet,
    x: Any,
    y: Any,
    *,
    tolerance: float = 1e-3,
    multipliers: tuple[Tensor, Tensor] | None = None,
) -> KKTAudit:
    """Measure every KKT condition of a ReLU network on a data set.

    The multipliers are the non-negative least squares fit of θ by the gradients y_i ∇N(x_i); each neuron on its kink at a point has a
    derivative of its own there.

    Parameters
    ----------
    net : TwoLayerNet
        A ReLU network, with or without biases.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    tolerance : float
        Points within this share of the smallest margin are on the margin.
    multipliers : pair of tensors, optional
        Multipliers λ of the points and derivatives of the neurons on their kinks, of the rescaled network,
        instead of a fit.

    Returns
    -------
    KKTAudit
        Margins, multipliers, and the residual of stationarity.

    Raises
    ------
    ValueError
        If a point is misclassified: there is no margin then.

    References
    ----------
    Lyu & Li, ICLR 2020; double-edged, Theorem 2.1.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(100, 2, 2, 1.0, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample_balanced(clusters, 3, generator=fp.generator_for("train", 0))
    >>> net = fp.training.max_margin_network(data.x, data.y).net
    >>> fp.probes.kkt_audit(net, data.x, data.y).stationarity < 1e-6
    True
    """
    x, y = as_tensors(x, y)
    check_points(x, y, at_least=1)
    if not isinstance(net.activation, ReLU) or net.W.ndim != 2:
        raise ValueError(
            "The KKT audit is for one two-layer ReLU network; other activations have other conditions."
        )
    if not 0 <= tolerance < 1:
        raise ValueError(f"The tolerance of kinks must be at least 0 and below 1, got {tolerance}.")
    x, y = x.double(), y.double()
    lifted, w = _lift(net, x)
    v = net.a.detach().double()
    margins = y * ((lifted @ w.T).clamp_min(0) @ v)
    least = _least_positive(margins)
    gradients = _Gradients(w / least**0.5, v / least**0.5, lifted, y, tolerance)
    if multipliers is None:
        weights, shares = gradients.fit()
    else:
        weights, shares = multipliers
        shares = (shares.unsqueeze(1) if shares.ndim == 1 else shares).expand_as(gradients.kink)
    return _measured(gradients, weights, shares, margins, net.b is not None, tolerance)


def _least_positive(margins: Float[Tensor, " n"]) -> float:
    """The least margin; a network that is wrong on a point is refused."""
    least = float(margins.min())
    if wild := int((~torch.isfinite(margins)).sum()):
        raise ValueError(
            f"The network gives NaN or infinite values on {wild} of {len(margins)} points; scale its weights or the points down."
        )
    if not least > 0:
        wrong = int((margins <= 0).sum())
        raise ValueError(
            f"The network has a margin y N(x) ≤ 0 on {wrong} of {len(margins)} points (least {least:.3g}); no rescaling of it is "
            "feasible, so it is at no KKT point. Train it until every point is on its side."
        )
    return least


def _measured(
    gradients: "_Gradients",
    weights: Tensor,
    shares: Tensor,
    margins: Tensor,
    has_bias: bool,
    tolerance: float,
) -> KKTAudit:
    """Every condition, from the rescaled network's gradients, the multipliers and the margins before rescaling."""
    w, v = gradients.w, gradients.v
    residual_w, residual_v = gradients.residual(weights, shares)
    least, total = float(margins.min()), float(weights.sum())
    size = float((w**2).sum() + (v**2).sum())
    part_b = residual_w[:, -1] if has_bias else residual_w.new_zeros(1)
    part_w = residual_w[:, :-1] if has_bias else residual_w

    def relative(part: Tensor) -> float:
        return float(torch.linalg.vector_norm(part)) / size**0.5

    return KKTAudit(
        multipliers=weights,
        on_kink_share=shares * gradients.kink,
        stationarity=relative(torch.cat([residual_w.flatten(), residual_v])),
        stationarity_w=relative(part_w),
        stationarity_b=relative(part_b),
        stationarity_v=relative(residual_v),
        feasibility=1 - least,
        slackness=float((weights * (margins / least - 1)).abs().max()) / max(total, 1e-300),
        normalised_margin=1 / size,
        balance=float((v**2 - (w**2).sum(dim=1)).abs().max() / (v**2).max()),
        sum_gap=abs(total / (size / 2) - 1),
        support=weights > SUPPORT * weights.max(),
        on_kink=int(gradients.kink.sum()),
        tolerance=tolerance,
    )


def _lift(net: TwoLayerNet, x: Tensor) -> tuple[Tensor, Tensor]:
    """(x, 1) and (w, b), or x and w for a network without biases."""
    if net.b is None:
        return x, net.W.detach().double()
    bias = net.b.detach().double().unsqueeze(1)
    return torch.cat([x, torch.ones_like(x[:, :1])], dim=1), torch.cat([net.W.detach().double(), bias], dim=1)


class _Columns(NamedTuple):
    """Gradients y_i ∇N(x_i) of points with some of their kink neurons on: which point, and which of its kink neurons."""

    point: Int[Tensor, " m"]
    on: Bool[Tensor, "m h"]

    def joined(self, other: "_Columns") -> "_Columns":
        """These and those."""
        return _Columns(torch.cat([self.point, other.point]), torch.cat([self.on, other.on]))

    def chosen(self, which: Tensor) -> "_Columns":
        """Some of them."""
        return _Columns(self.point[which], self.on[which])


class _Gradients:
    """θ as a mixture of the gradients y_i ∇N(x_i), the derivatives of kink neurons being free in [0, 1]."""

    def __init__(self, w: Tensor, v: Tensor, lifted: Tensor, y: Tensor, tolerance: float) -> None:
        z = lifted @ w.T
        slack = tolerance * row_norms(w) * row_norms(lifted).unsqueeze(1)
        self.kink = z.abs() <= slack
        self.above = (z > slack).to(w.dtype)
        self.w, self.v, self.lifted, self.y = w, v, lifted, y
        self.response = z.clamp_min(0)

    @cached_property
    def inner(self) -> Float[Tensor, "n n"]:
        """⟨x̃_i, x̃_j⟩, which every solve needs."""
        return self.lifted @ self.lifted.T

    def residual(self, weights: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """θ - Σ_i λ_i y_i ∇N(x_i) with derivatives `shares` on kinks, as its (w, b) rows and its v entries."""
        signed = (self.y * weights).unsqueeze(1)
        rows = self.w - self.v.unsqueeze(1) * ((signed * (self.above + self.kink * shares)).T @ self.lifted)
        return rows, self.v - self.response.T @ signed[:, 0]

    def fit(self) -> tuple[Tensor, Tensor]:
        """The multipliers and derivatives of least residual, by column generation.

        A point with r kink neurons has 2^r gradients, of which all mixtures are allowed. It begins with two, all of these neurons off
        and all on; then, where a point has more kinks than one, the gradient that the residual points to most joins in, which is
        found neuron by neuron. What no gradient can improve is the least residual; it stops where a round gains next to nothing.
        """
        every, mixed = torch.arange(len(self.y)), torch.nonzero(self.kink.any(dim=1))[:, 0]
        columns = _Columns(every, torch.zeros_like(self.kink)).joined(_Columns(mixed, self.kink[mixed]))
        weights = self._solve(columns, columns.point.new_ones(len(columns.point)).bool())
        best = self._merged(columns, weights)
        for _ in range(ROUNDS if bool((self.kink.sum(dim=1) > 1).any()) else 0):
            residual = self.residual(*best)
            more = self._steepest(residual)
            if len(more.point) == 0:
                break
            used = columns.chosen(weights > 0)
            columns = used.joined(more)
            weights = self._solve(columns, torch.arange(len(columns.point)) < len(used.point))
            following = self._merged(columns, weights)
            before, after = _size(residual), _size(self.residual(*following))
            best = following if after < before else best
            if after > ENOUGH * before:
                break
        return best

    def _steepest(self, residual: tuple[Tensor, Tensor]) -> _Columns:
        """For each point the gradient with the largest product with the residual, where that is positive."""
        rows, votes = residual
        gain = self.y.unsqueeze(1) * self.v * (self.lifted @ rows.T)  # (n, h)
        on = self.kink & (gain > 0)
        product = (gain * (self.above + on)).sum(dim=1) + self.y * (self.response @ votes)
        squares = (self.lifted**2).sum(dim=1) * ((self.above + on) @ self.v**2) + (self.response**2).sum(
            dim=1
        )
        found = torch.nonzero(product > ROUNDING * (squares * _size(residual)).sqrt())[:, 0]
        return _Columns(found, on[found])

    def _solve(self, columns: _Columns, free: Tensor) -> Tensor:
        """Non-negative least squares through the Gram matrix, then refined on its support against the true residual."""
        points, signs = self.lifted[columns.point], self.y[columns.point].unsqueeze(1)
        response = signs * self.response[columns.point]
        slopes = signs * self.v * (self.above[columns.point] + columns.on)
        inner = self.inner[columns.point][:, columns.point]
        gram = (slopes @ slopes.T).mul_(inner).add_(response @ response.T)
        products = ((slopes @ self.w) * points).sum(dim=1) + response @ self.v
        weights = _nonnegative(gram, products, free)
        active = torch.nonzero(weights > 0)[:, 0]
        solved = _solver(gram[active][:, active])
        for _ in range(3):
            rows, votes = self.residual(*self._merged(columns, weights))
            slope = ((slopes[active] @ rows) * points[active]).sum(dim=1) + response[active] @ votes
            following = weights.index_copy(0, active, (weights[active] + solved(slope)).clamp_min(0))
            if _size(self.residual(*self._merged(columns, following))) >= _size((rows, votes)):
                break
            weights = following
        return weights

    def _merged(self, columns: _Columns, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Multiplier of each point, and the derivatives of its kink neurons."""
        total = torch.zeros_like(self.y).index_add(0, columns.point, weights)
        on = torch.zeros_like(self.above).index_add(0, columns.point, weights.unsqueeze(1) * columns.on)
        return total, on / total.clamp_min(1e-300).unsqueeze(1)


def _nonnegative(gram: Tensor, products: Tensor, free: Tensor) -> Tensor:
    """Non-negative least squares: in blocks, from a guess of the columns in use; where these do not end by active sets, slowly."""
    for matrix in (gram, _steady(gram)):
        quickly = nonnegative_minimum(matrix.numpy(), products.numpy(), free.numpy())
        if quickly is not None:
            return torch.from_numpy(quickly)
    from scipy.optimize import nnls  # takes half a second

    values, vectors = torch.linalg.eigh(gram)
    root = values.clamp_min(values[-1] * 1e-14).sqrt()
    target = (vectors.T @ products / root).numpy()
    return torch.from_numpy(nnls((vectors * root).T.numpy(), target, maxiter=50 * len(products))[0])


def _solver(gram: Tensor) -> Callable[[Tensor], Tensor]:
    """v ↦ G⁻¹v by a Cholesky factor; by the pseudo-inverse where columns depend on each other by more than the ridge."""
    factor, failed = torch.linalg.cholesky_ex(_steady(gram))
    if failed:
        return torch.linalg.pinv(gram, rtol=1e-13, hermitian=True).mv
    return lambda v: torch.cholesky_solve(v.unsqueeze(1), factor)[:, 0]


def _steady(gram: Tensor) -> Tensor:
    """A Gram matrix with a ridge that is a rounding error: positive definite also where columns depend on each other."""
    return gram + RIDGE * gram.diagonal().max() * torch.eye(len(gram), dtype=gram.dtype)


def _size(residual: tuple[Tensor, Tensor]) -> float:
    return float(sum((part**2).sum() for part in residual))


def summed_neurons(net: TwoLayerNet) -> Float[Tensor, "2 r"]:
    """u_s = Σ |v_j| (w_j, b_j) over the neurons of each sign s = +, -: what a network of two directions computes with."""
    bias = () if net.b is None else (net.b.detach().unsqueeze(1),)
    lifted = torch.cat([net.W.detach(), *bias], dim=1)
    votes = net.a.detach()
    return torch.stack([votes.clamp_min(0) @ lifted, (-votes).clamp_min(0) @ lifted])


def direction_cosines(net: TwoLayerNet, other: TwoLayerNet) -> Float[Tensor, " 2"]:
    """Cosines of the summed neurons of two networks, for positive and for negative output weights.

    Parameters
    ----------
    net : TwoLayerNet
        The network.
    other : TwoLayerNet
        The network to compare it with.

    Returns
    -------
    tensor (2,)
        cos(u_s, u'_s) for s = + and -.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> net = fp.networks.averaging_classifier(clusters.mu, clusters.labels)
    >>> [round(value, 6) for value in fp.probes.direction_cosines(net, net).tolist()]
    [1.0, 1.0]
    """
    return torch.nn.functional.cosine_similarity(summed_neurons(net), summed_neurons(other), dim=1)


@torch.no_grad()
def cluster_sums(
    net: TwoLayerNet,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    cluster: Int[Tensor, " n"],
    audit: KKTAudit,
) -> Float[Tensor, "k 2"]:
    """S_q^± = Σ_{i in cluster q} Σ_{j: ±v_j > 0} λ_i v_j² φ'_ij: how much a cluster feeds a sign. Source: double-edged, Lemma A.10."""
    per_point = neuron_activity(net, x, audit)
    least = float((y * net(x)).min())
    squares = net.a.detach() ** 2 / least
    sides = torch.stack([squares * (net.a > 0), squares * (net.a < 0)], dim=1)
    sums = torch.zeros(int(cluster.max()) + 1, 2, dtype=x.dtype)
    return sums.index_add(0, cluster, (audit.multipliers.unsqueeze(1) * per_point) @ sides)


@torch.no_grad()
def neuron_activity(net: TwoLayerNet, x: Float[Tensor, "n d"], audit: KKTAudit) -> Float[Tensor, "n h"]:
    """φ'_ij: 1 above the kink, 0 below, on it what the audit found."""
    lifted, w = _lift(net, x)
    z = lifted @ w.T
    slack = audit.tolerance * row_norms(w) * row_norms(lifted).unsqueeze(1)
    return torch.where(z.abs() <= slack, audit.on_kink_share, (z > 0).to(z.dtype))
