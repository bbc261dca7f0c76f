"""One flow through the alignment phase, and what the lemmas of Appendices F and G speak of, beside their laws.

Three kinds of neurons start together: *plain* ones near a centre of their class; *leaning* ones, nearer to a centre of the other class,
which Assumption 2 allows; and *void* ones, with a negative cosine to every centre of their class.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from featureprism.geometry import unit_rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import gaussian_shape
from featureprism.networks.balanced_weights import BalancedWeights
from featureprism.papers.gmm_flow import theory
from featureprism.papers.gmm_flow import theory_phases as phases
from featureprism.papers.gmm_flow.setting import (
    Mixture,
    SampledGMM,
    Start,
    follow_flow,
    mixture,
    start_from,
    theorem_1_premises,
)
from featureprism.probes import cosines
from featureprism.probes.voronoi import VOID, nondegeneracy_gap, nondegeneracy_margin, voronoi_region
from featureprism.seeds import generator_for
from featureprism.training.trajectory import Trajectory

PLAIN, SECOND = 0.6, 0.3  # cosines of plain neurons with their centre and with the next of their class
LEANING, OTHER = 0.4, 0.7  # of leaning ones with their centre and with one of the other class
AWAY, REPELLED = -0.3, 0.5  # of void ones with every centre of their class, and with one of the other class
KINDS = ("plain", "leaning", "void")
ALIGNED_TIME = 8.0  # by then every neuron but the void ones is aligned at the alphas in use
NEAR = sqrt(0.8)  # cosine from which on a neuron is near its centre; where the second leg of t̄₁ begins
DIRECTIONS = 20_000  # drawn for Lemma 5
TRACKED = 201  # times of the alignment that are recorded
SEEN = 0.1  # ratios |c_l|/c_k of the start from here on are followed; those of 0 only show noise


@dataclass(frozen=True, kw_only=True)
class AlignmentPhase(SampledGMM):
    """One flow through the alignment phase; `whole` follows it to T* of Theorem 1."""

    series: str
    positive: int = 2
    negative: int = 2
    whole: bool = False


def three_kinds(data: Mixture, log_epsilon: float, seed: int) -> Start:
    """One plain, one leaning and one void neuron for each centre, of norm ε."""
    mu, labels = data.clusters.mu, data.clusters.labels
    k, same_class = len(mu), (labels.unsqueeze(1) == labels).double()
    centre, towards = torch.eye(k).double(), torch.eye(k).double()[_partners(labels, same=False)]
    plain = PLAIN * centre + SECOND * torch.eye(k).double()[_partners(labels, same=True)]
    wanted = torch.cat([plain, LEANING * centre + OTHER * towards, AWAY * same_class + REPELLED * towards])
    rest = gaussian_shape(3 * k, data.clusters.dim, generator=generator_for("shape", seed))
    rest = unit_rows(rest - rest @ mu.T @ mu)
    shape = wanted @ mu + (1 - (wanted**2).sum(dim=1, keepdim=True)).sqrt() * rest
    return start_from(shape, labels.repeat(3), log_epsilon, data.clusters)


def _partners(labels: Tensor, *, same: bool) -> Tensor:
    """For each centre another one, of its class or of the other class: the i-th of a class has the next or the i-th."""
    partners = torch.zeros(len(labels), dtype=torch.long)
    for label in (1.0, -1.0):
        members, others = torch.nonzero(labels == label)[:, 0], torch.nonzero(labels != label)[:, 0]
        partners[members] = members.roll(-1) if same else others[torch.arange(len(members)) % len(others)]
    return partners


class _Run(NamedTuple):
    """The cosines (t, h, k) and log-norms (t, h) of a flow, its start, its nominal law and the recorded time at which it is aligned."""

    times: np.ndarray
    c: Tensor
    rho: Tensor
    start: Start
    law: phases.Nominal
    setting: AlignmentPhase

    @property
    def learned(self) -> Tensor:
        """The neurons that have a region."""
        return self.start.region != VOID

    @property
    def gap(self) -> float:
        """Δ over all neurons."""
        return float(nondegeneracy_gap(self.start.margin).min())

    def with_centre(self, c: Tensor) -> Tensor:
        """(t, m) The cosines of the learned neurons with the centres of their regions."""
        index = self.start.region[self.learned].expand(len(c), -1).unsqueeze(2)
        return c[:, self.learned].gather(2, index).squeeze(2)

    def t_1(self) -> float:
        """When every cosine is at least 1 - α²."""
        least = self.with_centre(self.c).min(dim=1).values.numpy()
        return _passing(self.times, 1 - least, self.setting.alpha**2)


def measure(s: AlignmentPhase, seed: int, context: Context) -> list[Row]:
    """One flow with neurons of the three kinds; what each lemma speaks of, beside its law and its printed bound."""
    data = mixture(s, seed)
    start = three_kinds(data, s.log_epsilon, seed)
    leaves = -s.log_epsilon  # about when f begins to count
    t_end = leaves + 2 * log(1 / s.alpha) + theory.window_length(s) if s.whole else 0.9 * leaves
    record = sorted({*np.linspace(0, ALIGNED_TIME, TRACKED), *_later(leaves, t_end)})
    trajectory = follow_flow(s, data, start, t_end=t_end, record=record, progress=context.progress)
    mu, labels = data.clusters.mu, data.clusters.labels
    c0 = cosines(start.weights.directions, mu)
    run = _Run(
        np.asarray(trajectory.times),
        torch.stack([cosines(weights.directions, mu) for weights in trajectory.snapshots]),
        torch.stack([weights.log_norms for weights in trajectory.snapshots]),
        start,
        phases.nominal_alignment(c0, start.weights.signs, labels, s.p, ALIGNED_TIME),
        s,
    )
    aligned = int(np.searchsorted(run.times, run.t_1()))
    summary = {
        "kind": "phase",
        "gap": run.gap,
        **_proposition_4(run),
        **_speeds(run, trajectory, data, aligned),
        **_lemma_7(run, aligned),
        **_masses(run, aligned),
        "lemma_5": _lemma_5(seed),
        "over_lemma_8": _lemma_8(run),
        "lemma_10_printed": _lemma_10(run),
        **({"lemma_15_printed": _lemma_15(run, aligned)} if s.whole else {}),
    }
    return [summary, *_tracks(run), *theorem_1_premises(s, data, start, s.log_epsilon)]


def _later(leaves: float, t_end: float) -> list[float]:
    """Times after the alignment; closer together where masses grow to 1, if that is before the end."""
    grown = np.linspace(leaves - 6, leaves + 6, 61)
    return [*np.linspace(ALIGNED_TIME, t_end, 40)[1:], *(grown if t_end > grown[-1] else ())]


def _proposition_4(run: _Run) -> Row:
    """t₁ with its law, t₂ as printed, and how well the neurons are aligned at the end of the phase."""
    s, t_1 = run.setting, run.t_1()
    nominal = 1 - run.with_centre(run.law.cosines).min(dim=1).values.numpy()
    predicted = _passing(run.law.times.numpy(), nominal, s.alpha**2)
    least = run.with_centre(run.c).min(dim=1).values.numpy()
    gap = float((1 - least)[run.times <= 0.9 * -s.log_epsilon][-1])
    width = len(run.start.region)
    return {
        "log_inverse_alpha": log(1 / s.alpha),
        "t1": t_1,
        "predicted_t1": predicted,
        "over_t1": t_1 / predicted,
        "t2_over_t1": phases.alignment_end(s, width, s.log_epsilon) / t_1,
        "final_gap": gap,
        "final_gap_over_floor": gap * 2 * s.per_cluster / s.alpha**2,
    }


def _passing(times: np.ndarray, values: np.ndarray, level: float) -> float:
    """When a falling quantity, exponential in between, first passes a level; NaN if it does not."""
    below = np.flatnonzero(values <= level)
    if len(below) == 0 or below[0] == 0:
        return float("nan")
    after, before = below[0], below[0] - 1
    share = (log(values[before]) - log(level)) / (log(values[before]) - log(max(values[after], 1e-300)))
    return float(times[before] + share * (times[after] - times[before]))


def _speeds(run: _Run, trajectory: Trajectory[BalancedWeights], data: Mixture, last: int) -> Row:
    """dc/dt of (E.5) at f = 0, beside (13) and beside its repair.

    speed_share: the least dc/dt ÷ Δ̃₂ p c^(p-1)(1-c²) up to t₁. noise_near_centre: the largest |dc/dt - nominal| ÷ (p (α/√N) √(1-c²)) of
    neurons near their centres up to the end of the phase, K (α/√D)^p of the points of other clusters set aside.
    """
    s, mu, labels = run.setting, data.clusters.mu, data.clusters.labels
    signs = run.start.weights.signs
    _, factor = phases.lemma_5(run.gap, s.p)
    scores, y = data.train.x @ mu.T, data.train.y.unsqueeze(1)
    shares, noises = [], []
    for t in range(0, int((run.times <= -0.9 * s.log_epsilon).sum()), 4):
        u, c = trajectory.snapshots[t].directions, run.c[t]
        z = (data.train.x @ u.T).clamp_min(0)
        pull = y * z ** (s.p - 1) / s.per_cluster  # (n, h)
        speed = s.p * signs.unsqueeze(1) * (pull.T @ scores - c * (pull * z).sum(dim=0).unsqueeze(1))
        nominal = theory.nominal_alignment_field(c, signs, labels, s.p)
        cosine, rate, expected = (run.with_centre(v.unsqueeze(0))[0] for v in (c, speed, nominal))
        if t < last:
            shares.append(float((rate / (factor * s.p * cosine ** (s.p - 1) * (1 - cosine**2))).min()))
        near = cosine >= NEAR
        others = s.p * s.num_clusters * (s.alpha / sqrt(s.dim)) ** s.p
        sine = (1 - cosine[near] ** 2).sqrt()
        noise = ((rate - expected)[near].abs() - others).clamp_min(0)
        noises += (noise / (s.p * s.alpha / sqrt(s.per_cluster) * sine)).tolist()
    return {"speed_share": min(shares), "noise_near_centre": max(noises, default=float("nan"))}


def _lemma_7(run: _Run, aligned: int) -> Row:
    """Up to t₁: least c_k ÷ the one recorded before, until it is 1 - α²; and largest |c_l|/c_k ÷ the first, of those SEEN then."""
    cosine = run.with_centre(run.c)[: aligned + 1]
    growing = cosine[:-1] < 1 - run.setting.alpha**2
    others = run.c[: aligned + 1, run.learned].abs() / cosine.unsqueeze(2)
    others.scatter_(2, run.start.region[run.learned].expand(len(others), -1).unsqueeze(2), 0.0)
    return {
        "lemma_7_growth": float((cosine[1:] / cosine[:-1])[growing].min()),
        "lemma_7_ratio": float((others[1:] / others[0])[:, others[0] >= SEEN].max()),
    }


def _masses(run: _Run, aligned: int) -> Row:
    """Masses at t₁ against the nominal equation (Lemma 14), and the growth of void neurons up to the end (Lemma 16)."""
    growth, nominal = run.rho - run.rho[0], run.law.growth
    nearest = int((run.law.times - run.times[aligned]).abs().argmin())
    gained = 2 * (growth[aligned] - nominal[nearest])[run.learned]
    void = 2 * growth[-1, ~run.learned]
    return {"over_lemma_14": float(gained.abs().max().exp()), "void_growth": float(void.max().exp())}


def _lemma_8(run: _Run) -> float:
    """When max_k |f(μ_k)| passes 2ε√h ÷ the law: aligned masses that grow like e^(2t) from where the alignment left them."""
    s, signs = run.setting, run.start.weights.signs
    level = log(2) + 0.5 * log(len(signs)) + s.log_epsilon
    f = signs.unsqueeze(1) * run.c.clamp_min(0) ** s.p * (2 * (run.rho - s.log_epsilon)).exp().unsqueeze(2)
    size = f.sum(dim=1).abs().max(dim=1).values.log().numpy() + 2 * s.log_epsilon
    passed = int(np.argmax(size >= level))
    share = (level - size[passed - 1]) / (size[passed] - size[passed - 1])
    measured = run.times[passed - 1] + share * (run.times[passed] - run.times[passed - 1])
    masses = torch.zeros(s.num_clusters).double()
    masses.index_add_(0, run.start.region[run.learned], (2 * run.law.growth[-1, run.learned]).exp())
    return float(measured) / (ALIGNED_TIME + 0.5 * (level - 2 * s.log_epsilon - float(masses.max().log())))


def _lemma_10(run: _Run) -> float:
    """The longest second leg of t₁, from cosine √(4/5) to 1 - α², ÷ its bound by Lemma 10 as printed."""
    s, levels = run.setting, (1 - NEAR, run.setting.alpha**2)
    gaps = (1 - run.with_centre(run.c)).T.numpy()
    passed = np.array([[_passing(run.times, gap, level) for level in levels] for gap in gaps])
    return float((passed[:, 1] - passed[:, 0]).max()) / phases.second_leg(s.alpha, s.p)[0]


def _lemma_15(run: _Run, aligned: int) -> float:
    """The longest time of a cluster mass from t₁ to 1 - 2α² ÷ the bound of Lemma 15 with Δ = α²."""
    s, region = run.setting, run.start.region[run.learned]
    logs = 2 * run.rho[:, run.learned]
    end = 1 - 2 * s.alpha**2
    over = []
    for k in range(s.num_clusters):
        mass = torch.logsumexp(logs[:, region == k], dim=1)  # ln S
        odds = mass - torch.log1p(-mass.exp().clamp_max(1 - 1e-6))  # grows like 2t
        after = _passing(run.times, (-odds).exp().numpy(), (1 - end) / end) - float(run.times[aligned])
        over.append(after / phases.travel_time_15(float(mass[aligned]), end, s.alpha**2))
    return max(over)


def _lemma_5(seed: int) -> float:
    """The least c_k ÷ Δ̃₁(Δ) over directions drawn in three dimensions, of which two centres span two; Δ is each direction's own."""
    w = torch.randn(DIRECTIONS, 3, generator=generator_for("directions", seed), dtype=torch.float64)
    centres, labels, signs = torch.eye(3).double()[:2], torch.ones(2).double(), torch.ones(len(w)).double()
    region = voronoi_region(w, signs, centres, labels)
    gap = nondegeneracy_gap(nondegeneracy_margin(w, signs, centres, labels))[region != VOID]
    nearest = cosines(w, centres).amax(dim=1)[region != VOID]
    return float((nearest / (((1 - gap) ** -2 - 1) / 2).sqrt()).min())


def _tracks(run: _Run) -> list[Row]:
    """For the drawing: the cosines of one neuron of each kind with its own and with the other centre."""
    k = run.setting.num_clusters
    rows: list[Row] = []
    for number, kind in enumerate(KINDS):
        for t in range(0, TRACKED, 5):
            own, other = run.c[t, number * k, 0], run.c[t, number * k, run.setting.positive]
            row = {"kind": "track", "neuron": kind, "time": float(run.times[t])}
            rows.append(row | {"own": float(own), "other": float(other)})
    return rows
