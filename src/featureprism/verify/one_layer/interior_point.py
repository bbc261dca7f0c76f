"""The best multipliers of a cell, by Newton's method: an interior-point search for few neurons and p > 1.

With P kept as it is and for every neuron of N the lowest quadratic of curvature κ_j above φ on the cell,

    q(t; κ) = chord(t) - ½κ(t - x₁)(x₂ - t),    (x₁, x₂) where it meets φ, the chord through these,

the Lagrangian L = ½‖δ‖² + τ(P - Σ A_j q_j) + Σ ν(cuts) is convex in δ and concave in (τ, e, ν), e_j = τ A_j κ_j, as long as
M = I + Σ_own τ A_j k_j w_j w_jᵀ - Σ e_j w_j w_jᵀ is positive: the bound is its saddle point, there is no local optimum to be caught in.
τ, e and ν stay positive by complementarity (τ·slack = μ, ...), M by μ log det M, and μ falls. All is in units of the search (see
units.py), where lengths are shares of the reach.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.models.activations import relu_power
from featureprism.verify.one_layer.cells import Cells, Problem, Proof, envelope, evaluate
from featureprism.verify.one_layer.envelopes import (
    CLOSE,
    contacts,
    end_curvature,
    end_quadratic,
    quadratic_below,
    second_derivative,
    slope_of,
    tangent_quadratic,
)

FIRST, FALL = 0.03, 0.2  # μ at the start, and its factor a step
LEAST = 3e-5  # μ falls no lower
OUTSIDE = (
    1.2  # shares of the reach beyond which no saddle point is looked for: a proof of more than 1 is enough
)
SHARES = torch.linspace(
    0.02, 1.4, 70, dtype=torch.float64
)  # of the way to a start, where the boundary is looked for
LOOK = 5  # steps before the bound is worth its evaluation
PATIENCE = 5  # steps whose mean gain has to reach the goal in those that are left
TO_EDGE = 0.9  # of the way to where something would stop being positive
FARTHEST = 0.5  # a step of δ, as a share of the reach
TAU_GROWTH = 5.0  # at most, a step
BACK = 6  # halvings of a step until M stays positive
NEXT_TO_NOTHING = 1e-200  # keeps divisions by weights that are 0 finite
TINY = 1e-12  # of the scale of the search: what counts as 0 there


@dataclass(frozen=True)
class Search:
    """What Newton's method moves, row by row: δ in coordinates of the span, multipliers and the slacks of their constraints."""

    delta: Float[Tensor, "m r"]
    tau: Float[Tensor, " m"]
    e: Float[Tensor, "m h"]
    nu: Float[Tensor, "m g"]  # floors, then ceilings
    slack_tau: Float[Tensor, " m"]
    slack_e: Float[Tensor, "m h"]
    slack_nu: Float[Tensor, "m g"]

    def rows(self, index: Tensor) -> "Search":
        """Some of the rows."""
        return Search(**{name: value[index] for name, value in self.__dict__.items()})

    def where(self, mine: Tensor, other: "Search") -> "Search":
        """Row by row this one or another."""
        merged = {}
        for name, value in self.__dict__.items():
            mask = mine if value.ndim == 1 else mine.unsqueeze(1)
            merged[name] = torch.where(mask, value, getattr(other, name))
        return Search(**merged)


@dataclass(frozen=True)
class Space:
    """Neurons in coordinates of their span (h, r), K = R Rᵀ, and the map back."""

    R: Float[Tensor, "h r"]
    back: Float[Tensor, "h r"]

    @classmethod
    def of(cls, gram: Float[Tensor, "h h"]) -> "Space":
        """From the eigenvectors of the Gram matrix."""
        values, vectors = torch.linalg.eigh(gram)
        kept = values > 1e-12 * values[-1]
        root = values[kept].sqrt()
        return cls(vectors[:, kept] * root, vectors[:, kept] / root)


def solve(problem: Problem, cells: Cells, proof: Proof, goal: Tensor, space: Space, steps: int) -> Proof:
    """The better of a proof of these cells or of larger ones and the best that is found from there.

    Rows that reach their goal are left alone. A proof that proves nothing is no place to start from: the relaxed boundary is.
    """
    whole = evaluate(problem, cells, proof)
    curvature = envelope(problem, cells, proof).q2
    cold, warm = _start(problem, cells, proof, space), _warm(problem, cells, proof, curvature, space)
    best, states = whole, []
    for state in (cold, warm):
        found = evaluate(problem, cells, as_proof(problem, cells, state, space))
        states.append(found.bound)
        best = best.better_of(found)
    prefer = (states[1] >= states[0]) & (whole.bound > 0)
    state = warm.where(prefer, cold)
    going, seen = torch.nonzero(best.bound < goal)[:, 0], []
    problem, cells, state = problem.rows(going), cells.rows(going), state.rows(going)
    for step in range(steps):
        if not len(going):
            break
        state = _advanced(problem, cells, state, space)
        if step < LOOK:
            continue
        found = evaluate(problem, cells, as_proof(problem, cells, state, space))
        best = best.with_rows(going, best.rows(going).better_of(found))
        seen.append(torch.zeros_like(goal).index_copy(0, going, found.bound))
        left = (best.bound[going] < goal[going]) & _hopeful(seen, goal, steps - 1 - step)[going]
        if not bool(left.all()):
            going, state = going[left], state.rows(left)
            problem, cells = problem.rows(left), cells.rows(left)
    return best


def _hopeful(seen: list[Tensor], goal: Tensor, steps: int) -> Bool[Tensor, " m"]:
    """Whether the bounds, if they go on rising as they did, reach the goal in so many steps; those that prove nothing yet may."""
    if len(seen) <= PATIENCE:
        return torch.ones_like(goal, dtype=torch.bool)
    before, now = seen[-1 - PATIENCE], seen[-1]
    return (before <= 0) | (now <= 0) | (now + (now - before) / PATIENCE * steps >= goal)


def _start(problem: Problem, cells: Cells, proof: Proof, space: Space) -> Search:
    """Where the ray towards the t of a given proof meets the relaxed boundary, with curvatures that leave M positive.

    P and N may fall by many orders of magnitude on the way to the boundary: only near it do their derivatives tell where it is.
    """
    p, for_label, A = problem.p, problem.for_label, problem.size
    alive = ~for_label & (cells.high > 0)
    kappa = torch.where(alive, end_curvature(cells.low, cells.high, p), torch.zeros_like(A)) / 2
    t = torch.minimum(torch.maximum(proof.t, cells.low), cells.high)
    delta = (t - problem.t0) @ space.back
    along = SHARES.reshape(-1, 1, 1) * (delta @ space.R.T)  # (s, m, h)
    at = problem.t0 + along
    above = end_quadratic(kappa, cells.low, cells.high, p).at(at)
    P = (A * torch.where(for_label, relu_power(at, p), torch.zeros_like(at))).sum(dim=2)
    N = (A * torch.where(alive, above, torch.zeros_like(at))).sum(dim=2)
    ratio = P / N.clamp_min(NEXT_TO_NOTHING)
    crossed = ratio <= 1
    which = torch.where(crossed.any(dim=0), crossed.to(torch.int8).argmax(dim=0), ratio.argmin(dim=0))
    delta = SHARES[which].unsqueeze(1) * delta
    t = problem.t0 + delta @ space.R.T
    q = end_quadratic(kappa, cells.low, cells.high, p)
    slope = A * torch.where(
        for_label, slope_of(t, p), torch.where(alive, -(q.q1 + q.q2 * t), torch.zeros_like(t))
    )
    steep = torch.linalg.vector_norm(slope @ space.R, dim=1)
    tau = torch.linalg.vector_norm(delta, dim=1) / steep.clamp_min(NEXT_TO_NOTHING)
    tau = torch.where(tau > 0, tau, proof.tau).clamp(NEXT_TO_NOTHING, 1 / NEXT_TO_NOTHING)
    touching = torch.where(alive, tangent_quadratic(t, cells.low, cells.high, p).q2, torch.zeros_like(A))
    e = tau.unsqueeze(1) * A * touching
    largest = torch.linalg.eigvalsh(_form(space.R, e) - torch.eye(space.R.shape[1], dtype=A.dtype))[:, -1:]
    return _centred(
        cells,
        delta,
        tau,
        e * (0.7 / largest.clamp_min(0.7)),
        torch.zeros_like(e),
        torch.zeros_like(e),
        space,
        problem,
    )


def _warm(problem: Problem, cells: Cells, proof: Proof, curvature: Tensor, space: Space) -> Search:
    """Near the proof of a larger cell, whose quadratics have these curvatures."""
    delta = (proof.t - problem.t0) @ space.back
    delta = delta / torch.linalg.vector_norm(delta, dim=1, keepdim=True).clamp_min(1)
    e = (
        proof.tau.unsqueeze(1)
        * problem.size
        * torch.where(problem.for_label, torch.zeros_like(curvature), curvature)
    )
    return _centred(cells, delta, proof.tau, 0.95 * e, proof.nu_floor, proof.nu_ceiling, space, problem)


def _centred(
    cells: Cells,
    delta: Tensor,
    tau: Tensor,
    e: Tensor,
    nu_floor: Tensor,
    nu_ceiling: Tensor,
    space: Space,
    problem: Problem,
) -> Search:
    """A search from here, with slacks that belong to the first μ."""
    slack_nu = _distances(cells, problem.t0 + delta @ space.R.T).clamp_min(0.05)
    limit = _limit(problem, torch.ones_like(problem.for_label))
    if limit is not None:
        e = torch.minimum(e, 0.9 * limit * tau.unsqueeze(1))
    e = e.clamp_min(TINY)
    nu = torch.cat([nu_floor, nu_ceiling], dim=1) + FIRST / slack_nu
    return Search(delta, tau, e, nu, FIRST / tau, FIRST / e, slack_nu)


def _distances(cells: Cells, t: Tensor) -> Float[Tensor, "m g"]:
    """How far t is inside each cut; 1 where there is none."""
    distance = torch.cat([t - cells.floor, cells.ceiling - t], dim=1)
    return torch.where(torch.isfinite(distance), distance, torch.ones_like(distance))


@dataclass(frozen=True)
class Derivatives:
    """Of the Lagrangian, neuron by neuron: first and second ones by t, τ and e."""

    by_t: Float[Tensor, "m h"]
    by_tau: Float[Tensor, " m"]
    by_e: Float[Tensor, "m h"]
    t_t: Float[Tensor, "m h"]
    t_tau: Float[Tensor, "m h"]
    t_e: Float[Tensor, "m h"]
    e_e: Float[Tensor, "m h"]  # and -e_e e/τ by both, e_e (e/τ)² twice by τ: L has degree 1 in (τ, e)


def _derivatives(
    problem: Problem, cells: Cells, t: Tensor, tau: Tensor, e: Tensor, alive: Tensor
) -> Derivatives:
    p, for_label, A, zero = problem.p, problem.for_label, problem.size, torch.zeros_like(t)
    weight = (tau * A).clamp_min(NEXT_TO_NOTHING)
    high = torch.where(alive, cells.high, torch.ones_like(t))
    low = torch.where(alive, cells.low, zero)
    contact = contacts((e / weight).clamp_min(TINY), low, high, p)
    x1, x2 = contact.first, contact.second
    rise = (relu_power(x2, p) - relu_power(x1, p)) / (x2 - x1).clamp_min(TINY)
    chord = relu_power(x1, p) + rise * (t - x1)
    beside = (x1 + x2) / 2 - t
    e_e = ((t - x1) * contact.second_rate - (x2 - t) * contact.first_rate) / (2 * weight)

    def either(of_own: Tensor, of_other: Tensor) -> Tensor:
        return torch.where(for_label, of_own, torch.where(alive, of_other, zero))

    return Derivatives(
        by_t=either(tau * A * slope_of(t, p), e * beside - tau * A * rise),
        by_tau=(A * either(relu_power(t, p), -chord)).sum(dim=1),
        by_e=torch.where(alive, (t - x1) * (x2 - t) / 2, zero),
        t_t=either(tau * A * second_derivative(t, p).clamp_max(1 / TINY), -e),
        t_tau=A * either(slope_of(t, p), -rise),
        t_e=torch.where(alive, beside, zero),
        e_e=torch.where(alive, e_e.clamp_max(0), zero),
    )


def _with_positive_form(state: Search, space: Space, k: Tensor, alive: Tensor) -> tuple[Search, Tensor]:
    """The search with curvatures e that leave M positive where neurons of the label have the curvatures k, and W M⁻¹ Wᵀ."""
    e, tau, zero = state.e, state.tau.unsqueeze(1), torch.zeros_like(k)
    factor, failed = torch.linalg.cholesky_ex(_form(space.R, tau * k - torch.where(alive, e, zero)))
    for _ in range(BACK):
        if not bool((failed > 0).any()):
            break
        e = torch.where((failed > 0).unsqueeze(1), 0.7 * e, e)
        factor, failed = torch.linalg.cholesky_ex(_form(space.R, tau * k - torch.where(alive, e, zero)))
    # a form that no curvature made positive: any direction will do, for what is found is checked
    unit = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    factor = torch.where((failed > 0)[:, None, None], unit, factor)
    return replace(state, e=e), space.R @ torch.cholesky_inverse(factor) @ space.R.T


def _met_by_cuts(state: Search, exists: Tensor, distance: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
    """How stiff each cut is against dt, and dν at dt = 0, for ν slack = μ."""
    none = torch.zeros_like(state.nu)
    pull = torch.where(exists, (mu - state.nu * distance) / state.slack_nu, none)
    return torch.where(exists, state.nu / state.slack_nu, none), pull


def _advanced(problem: Problem, cells: Cells, state: Search, space: Space) -> Search:
    """One Newton step towards the saddle point of a smaller μ.

    (ν is eliminated first, then δ.) For multiplier m ≥ 0 and its slack -∂L/∂m: (slack/m) dm = μ/m + ∂L/∂m and what that changes by.
    """
    R, h = space.R, len(space.R)
    t = problem.t0 + state.delta @ R.T
    alive = ~problem.for_label & (cells.high > 0) & (problem.size > 0)
    exists = torch.isfinite(torch.cat([cells.floor, cells.ceiling], dim=1))
    below = quadratic_below(
        slope_of(t, problem.p), torch.minimum(cells.low, t), torch.maximum(cells.high, t), problem.p
    )
    k = torch.where(problem.for_label, problem.size * below.q2, torch.zeros_like(t))
    state, G = _with_positive_form(state, space, k, alive)
    mu = (FALL * _complementarity(state, alive, exists)).clamp_min(LEAST).unsqueeze(1)
    L = _derivatives(problem, cells, t, state.tau.unsqueeze(1), state.e, alive)
    distance, none = _distances(cells, t), torch.zeros_like(state.nu)
    stiff, pull = _met_by_cuts(state, exists, distance, mu)
    nu = torch.where(exists, state.nu, none) + pull
    gradient = state.delta + (L.by_t - nu[:, :h] + nu[:, h:]) @ R
    H = _form(R, L.t_t + stiff[:, :h] + stiff[:, h:])
    m = torch.cat([state.tau.unsqueeze(1), state.e], dim=1)
    slack = torch.cat([state.slack_tau.unsqueeze(1), state.slack_e], dim=1)
    J = torch.cat([(L.t_tau @ R).unsqueeze(1), L.t_e.unsqueeze(2) * R], dim=1)  # (m, 1 + h, r)
    C = torch.cat([k.unsqueeze(1), -torch.diag_embed(alive.to(t.dtype))], dim=1)  # M by τ and by each e
    ascent = torch.cat([L.by_tau.unsqueeze(1), L.by_e], dim=1)
    ascent = ascent + mu * (C @ G.diagonal(dim1=1, dim2=2).unsqueeze(2)).squeeze(2)
    B = (
        mu.unsqueeze(2) * (C @ (G * G) @ C.mT)
        + _own_curvature(L.e_e, state, alive)
        + torch.diag_embed(slack / m)
    )
    limit = _limit(problem, alive)
    if limit is not None:
        up, bend = _pushed_back(limit, state, alive, mu)
        ascent, B = ascent + up, B + bend
    factor, _ = torch.linalg.cholesky_ex(H)
    solved = torch.cholesky_solve(
        torch.cat([J.mT, gradient.unsqueeze(2)], dim=2), factor
    )  # H⁻¹(Jᵀ, gradient)
    across, along = solved[:, :, :-1], solved[:, :, -1:]
    wanted = (ascent + mu / m).unsqueeze(2) - J @ along
    d_m = torch.cholesky_solve(wanted, torch.linalg.cholesky_ex(J @ across + B)[0])
    d_delta = -(along + across @ d_m).squeeze(2)
    d_m, d_t = d_m.squeeze(2), d_delta @ R.T
    d_distance = torch.cat([d_t, -d_t], dim=1)
    d_slack = torch.where(exists, distance + d_distance - state.slack_nu, none)
    step = (d_delta, d_m, pull - stiff * d_distance, d_slack, (mu - m * slack - slack * d_m) / m)
    return _moved(state, space, step, (k, alive, limit))


def _limit(problem: Problem, alive: Tensor) -> Float[Tensor, "m h"] | None:
    """p = 2: the largest e/τ of each neuron. No quadratic needs to be more bent than φ, and L has a kink there."""
    return torch.where(alive, 2 * problem.size, torch.ones_like(problem.size)) if problem.p == 2 else None


def _pushed_back(limit: Tensor, state: Search, alive: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
    """By (τ, e), the gradient of μ Σ log(limit τ - e), and minus its second derivatives."""
    distance = limit * state.tau.unsqueeze(1) - state.e
    push = torch.where(alive, mu / distance, torch.zeros_like(distance))
    bend = push / distance
    B = torch.diag_embed(torch.cat([(bend * limit**2).sum(dim=1, keepdim=True), bend], dim=1))
    B[:, 0, 1:] = B[:, 1:, 0] = -bend * limit
    return torch.cat([(push * limit).sum(dim=1, keepdim=True), -push], dim=1), B


def _own_curvature(e_e: Tensor, state: Search, alive: Tensor) -> Float[Tensor, "m n n"]:
    """Minus the second derivatives of L by (τ, e); neurons without an e stay where they are."""
    ratio = state.e / state.tau.unsqueeze(1)
    held = torch.where(alive, torch.zeros_like(e_e), torch.full_like(e_e, 1 / TINY))
    diagonal = torch.cat([-(e_e * ratio**2).sum(dim=1, keepdim=True), held - e_e], dim=1)
    B = torch.diag_embed(diagonal)
    B[:, 0, 1:] = e_e * ratio
    B[:, 1:, 0] = e_e * ratio
    return B


def _complementarity(state: Search, alive: Tensor, exists: Tensor) -> Float[Tensor, " m"]:
    """The mean of multiplier times slack."""
    of_e = torch.where(alive, state.e * state.slack_e, torch.zeros_like(state.e)).sum(dim=1)
    of_nu = torch.where(exists, state.nu * state.slack_nu, torch.zeros_like(state.nu)).sum(dim=1)
    count = 1 + alive.sum(dim=1) + exists.sum(dim=1)
    return (state.tau * state.slack_tau + of_e + of_nu) / count


def _form(R: Tensor, weight: Tensor) -> Tensor:
    """I + Σ weight_j w_j w_jᵀ."""
    return torch.eye(R.shape[1], dtype=R.dtype) + R.T @ (weight.unsqueeze(2) * R)


def _moved(
    state: Search, space: Space, step: tuple[Tensor, ...], form: tuple[Tensor, Tensor, Tensor | None]
) -> Search:
    """As far along a step as everything stays positive."""
    d_delta, d_m, d_nu, d_slack, d_slack_m = (v.nan_to_num(0.0, 0.0, 0.0) for v in step)
    m = torch.cat([state.tau.unsqueeze(1), state.e], dim=1)
    slack = torch.cat([state.slack_tau.unsqueeze(1), state.slack_e], dim=1)
    length = torch.linalg.vector_norm(d_delta, dim=1)
    primal = torch.minimum(
        FARTHEST / length.clamp_min(FARTHEST), _to_edge(state.slack_nu, d_slack)
    ).unsqueeze(1)
    dual = torch.minimum(_to_edge(m, d_m), _to_edge(state.nu, d_nu))
    dual = torch.minimum(dual, (TAU_GROWTH - 1) * state.tau / d_m[:, 0].clamp_min(TINY * state.tau))
    k, alive, limit = form
    if limit is not None:
        distance, d_distance = (limit * v[:, :1] - v[:, 1:] for v in (m, d_m))
        dual = torch.minimum(
            dual, _to_edge(distance, torch.where(alive, d_distance, torch.zeros_like(d_distance)))
        )
    dual = _positive_share(space, m, d_m, dual, (k, alive))
    both = torch.minimum(_to_edge(slack, d_slack_m), dual).unsqueeze(1)
    delta = state.delta + primal * d_delta
    beyond = torch.linalg.vector_norm(delta, dim=1, keepdim=True) / OUTSIDE
    new, new_slack = m + dual.unsqueeze(1) * d_m, slack + both * d_slack_m
    return Search(
        delta / beyond.clamp_min(1),
        new[:, 0],
        torch.where(alive, new[:, 1:], state.e),
        state.nu + dual.unsqueeze(1) * d_nu,
        new_slack[:, 0],
        torch.where(alive, new_slack[:, 1:], state.slack_e),
        state.slack_nu + primal * d_slack,
    )


def _positive_share(
    space: Space, m: Tensor, d_m: Tensor, share: Float[Tensor, " m"], form: tuple[Tensor, Tensor]
) -> Float[Tensor, " m"]:
    """How much of a step of the multipliers leaves M clear of its edge; 0 where halving does not help."""
    k, alive = form

    def form_of(m: Tensor) -> Tensor:
        return _form(space.R, m[:, :1] * k - torch.where(alive, m[:, 1:], torch.zeros_like(k)))

    least = (1 - TO_EDGE) * form_of(m)
    for _ in range(BACK):
        _, failed = torch.linalg.cholesky_ex(form_of(m + share.unsqueeze(1) * d_m) - least)
        if not bool((failed > 0).any()):
            return share
        share = torch.where(failed > 0, share / 2, share)
    _, failed = torch.linalg.cholesky_ex(form_of(m + share.unsqueeze(1) * d_m) - least)
    return torch.where(failed > 0, torch.zeros_like(share), share)


def _to_edge(value: Float[Tensor, "m n"], step: Float[Tensor, "m n"]) -> Float[Tensor, " m"]:
    """How much of a step, at most all of it, keeps positive numbers clear of 0."""
    share = torch.where(step < 0, -TO_EDGE * value / step, torch.full_like(value, torch.inf))
    return share.amin(dim=1).clamp_max(1)


def as_proof(problem: Problem, cells: Cells, state: Search, space: Space) -> Proof:
    """The same as a proof: tangents of P at t, for N the quadratics of the curvatures e/(τA)."""
    h, p = len(space.R), problem.p
    t = problem.t0 + state.delta @ space.R.T
    kappa = state.e / (state.tau.unsqueeze(1) * problem.size).clamp_min(NEXT_TO_NOTHING)
    alive = ~problem.for_label & (cells.high > 0)
    low = torch.where(alive, cells.low, torch.zeros_like(t))
    high = torch.where(alive, cells.high, torch.ones_like(t))
    contact = contacts(kappa.clamp_min(TINY), low, high, p)
    by_ends = (contact.first <= low) & (contact.second >= high)
    tangent = contact.first if p >= 2 else torch.where(contact.second < high, contact.second, contact.first)
    # at 0 certificates mean both ends
    tangent = torch.where(tangent.abs() < CLOSE * high, CLOSE * high, tangent)
    centre = torch.where(by_ends | ~alive, torch.full_like(t, torch.nan), tangent)
    exists = torch.isfinite(torch.cat([cells.floor, cells.ceiling], dim=1))
    nu = torch.where(exists, state.nu, torch.zeros_like(state.nu))
    return Proof(
        state.tau,
        slope_of(t, p),
        centre,
        torch.where(alive, kappa, torch.zeros_like(t)),
        nu[:, :h],
        nu[:, h:],
        torch.zeros_like(state.tau),
        t,
    )
