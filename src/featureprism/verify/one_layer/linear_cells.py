"""Proving an ℓ∞ radius cell by cell, in a box or without: lines below P and above N, many cells at once.

The perturbations are those with |δ_i| ≤ r and, in a box, -down_i ≤ δ_i ≤ up_i. On a cell (see cells.py) lines lie below y f, and
constraints of the cell with multipliers ν ≥ 0 only lower them: y f ≥ h + ⟨v, δ⟩, so that no δ with Σ_i |v_i| min(r, room_i) < h
flips, room_i the way to the face that v_i points away from. The least such r is the bound; its gradients are those of the
line at the corner δ* that attains it (envelope theorem).
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.models.activations import relu_power
from featureprism.verify.one_layer.cells import Adam, Cells, Proof, between, mean_size, product
from featureprism.verify.one_layer.envelopes import conjugate, slope_of

NEWTON_STEPS = 6  # from below to the root of a convex function of pieces
STRONG = 3  # neurons that are tried before one is cut


@dataclass(frozen=True)
class BoxProblem:
    """A batch of points: neurons, pre-activations, votes, and how far δ may go in every coordinate."""

    W: Float[Tensor, "h d"]
    t0: Float[Tensor, "m h"]
    size: Float[Tensor, "m h"]
    for_label: Bool[Tensor, "m h"]
    reach: Float[Tensor, " m"]
    p: float
    down: Float[Tensor, "m d"] | None = None  # None: no box
    up: Float[Tensor, "m d"] | None = None

    def rows(self, index: Tensor) -> "BoxProblem":
        """The problem of some of the points."""
        names = ("t0", "size", "for_label", "reach", *(("down", "up") if self.down is not None else ()))
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def extent(self, v: Float[Tensor, "m d"]) -> Float[Tensor, "m d"] | None:
        """How far δ may go against v; None where there is no box."""
        if self.down is None or self.up is None:
            return None
        return torch.where(v > 0, self.down, self.up)


def whole_box(problem: BoxProblem) -> Cells:
    """The cell without constraints: t over all perturbations up to `reach`."""
    reach = problem.reach.unsqueeze(1)
    if problem.down is None or problem.up is None:
        low = high = reach * problem.W.abs().sum(dim=1)
    else:
        down, up = torch.minimum(problem.down, reach), torch.minimum(problem.up, reach)
        rising, falling = problem.W.clamp_min(0).T, (-problem.W).clamp_min(0).T
        low, high = down @ rising + up @ falling, up @ rising + down @ falling
    nothing = torch.full_like(problem.t0, torch.inf)
    return Cells(-nothing, nothing, problem.t0 - low, problem.t0 + high)


def halved(cells: Cells, neuron: Tensor, value: Tensor) -> Cells:
    """Each cell cut at t_neuron = value: all lower halves, then all upper ones."""
    rows = torch.arange(len(neuron))
    parts = [{n: getattr(cells, n).clone() for n in ("floor", "ceiling", "low", "high")} for _ in range(2)]
    for name in ("ceiling", "high"):
        parts[0][name][rows, neuron] = torch.minimum(parts[0][name][rows, neuron], value)
    for name in ("floor", "low"):
        parts[1][name][rows, neuron] = torch.maximum(parts[1][name][rows, neuron], value)
    return Cells(**{name: torch.cat([part[name] for part in parts]) for name in parts[0]})


def within(cells: Cells, whole: Cells) -> Cells:
    """The same cuts in a smaller ball, of which `whole` has the bounds."""
    low, high = torch.maximum(whole.low, cells.floor), torch.minimum(whole.high, cells.ceiling)
    return Cells(cells.floor, cells.ceiling, low, high)


def chords(cells: Cells, p: float) -> tuple[Tensor, Tensor]:
    """(offset, slope) of the chords of φ."""
    width = (cells.high - cells.low).clamp_min(1e-300)
    slope = (relu_power(cells.high, p) - relu_power(cells.low, p)) / width
    return relu_power(cells.low, p) - slope * cells.low, slope


def evaluate(problem: BoxProblem, cells: Cells, proof: Proof) -> Proof:
    """The same lines with the radius they prove, and t at the corner that attains it."""
    offset, chord = chords(cells, problem.p)
    vote = torch.where(problem.for_label, problem.size, -problem.size)
    slope = torch.where(problem.for_label, proof.slope, chord)
    offset = torch.where(problem.for_label, -conjugate(proof.slope, problem.p), offset)
    along = vote * slope - proof.nu_floor + proof.nu_ceiling
    h = (along * problem.t0 + vote * offset).sum(dim=1)
    h = h + product(proof.nu_floor, cells.floor) - product(proof.nu_ceiling, cells.ceiling)
    v = along @ problem.W
    extent = problem.extent(v)
    r = _radius(h, v.abs(), extent).clamp_max(10.0 * problem.reach)
    at = torch.minimum(r, problem.reach).unsqueeze(1)
    corner = -v.sign() * (at if extent is None else torch.minimum(extent, at))
    empty = (cells.low > cells.high).any(dim=1)
    bound = torch.where(empty, 10.0 * problem.reach, r.nan_to_num(0.0).clamp_min(0))
    return replace(proof, bound=bound, t=problem.t0 + corner @ problem.W.T)


def _radius(h: Tensor, size: Tensor, extent: Tensor | None) -> Tensor:
    """The r with Σ_i size_i min(r, room_i) = h, from below; inf where there is none."""
    r = h / size.sum(dim=1).clamp_min(1e-300)
    for _ in range(NEWTON_STEPS if extent is not None else 0):
        assert extent is not None
        still = (size * (extent > r.unsqueeze(1))).sum(dim=1)
        short = h - (size * torch.minimum(extent, r.unsqueeze(1))).sum(dim=1)
        r = torch.where(short > 0, r + short / still.clamp_min(1e-300), r)
    return r


def first_lines(problem: BoxProblem, cells: Cells, t: Float[Tensor, "m h"]) -> Proof:
    """Tangents at the witness, or for ReLU the better of 0 and t on the interval, whichever proves more."""
    zero = torch.zeros_like(t)
    nan, one = torch.full_like(t, torch.nan), torch.ones_like(problem.reach)
    slopes = [slope_of(t, problem.p), slope_of(problem.t0, problem.p)]
    if problem.p == 1:
        slopes[1] = (cells.high > -cells.low).to(t.dtype)
    proofs = [evaluate(problem, cells, Proof(one, s, nan, zero, zero, zero, zero[:, 0], t)) for s in slopes]
    return proofs[0].better_of(proofs[1])


def improve(problem: BoxProblem, cells: Cells, proof: Proof, goal: Tensor, steps: int) -> Proof:
    """Ascent on slopes and multipliers until the bound reaches the goal; the best proof seen is kept."""
    best = proof
    going, adam = torch.arange(len(goal)), Adam({})
    for step in range(1, steps + 1):
        unfinished = best.bound[going] < goal[going]
        if not bool(unfinished.all()):
            going, proof, adam = going[unfinished], proof.rows(unfinished), adam.rows(unfinished)
            problem, cells = problem.rows(unfinished), cells.rows(unfinished)
        if not len(going):
            break
        rate = 0.25 * (1 - step / (steps + 1))
        scale, t, zero = mean_size(problem.size).unsqueeze(1), proof.t, torch.zeros_like(proof.t)
        floors = torch.where(torch.isfinite(cells.floor), cells.floor - t, zero)
        ceilings = torch.where(torch.isfinite(cells.ceiling), t - cells.ceiling, zero)
        if problem.p == 1:
            slope = (proof.slope + adam.move("slope", t, rate, step)).clamp(0, 1)
        else:
            slope = slope_of(between(proof.slope, t, problem.p), problem.p)
        nu_floor = (proof.nu_floor + scale * adam.move("floor", floors, rate, step)).clamp_min(0)
        nu_ceiling = (proof.nu_ceiling + scale * adam.move("ceiling", ceilings, rate, step)).clamp_min(0)
        proof = evaluate(
            problem, cells, replace(proof, slope=slope, nu_floor=nu_floor, nu_ceiling=nu_ceiling)
        )
        best = best.with_rows(going, best.rows(going).better_of(proof))
    return best


def cut_at(problem: BoxProblem, cells: Cells, proof: Proof, value: Tensor) -> Tensor:
    """For each cell the neuron to cut at its `value` (m, h): of the few with the worst chords the one whose weaker half gains most."""
    offset, chord = chords(cells, problem.p)
    worst = problem.size * (offset + chord * value - relu_power(value, problem.p))
    here = problem.size * (offset + chord * proof.t - relu_power(proof.t, problem.p))
    open_neuron = ~problem.for_label & (cells.low < value) & (value < cells.high) & (problem.size > 0)
    score = torch.where(open_neuron, here.clamp_min(0) + 0.1 * worst, torch.full_like(worst, -1.0))
    tried = score.topk(min(STRONG, score.shape[1]), dim=1).indices  # (m, s)
    (m, s), rows = tried.shape, torch.arange(len(tried)).repeat_interleave(tried.shape[1])
    neuron = tried.flatten()
    halves = halved(cells.rows(rows), neuron, value[rows, neuron])
    twice = rows.repeat(2)
    bound = evaluate(problem.rows(twice), halves, proof.rows(twice)).bound.reshape(2, m, s)
    gain = bound.amin(dim=0) + 0.1 * bound.amax(dim=0).clamp_max(problem.reach.unsqueeze(1))
    gain = torch.where(score.gather(1, tried) >= 0, gain, torch.full_like(gain, -1.0))
    return tried.gather(1, gain.argmax(dim=1, keepdim=True)).squeeze(1)
