"""Proving a radius cell by cell: the relaxed problem of one cell, solved for many cells at once.

A cell is a set of perturbations given by bounds on pre-activations t_j = c_j + ⟨w_j, δ⟩. With y f = P - N (both convex) and quadratics
below P and above N, every δ of the cell that flips satisfies, for all multipliers τ, ν ≥ 0,

    ½‖δ‖² ≥ D = min_δ ½‖δ‖² + Σ_j γ_j t_j - ½ Σ_j e_j t_j² + const        (Lagrange dual; e_j = ±τ A_j q2_j, + on N)

as long as I - Σ_j e_j w_j w_jᵀ is positive definite. At a local minimum δ* of the true problem with multiplier τ, tangents at t(δ*)
make D = ½‖δ*‖² exactly: then a single cell proves the attack optimal. The gradient of D in each multiplier is the violation of
its constraint at the minimising t (envelope theorem), so no autograd is needed.

`Units` are those of a search: the reach is 1, neurons have length 1, the largest weight is 1; what is found does not depend on scales.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.models.activations import relu_power
from featureprism.verify.one_layer.envelopes import (
    Quadratic,
    end_curvature,
    end_quadratic,
    quadratic_below,
    slope_of,
    tangent_quadratic,
)

TAU_RATE = 4.0  # how much faster log τ may move than the other multipliers: flat powers need large ones
NOTHING = -1.0  # the bound of multipliers that prove nothing
# (least centre as a share of the largest |t|, share of the largest end curvature, share of the multiplier)
START_CHOICES = (
    (0.0, 1.0, 1.0),
    (0.01, 0.5, 1.0),
    (0.03, 0.3, 1.0),
    (0.1, 0.2, 1.0),
    (0.3, 0.1, 0.9),
    (0.5, 0.0, 0.8),
    (1.0, 0.0, 0.6),
    (0.0, 0.3, 3.0),
)
# p ≤ 2: (least centre as a share of ‖w‖·reach, share of the multiplier), centres where the neuron stands at the point
RESTING_CHOICES = tuple((away, damped) for away in (0.1, 0.4, 1.0) for damped in (0.25, 0.5, 1.0, 1.5))


@dataclass(frozen=True)
class Problem:
    """A batch of points in terms of pre-activations: what the cells of each point are cells of."""

    gram: Float[Tensor, "h h"]
    t0: Float[Tensor, "m h"]  # pre-activations at the point
    size: Float[Tensor, "m h"]  # A_j = |weight_j|, 0 for neurons without a say
    for_label: Bool[Tensor, "m h"]  # neurons of P, those that vote for the point's label
    reach: Float[Tensor, " m"]  # only perturbations up to this norm are considered
    p: float

    def rows(self, index: Tensor) -> "Problem":
        """The problem of some of the points."""
        part = {name: getattr(self, name)[index] for name in ("t0", "size", "for_label", "reach")}
        return replace(self, **part)


@dataclass(frozen=True)
class Cells:
    """Bounds on pre-activations: `floor`, `ceiling` those that define the cell, `low`, `high` what follows from them."""

    floor: Float[Tensor, "m h"]
    ceiling: Float[Tensor, "m h"]
    low: Float[Tensor, "m h"]
    high: Float[Tensor, "m h"]

    def rows(self, index: Tensor) -> "Cells":
        """Some of the cells."""
        return Cells(self.floor[index], self.ceiling[index], self.low[index], self.high[index])

    def with_rows(self, index: Tensor, part: "Cells") -> "Cells":
        """The same with some of the cells replaced."""
        return Cells(
            **{name: value.index_copy(0, index, getattr(part, name)) for name, value in self.__dict__.items()}
        )


@dataclass(frozen=True)
class Proof:
    """Multipliers and envelopes of a cell, row by row; `bound` is √(2D), what they prove."""

    tau: Float[Tensor, " m"]
    slope: Float[Tensor, "m h"]  # of the tangents below P
    centre: Float[
        Tensor, "m h"
    ]  # where those above N are tangent, NaN where `kappa` gives one through both ends
    kappa: Float[Tensor, "m h"]
    nu_floor: Float[Tensor, "m h"]
    nu_ceiling: Float[Tensor, "m h"]
    bound: Float[Tensor, " m"]
    t: Float[Tensor, "m h"]  # pre-activations at the minimum of the relaxed problem

    def rows(self, index: Tensor) -> "Proof":
        """The proofs of some of the cells."""
        return Proof(**{name: value[index] for name, value in self.__dict__.items()})

    def with_rows(self, index: Tensor, part: "Proof") -> "Proof":
        """The same with some of the rows replaced."""
        return Proof(
            **{name: value.index_copy(0, index, getattr(part, name)) for name, value in self.__dict__.items()}
        )

    def better_of(self, other: "Proof") -> "Proof":
        """Row by row the one that proves more."""
        wins = other.bound > self.bound
        merged = {}
        for name, mine in self.__dict__.items():
            mask = wins if mine.ndim == 1 else wins.unsqueeze(1)
            merged[name] = torch.where(mask, getattr(other, name), mine)
        return Proof(**merged)


def whole_space(problem: Problem) -> Cells:
    """The cell without constraints: |t_j - c_j| ≤ ‖w_j‖·reach."""
    radius = problem.gram.diagonal().sqrt() * problem.reach.unsqueeze(1)
    nothing = torch.full_like(problem.t0, torch.inf)
    return Cells(-nothing, nothing, problem.t0 - radius, problem.t0 + radius)


def restricted(problem: Problem, cells: Cells, neuron: Tensor, value: Tensor, above: bool) -> Cells:
    """Each cell cut at t_neuron = value, keeping one side; bounds of all neurons are drawn tighter.

    With κ = ⟨w_i, w_j⟩/‖w_j‖² and s = (value - c_j)/‖w_j‖ the distance of the cut: where the cut binds the largest t_i on it is
    c_i + κ‖w_j‖ s + ‖w_i - κ w_j‖ √(reach² - s²).
    """
    rows = torch.arange(len(neuron))
    floor, ceiling = cells.floor.clone(), cells.ceiling.clone()
    low, high = cells.low, cells.high
    norm2 = problem.gram.diagonal()[neuron].clamp_min(1e-300)
    kappa = problem.gram[neuron] / norm2.unsqueeze(1)
    rest = (problem.gram.diagonal() - kappa**2 * norm2.unsqueeze(1)).clamp_min(0).sqrt()
    shift = value - problem.t0[rows, neuron]
    chord = (problem.reach**2 - shift**2 / norm2).clamp_min(0).sqrt()
    centre = problem.t0 + kappa * shift.unsqueeze(1)
    side = 1.0 if above else -1.0
    # t_i falls (κ·side < 0) or rises along the allowed side; the cut limits it where its free extreme lies beyond
    extreme = kappa * norm2.sqrt().unsqueeze(1) / problem.gram.diagonal().sqrt().clamp_min(1e-300)
    reach_along = extreme * problem.reach.unsqueeze(1)  # (shift/‖w_j‖) at the free maximum of t_i
    beyond_high = side * (reach_along - (shift / norm2.sqrt()).unsqueeze(1)) < 0
    beyond_low = side * (-reach_along - (shift / norm2.sqrt()).unsqueeze(1)) < 0
    width = rest * chord.unsqueeze(1)
    high = torch.where(beyond_high, torch.minimum(high, centre + width), high)
    low = torch.where(beyond_low, torch.maximum(low, centre - width), low)
    if above:
        floor[rows, neuron] = torch.maximum(floor[rows, neuron], value)
        low = low.scatter(1, neuron.unsqueeze(1), torch.maximum(low[rows, neuron], value).unsqueeze(1))
    else:
        ceiling[rows, neuron] = torch.minimum(ceiling[rows, neuron], value)
        high = high.scatter(1, neuron.unsqueeze(1), torch.minimum(high[rows, neuron], value).unsqueeze(1))
    return Cells(floor, ceiling, low, torch.maximum(high, low))


def envelope(problem: Problem, cells: Cells, proof: Proof) -> Quadratic:
    """The quadratics below P and above N."""
    below = quadratic_below(proof.slope, cells.low, cells.high, problem.p)
    tangent = tangent_quadratic(proof.centre.nan_to_num(1.0), cells.low, cells.high, problem.p)
    bend = torch.minimum(proof.kappa, end_curvature(cells.low, cells.high, problem.p))
    ends = end_quadratic(bend, cells.low, cells.high, problem.p)
    by_ends = torch.isnan(proof.centre)
    return Quadratic(
        *(
            torch.where(problem.for_label, b, torch.where(by_ends, e, t))
            for b, t, e in zip(below, tangent, ends, strict=True)
        )
    )


def evaluate(problem: Problem, cells: Cells, proof: Proof) -> Proof:
    """The same multipliers with the bound they prove (NOTHING where the quadratic form is not positive) and the minimising t."""
    q = envelope(problem, cells, proof)
    weight = proof.tau.unsqueeze(1) * torch.where(problem.for_label, problem.size, -problem.size)
    e = -weight * q.q2
    gamma = weight * q.q1 - proof.nu_floor + proof.nu_ceiling
    K = problem.gram
    right = problem.t0 - gamma @ K
    bent, positive = _bent(K, e, right)
    t = right + bent @ K
    eta = gamma - bent
    constant = (weight * q.q0).sum(dim=1)
    constant = constant + product(proof.nu_floor, cells.floor) - product(proof.nu_ceiling, cells.ceiling)
    value = ((eta @ K) * eta).sum(dim=1) / 2 - (e * t**2).sum(dim=1) / 2 + (gamma * t).sum(dim=1) + constant
    good = positive & torch.isfinite(value)
    bound = torch.where(good, (2 * value.clamp_min(0)).sqrt(), torch.full_like(value, NOTHING))
    return replace(proof, bound=bound, t=torch.where(good.unsqueeze(1), t, proof.t))


def relaxed_minimum(problem: Problem, cells: Cells, proof: Proof) -> Float[Tensor, "m h"]:
    """η of the minimum δ = -Wᵀη of the relaxed problem: η = γ - e∘t."""
    q = envelope(problem, cells, proof)
    weight = proof.tau.unsqueeze(1) * torch.where(problem.for_label, problem.size, -problem.size)
    return weight * (q.q1 + q.q2 * proof.t) - proof.nu_floor + proof.nu_ceiling


def _bent(K: Tensor, e: Tensor, right: Tensor) -> tuple[Float[Tensor, "m h"], Bool[Tensor, " m"]]:
    """e∘t for the t of t = right + K(e∘t), and whether I - Σ e_j w_j w_jᵀ is positive.

    Only the neurons with e ≠ 0 enter the system. With r = √e and s = √-e on the two kinds, a = r t and b = -s t:
    (I + sKs) b = Y a - s·right and S a = r·right + ..., S = I - rKr + Yᵀ(I + sKs)⁻¹Y, Y = sKr.
    """
    falling, rising = _strongest(e), _strongest(-e)
    r, s = e.gather(1, falling).clamp_min(0).sqrt(), (-e).gather(1, rising).clamp_min(0).sqrt()
    S = torch.eye(r.shape[1], dtype=K.dtype) - _among(K, r, falling, r, falling)
    a = r * right.gather(1, falling)
    if not rising.shape[1]:
        factor, failed = torch.linalg.cholesky_ex(S)
        solved = torch.cholesky_solve(a.unsqueeze(2), factor).squeeze(2)
        return torch.zeros_like(e).scatter(1, falling, r * solved), failed == 0
    inner = torch.linalg.cholesky_ex(torch.eye(s.shape[1], dtype=K.dtype) + _among(K, s, rising, s, rising))[
        0
    ]
    across = torch.cat([_among(K, s, rising, r, falling), (s * right.gather(1, rising)).unsqueeze(2)], dim=2)
    half = torch.linalg.solve_triangular(inner, across, upper=False)
    Y, z = half[:, :, :-1], half[:, :, -1:]
    factor, failed = torch.linalg.cholesky_ex(S + Y.mT @ Y)
    solved = torch.cholesky_solve(a.unsqueeze(2) - Y.mT @ z, factor)
    b = torch.linalg.solve_triangular(inner.mT, Y @ solved + z, upper=True).squeeze(2)
    bent = torch.zeros_like(e).scatter(1, falling, r * solved.squeeze(2))
    return bent.scatter_add(1, rising, -s * b), failed == 0


def _strongest(e: Float[Tensor, "m h"]) -> Tensor:
    """The neurons with the largest e, as many as some row has positive ones."""
    return e.argsort(dim=1, descending=True)[:, : int((e > 0).sum(dim=1).max())]


def _among(K: Tensor, left: Tensor, rows: Tensor, right: Tensor, columns: Tensor) -> Tensor:
    """left_i K_ij right_j for the given neurons of every cell."""
    return K[rows.unsqueeze(2), columns.unsqueeze(1)] * left.unsqueeze(2) * right.unsqueeze(1)


def product(nu: Tensor, bound: Tensor) -> Tensor:
    """Σ ν·bound over the constraints that exist."""
    return torch.where(torch.isfinite(bound), nu * bound, torch.zeros_like(nu)).sum(dim=1)


def relaxed_margin(problem: Problem, cells: Cells, proof: Proof) -> Tensor:
    """The lower bound of y f at the minimising t: the gradient of D in τ."""
    at = envelope(problem, cells, proof).at(proof.t)
    return (problem.size * torch.where(problem.for_label, at, -at)).sum(dim=1)


def first_proof(problem: Problem, cells: Cells, t: Tensor, tau: Tensor) -> Proof:
    """Tangents at given pre-activations (those of an attack's witness) and a given multiplier, made positive.

    Where the quadratic form is not positive, centres are kept away from 0 (p ≤ 2: curvature grows there), curvatures through
    both ends and the multiplier are lowered; of a few such choices the one that proves most is taken.
    """
    t = torch.minimum(torch.maximum(t, cells.low), cells.high)
    zero = torch.zeros_like(t)
    lifted = ~problem.for_label & (cells.low > 0) & torch.full_like(problem.for_label, problem.p > 2)
    most = end_curvature(cells.low, cells.high, problem.p)
    scale = t.abs().amax(dim=1, keepdim=True)
    slope, nothing = slope_of(t, problem.p), torch.full_like(tau, NOTHING)
    best = evaluate(
        problem, cells, Proof(tau, slope, touching(t, problem.p), zero, zero, zero, nothing, t)
    )  # nothing is lost where the form is positive
    for away, bent, damped in START_CHOICES:
        if bool((best.bound > 0.999 * problem.reach).all()):
            break
        centre = torch.maximum(touching(t, problem.p), away * scale)
        centre = torch.where(lifted, torch.full_like(t, torch.nan), centre)
        kappa = torch.where(lifted, bent * most, zero)
        proof = Proof(damped * tau, slope, centre, kappa, zero, zero, nothing, t)
        best = best.better_of(evaluate(problem, cells, proof))
    return best if problem.p > 2 else _resting(problem, cells, best, slope, tau)


def _resting(problem: Problem, cells: Cells, best: Proof, slope: Tensor, tau: Tensor) -> Proof:
    """The better of a proof and those whose quadratics vanish where the neuron stands at the point itself.

    A quadratic with centre |t_j| at the point is 0 there if t_j < 0. Where that centre lies beyond `high`, the neuron can hardly
    open: its chord costs high/2, a quadratic bent enough to touch below `high` far more. With biases most neurons are such.
    """
    span = problem.gram.diagonal().sqrt() * problem.reach.unsqueeze(1)
    zero, nan = torch.zeros_like(slope), torch.full_like(slope, torch.nan)
    most = end_curvature(cells.low, cells.high, problem.p) if problem.p > 1 else zero
    for away, damped in RESTING_CHOICES:
        if bool((best.bound > 0.999 * problem.reach).all()):
            break
        centre = torch.maximum(problem.t0.abs(), away * span)
        rare = centre > cells.high
        centre, kappa = torch.where(rare, nan, centre), torch.where(rare, most, zero)
        proof = Proof(damped * tau, slope, centre, kappa, zero, zero, torch.full_like(tau, NOTHING), best.t)
        best = best.better_of(evaluate(problem, cells, proof))
    return best


def touching(t: Tensor, p: float) -> Tensor:
    """The centre of the lowest quadratic above φ at t: |t| for p ≤ 2, where it touches on both sides of 0, else [t]₊."""
    return (t.abs() if p <= 2 else t).clamp_min(1e-6)


@dataclass(frozen=True)
class Adam:
    """Running moments of every multiplier's gradient, cell by cell. Source: Kingma & Ba, ICLR 2015."""

    moments: dict[str, tuple[Tensor, Tensor]]

    def move(self, name: str, gradient: Tensor, rate: float, step: int) -> Tensor:
        """How far to go along a gradient, after taking it into its moments."""
        first, second = self.moments.get(name, (torch.zeros_like(gradient), torch.zeros_like(gradient)))
        first, second = 0.8 * first + 0.2 * gradient, 0.95 * second + 0.05 * gradient**2
        self.moments[name] = first, second
        corrected = (second / (1 - 0.95**step)).sqrt() + 1e-12
        return rate * (first / (1 - 0.8**step)) / corrected

    def rows(self, index: Tensor) -> "Adam":
        """The moments of some of the cells."""
        return Adam({name: (a[index], b[index]) for name, (a, b) in self.moments.items()})


def improve(problem: Problem, cells: Cells, proof: Proof, goal: Tensor, steps: int) -> Proof:
    """Ascent on all multipliers and envelopes until the bound reaches the goal; the best proof seen is kept.

    τ and ν by Adam on the envelope gradients (τ in log), slopes likewise for p = 1 and by moving the tangent to the current t
    for p > 1, centres by moving to |t|, curvatures through both ends halved while the form is not positive.
    """
    best = proof = evaluate(problem, cells, proof)
    going = torch.arange(len(goal))
    adam = Adam({})
    has_floor, has_ceiling = torch.isfinite(cells.floor), torch.isfinite(cells.ceiling)
    for step in range(1, steps + 1):
        unfinished = best.bound[going] < goal[going]
        if not bool(unfinished.all()):  # drop the rows that are done
            going, proof = going[unfinished], proof.rows(unfinished)
            problem, cells = problem.rows(unfinished), cells.rows(unfinished)
            adam = adam.rows(unfinished)
            has_floor, has_ceiling = torch.isfinite(cells.floor), torch.isfinite(cells.ceiling)
        if not len(going):
            break
        rate = 0.1 * (1 - step / (steps + 1))
        broken = (proof.bound == NOTHING).unsqueeze(1)
        margin, t = relaxed_margin(problem, cells, proof), proof.t
        move_tau = torch.where(broken.squeeze(1), -0.3, adam.move("tau", margin, TAU_RATE * rate, step))
        scale = (proof.tau * mean_size(problem.size)).unsqueeze(1)
        up_floor = adam.move(
            "floor", torch.where(has_floor, cells.floor - t, torch.zeros_like(t)), rate, step
        )
        up_ceiling = adam.move(
            "ceiling", torch.where(has_ceiling, t - cells.ceiling, torch.zeros_like(t)), rate, step
        )
        if problem.p == 1:
            slope = (proof.slope + adam.move("slope", t, rate, step)).clamp(0, 1)
        else:
            slope = slope_of(between(proof.slope, t, problem.p), problem.p)
        moved = (proof.centre * touching(t, problem.p)).sqrt()
        proof = Proof(
            proof.tau * move_tau.exp(),
            torch.where(broken, proof.slope, slope),
            torch.where(broken, 1.05 * proof.centre, moved),
            torch.where(broken, 0.6 * proof.kappa, proof.kappa),
            torch.where(has_floor, (proof.nu_floor + scale * up_floor).clamp_min(0), proof.nu_floor),
            torch.where(has_ceiling, (proof.nu_ceiling + scale * up_ceiling).clamp_min(0), proof.nu_ceiling),
            proof.bound,
            t,
        )
        proof = evaluate(problem, cells, proof)
        best = best.with_rows(going, best.rows(going).better_of(proof))
    return best


def mean_size(size: Float[Tensor, "m h"]) -> Float[Tensor, " m"]:
    """The mean of A_j over the neurons that have a say."""
    return size.sum(dim=1) / (size > 0).sum(dim=1).clamp_min(1)


def between(slope: Tensor, t: Tensor, p: float) -> Tensor:
    """Halfway from the present tangent point of a slope to t."""
    return ((slope / p) ** (1 / (p - 1)) + t.clamp_min(0)) / 2


def overestimate(problem: Problem, cells: Cells, proof: Proof) -> Float[Tensor, "m h"]:
    """A_j (q_j - φ)(t_j) on N at the relaxed minimum: what a cut at neuron j could gain; -1 for all other neurons."""
    q = envelope(problem, cells, proof)
    gap = problem.size * (q.at(proof.t) - relu_power(proof.t, problem.p))
    has_say = ~problem.for_label & (problem.size > 0)
    return torch.where(has_say, gap.clamp_min(0), torch.full_like(gap, -1.0))


@dataclass(frozen=True)
class Units:
    """Row by row the reach, one unit of each pre-activation, and one of y f."""

    reach: Float[Tensor, " m"]
    t: Float[Tensor, "m h"]  # ‖w_j‖·reach; for a constant neuron its value
    height: Float[Tensor, " m"]

    @classmethod
    def of(cls, problem: Problem) -> "Units":
        """The units in which a problem is of usual size."""
        t = problem.gram.diagonal().sqrt() * problem.reach.unsqueeze(1)
        t = torch.where(t > 0, t, problem.t0.abs())
        t = torch.where(t > 0, t, torch.ones_like(t))
        height = (problem.size * t**problem.p).amax(dim=1)
        return cls(problem.reach, t, torch.where(height > 0, height, torch.ones_like(height)))

    def scaled(self, problem: Problem) -> Problem:
        """The problem in these units."""
        norm = problem.gram.diagonal().sqrt()
        norm = torch.where(norm > 0, norm, torch.ones_like(norm))
        return replace(
            problem,
            gram=problem.gram / norm / norm.unsqueeze(1),
            t0=problem.t0 / self.t,
            size=problem.size * (self.t**problem.p / self.height.unsqueeze(1)),
            reach=torch.ones_like(self.reach),
        )

    def scaled_cells(self, cells: Cells) -> Cells:
        """Cells in these units."""
        return Cells(*(getattr(cells, name) / self.t for name in Cells.__dataclass_fields__))

    def unscaled_cells(self, cells: Cells, row: int) -> Cells:
        """A cell of one row, as it is without units."""
        return Cells(*(getattr(cells, name) * self.t[row] for name in Cells.__dataclass_fields__))

    def unscaled_proof(self, proof: Proof, row: int, p: float) -> Proof:
        """A proof of one row, as it is without units."""
        t, square = self.t[row], self.reach[row] ** 2
        return Proof(
            tau=proof.tau * square / self.height[row],
            slope=proof.slope * t ** (p - 1),
            centre=proof.centre * t,
            kappa=proof.kappa * t ** (p - 2),
            nu_floor=proof.nu_floor * square / t,
            nu_ceiling=proof.nu_ceiling * square / t,
            bound=proof.bound * self.reach[row],
            t=proof.t * t,
        )
