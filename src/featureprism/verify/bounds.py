"""Bounds that need no search: closed forms, Lipschitz constants, and the linear relaxation of one hidden layer.

Linear scores: the margin over the dual norm of its gradient. Quadratic scores: one secular equation for each pair (Boyd &
Vandenberghe, Convex Optimization, Appendix B.1). One hidden layer: a Lipschitz constant from the Gram matrix, and CROWN (Zhang et al.
2018).
"""

from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from featureprism.checker import linear, quadratic
from featureprism.checker.certificate import Certificate
from featureprism.checker.enclosed import SLACK, with_room
from featureprism.geometry import unit_rows
from featureprism.models.activations import relu_power
from featureprism.models.model import Model
from featureprism.models.one_layer import PowerForm
from featureprism.models.protocols import HasExactRadius, HasRadiusBracket
from featureprism.verify.one_layer.envelopes import conjugate, slope_of
from featureprism.verify.pairs import Method, Pairs
from featureprism.verify.query import Limits, Query

CLOSED_FORM = "closed form"
FARTHER = 1e-9  # relative: how much farther witnesses go, so that rounding does not take them back
BISECTIONS = 40


class LinearScoresRadius(Method):
    """Linear scores: margin/‖∇margin‖_q. Within bounds radii are no shorter, and the attack finds the witnesses."""

    is_closed_form = True
    norms = (1, 2, inf)

    def applies(self, model: Model, query: Query) -> bool:
        return isinstance(model.weights, linear.LinearScores)

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        checked = pairs.model.weights
        assert isinstance(checked, linear.LinearScores)
        norm = pairs.query.norm
        V, c = torch.from_numpy(checked.V), torch.from_numpy(checked.c)
        label, x = pairs.label[pairs.point[rows]], pairs.points(rows)
        v = V[label] - V[pairs.target[rows]]
        for j, point, o, r in zip(rows.tolist(), x, label, pairs.target[rows], strict=True):
            with with_room():
                radius = checked.radius(point.numpy(), int(o), int(r), norm) * (1 - SLACK)
            pairs.keep(j, Certificate(radius, CLOSED_FORM, norm))
        if pairs.query.bounds is not None:
            return
        terms = torch.cat([v * x, (c[label] - c[pairs.target[rows]]).unsqueeze(1)], dim=1)
        # sums of floats of these sizes may be off by this; a witness goes farther
        rounding = 4 * (x.shape[1] + 4) * torch.finfo(torch.float64).eps * terms.abs().sum(dim=1)
        dual = torch.linalg.vector_norm(v, ord=inf if norm == 1 else 2 if norm == 2 else 1, dim=1)
        length = (terms.sum(dim=1) + rounding) / dual * (1 + FARTHER)
        step = -v / dual.unsqueeze(1) if norm == 2 else -torch.sign(v)
        if norm == 1:
            step = step * one_hot(v.abs().argmax(dim=1), v.shape[1])
        flips = dual > 0
        pairs.keep_flips(rows[flips], length[flips], (length.unsqueeze(1) * step)[flips])


class QuadraticScoresRadius(Method):
    """Quadratic scores: the nearest point that the target wins. ℓ∞ by ‖δ‖_∞ ≥ ‖δ‖₂/√d, ℓ1 by ‖δ‖₁ ≥ ‖δ‖₂."""

    is_closed_form = True
    norms = (1, 2, inf)

    def applies(self, model: Model, query: Query) -> bool:
        return isinstance(model.weights, quadratic.QuadraticScores)

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        checked, norm = pairs.model.weights, pairs.query.norm
        assert isinstance(checked, quadratic.QuadraticScores)
        label = pairs.label[pairs.point[rows]]
        radius, multiplier, delta = _nearest(checked, pairs.points(rows), label, pairs.target[rows])
        claims = radius * (1 - SLACK) / (pairs.x.shape[1] ** 0.5 if norm == inf else 1.0)
        for j, claim, lam in zip(rows.tolist(), claims.tolist(), multiplier.tolist(), strict=True):
            pairs.keep(j, Certificate(claim, CLOSED_FORM, norm, tree={"numbers": np.array([lam])}))
        if norm == 2 and pairs.query.bounds is None:
            length = torch.linalg.vector_norm(delta, dim=1) * (1 + FARTHER)
            known = ~torch.isnan(length)
            pairs.keep_flips(rows[known], length[known], delta[known])


def _nearest(
    model: quadratic.QuadraticScores, x: Tensor, label: Tensor, target: Tensor
) -> tuple[np.ndarray, np.ndarray, Float[Tensor, "m d"]]:
    """For every pair a proven radius, its multiplier, and the ℓ2 perturbation that flips it, NaN where there is none.

    Pairs of the same two classes share the eigenvectors of A_label - A_target.
    """
    points, pairs = x.numpy(), np.stack([label.numpy(), target.numpy()], axis=1)
    radius, multiplier, delta = np.zeros(len(points)), np.zeros(len(points)), np.zeros_like(points)
    for a, b in sorted(np.unique(pairs, axis=0).tolist(), key=sorted):  # (a, b) beside (b, a)
        rows = np.flatnonzero((pairs == (a, b)).all(axis=1))
        with with_room():
            nearest = model.nearest(points[rows], a, b)
        radius[rows], multiplier[rows], delta[rows] = nearest.radius, nearest.multiplier, nearest.delta
    return radius, multiplier, torch.from_numpy(delta)


class KnownRadius(Method):
    """Classifiers of the papers that know their ℓ2 radius; nothing a checker could read."""

    def applies(self, model: Model, query: Query) -> bool:
        return query.norm == 2 and isinstance(model.net, HasExactRadius | HasRadiusBracket)

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        net: Any = pairs.model.net
        x, sign = pairs.points(rows), 2.0 * pairs.label[pairs.point[rows]].double() - 1
        if isinstance(net, HasRadiusBracket):
            known = net.radius_bracket(x, sign)
            low, high = torch.from_numpy(known.certified), torch.from_numpy(known.attacked)
        else:
            low = high = net.exact_radius(x, sign)
        low, high = _rounded_outward(net, x, low, high)
        for j, radius in zip(rows.tolist(), low.tolist(), strict=True):
            pairs.keep(j, Certificate(radius, CLOSED_FORM, 2))
        if pairs.query.bounds is None:
            within = high <= (pairs.query.eps or inf)
            pairs.length[rows[within]] = torch.minimum(pairs.length[rows], high)[within]


def _rounded_outward(net: Any, x: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """A closed form that took float scores s = Ux for exact, and unit rows of U for orthogonal.

    Such a radius is a distance in the space of scores: it moves no more than the scores do, and ‖Uδ‖/‖δ‖ lies between the singular
    values of U, whose squares Gershgorin's circles enclose.
    """
    U = unit_rows(net.input_directions().double())
    rounding = 8 * (x.shape[1] + len(U) + 16) * torch.finfo(torch.float64).eps
    slack = rounding * torch.linalg.vector_norm(x.abs() @ U.abs().T, dim=1)
    gram = (U @ U.T).abs()
    around = gram.sum(dim=1) - gram.diagonal()
    most, least = (
        (gram.diagonal() + around).max().sqrt(),
        (gram.diagonal() - around).min().clamp_min(0).sqrt(),
    )
    return (low * (1 - FARTHER) - slack).clamp_min(0) / most, (high * (1 + FARTHER) + slack) / least


class GivenLipschitz(Method):
    """margin/L for a constant L of every margin; whoever gives it answers for it."""

    norms = (1, 2, inf)

    def __init__(self, constant: float) -> None:
        self.constant = constant

    def applies(self, model: Model, query: Query) -> bool:
        return True

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        margin = pairs.margins(rows)(pairs.points(rows)).clamp_min(0)
        for j, radius in zip(rows.tolist(), (margin / self.constant).tolist(), strict=True):
            pairs.keep(j, Certificate(radius, "given Lipschitz constant", pairs.query.norm))


def lipschitz_radius(
    form: PowerForm, t: Float[Tensor, "m h"], votes: Float[Tensor, "m h"]
) -> Float[Tensor, " m"]:
    """margin/L with L² = Σ_ij max(votes_i votes_j ⟨w_i, w_j⟩, 0), a Lipschitz constant of a ReLU network in ℓ2; 0 for p ≠ 1."""
    margin = (votes * relu_power(t, form.p)).sum(dim=1)
    if form.p != 1:
        return torch.zeros_like(margin)
    constant = torch.stack([(v.unsqueeze(1) * form.gram * v).clamp_min(0).sum().sqrt() for v in votes])
    return torch.where(constant > 0, margin.clamp_min(0) / constant, torch.zeros_like(margin))


def crown_radius(
    form: PowerForm,
    t: Float[Tensor, "m h"],
    vote: Float[Tensor, "m h"],
    norm: float,
    upper: Float[Tensor, " m"],
) -> Float[Tensor, " m"]:
    """Largest eps (up to `upper`) at which lines below the own neurons and chords above the others keep Σ_j vote_j φ(t_j) positive.

    On the ball t_j ranges over c_j ± eps‖w_j‖_q; the bound h0 + ⟨g, δ⟩ is least at h0 - eps‖g‖_q. Source: Zhang et al. 2018.
    """
    dual = 2 if norm == 2 else 1
    lengths, gram = torch.linalg.vector_norm(form.W, ord=dual, dim=1), form.gram
    low, high = torch.zeros_like(upper), upper.clone()
    for _ in range(BISECTIONS):
        eps = (low + high) / 2
        bottom, top = t - eps.unsqueeze(1) * lengths, t + eps.unsqueeze(1) * lengths
        width = (top - bottom).clamp_min(1e-300)
        chord = (relu_power(top, form.p) - relu_power(bottom, form.p)) / width
        # lines below: for ReLU the better of 0 and t, else the tangent at the centre
        below = (top > -bottom).to(t.dtype) if form.p == 1 else slope_of(t, form.p)
        below = torch.where(bottom >= 0, slope_of(t, form.p), below)
        slope = torch.where(vote > 0, below, chord)
        offset = torch.where(vote > 0, -conjugate(below, form.p), relu_power(bottom, form.p) - chord * bottom)
        g = vote * slope  # ‖Wᵀg‖ from the Gram matrix for ℓ2
        length = (
            ((g @ gram) * g).sum(dim=1).clamp_min(0).sqrt() if norm == 2 else (g @ form.W).abs().sum(dim=1)
        )
        least = (vote * (slope * t + offset)).sum(dim=1) - eps * length
        low, high = torch.where(least > 0, eps, low), torch.where(least > 0, high, eps)
    return low
