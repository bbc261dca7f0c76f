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

from featureprism.context import Context
from featureprism.geometry import unit_rows
from featureprism.lab.rows import farthest
from featureprism.networks import BalancedWeights, balanced, gaussian_shape
from featureprism.papers.gmm_flow.setting import Mixture, Setting, mixture
from featureprism.probes import VOID, cosines, nondegeneracy_gap, nondegeneracy_margin, voronoi_region
from featureprism.records import Row, Trajectory
from featureprism.seeds import generator_for
from featureprism.theory import gmm_flow as theory
from featureprism.theory import gmm_flow_phases as phases
from featureprism.training import Loss, balanced_flow

PLAIN, SECOND = 0.6, 0.3  # cosines of plain neurons with their centre and with the next of their class
LEANING, OTHER = 0.4, 0.7  # of leaning ones with their centre and with one of the other class
AWAY, REPELLED = (
    -0.3,
    0.5,
)  # cosines of void neurons: to every centre of their class, and to one of the other class
KINDS = ("plain", "leaning", "void")
ALIGNED_TIME = 8.0  # by then every neuron but the void ones is aligned at the alphas in use
DIRECTIONS = 20_000  # drawn for Lemma 5
TRACKED = 201  # times of the alignment that are recorded
SEEN = 0.1  # ratios |c_l|/c_k of the start from here on are followed; those of 0 only show noise


@dataclass(frozen=True, kw_only=True)
class Phase(Setting):
    """One flow through the alignment phase; `whole` follows it to T* of Theorem 1."""

    series: str
    positive: int = 2
    negative: int = 2
    whole: bool = False


class Start(NamedTuple):
    """Neurons of three kinds with their regions."""

    weights: BalancedWeights
    region: Tensor
    kinds: np.ndarray
    gap: float  # Δ over all neurons


def three_kinds(data: Mixture, log_eps: float, seed: int) -> Start:
    """One plain, one leaning and one void neuron for each centre, of norm ε."""
    mu, labels = data.clusters.mu, data.clusters.labels
    k, own = len(mu), (labels.unsqueeze(1) == labels).double()
    eye, towards = torch.eye(k).double(), torch.eye(k).double()[_partners(labels, same=False)]
    near = PLAIN * eye + SECOND * torch.eye(k).double()[_partners(labels, same=True)]
    wanted = torch.cat([near, LEANING * eye + OTHER * towards, AWAY * own + REPELLED * towards])
    rest = gaussian_shape(3 * k, data.clusters.dim, generator=generator_for("shape", seed))
    rest = unit_rows(rest - rest @ mu.T @ mu)
    shape = wanted @ mu + (1 - (wanted**2).sum(dim=1, keepdim=True)).sqrt() * rest
    signs = labels.repeat(3)
    gap = nondegeneracy_gap(nondegeneracy_margin(shape, signs, mu, labels)).min()
    region = voronoi_region(shape, signs, mu, labels)
    return Start(balanced(shape, signs, log_eps), region, np.repeat(KINDS, k), float(gap))


def _partners(labels: Tensor, *, same: bool) -> Tensor:
    """For each centre another one, of its class or of the other class: the i-th of a class has the next or the i-th."""
    partners = torch.zeros(len(labels), dtype=torch.long)
    for label in (1.0, -1.0):
        own, others = torch.nonzero(labels == label)[:, 0], torch.nonzero(labels != label)[:, 0]
        partners[own] = own.roll(-1) if same else others[torch.arange(len(own)) % len(others)]
    return partners


def measure(s: Phase, seed: int, context: Context) -> list[Row]:
    """One flow with neurons of the three kinds; what each lemma speaks of, beside its law and its printed bound."""
    data = mixture(s, seed)
    mu, labels = data.clusters.mu, data.clusters.labels
    start = three_kinds(data, s.log_epsilon, seed)
    leaves = -s.log_epsilon  # about when f begins to count
    t_end = leaves + 2 * log(1 / s.alpha) + theory.window_length(s) if s.whole else 0.9 * leaves
    trajectory = balanced_flow(
        start.weights,
        data.train.x,
        data.train.y,
        p=s.p,
        loss=Loss("square", "per-cluster", s.num_clusters),
        t_end=t_end,
        record=sorted({*np.linspace(0, ALIGNED_TIME, TRACKED), *_later(leaves, t_end)}),
        progress=context.progress,
    )
    c0 = cosines(start.weights.directions, mu)
    law = phases.nominal_alignment(c0, start.weights.signs, labels, s.p, ALIGNED_TIME)
    c = torch.stack([cosines(weights.directions, mu) for weights in trajectory.snapshots])
    rho = torch.stack([weights.log_norms for weights in trajectory.snapshots])
    run = _Run(np.asarray(trajectory.times), c, rho, start, law, s)
    margin = nondegeneracy_margin(start.weights.directions, start.weights.signs, mu, labels)
    premises = [
        *theory.theorem_1_premises(s, s.log_epsilon),
        *theory.assumption_2(margin, start.region, s.num_clusters),
        *theory.good_event(data.train, s.alpha),
    ]
    summary = _alignment(run) | _lemmas(run, trajectory, data) | {"lemma_5": _lemma_5(seed)}
    rows = [{"kind": "phase", "gap": start.gap, **summary}, *_tracks(run)]
    return rows + [premise.as_row() for premise in premises]


def _later(leaves: float, t_end: float) -> list[float]:
    """Times after the alignment; closer together where masses grow to 1, if that is before the end."""
    grown = np.linspace(leaves - 6, leaves + 6, 61)
    return [*np.linspace(ALIGNED_TIME, t_end, 40)[1:], *(grown if t_end > grown[-1] else ())]


class _Run(NamedTuple):
    """The cosines (t, h, k) and log-norms (t, h) of a flow, its start and its law."""

    times: np.ndarray
    c: Tensor
    rho: Tensor
    start: Start
    law: phases.Nominal
    setting: Phase

    @property
    def learned(self) -> Tensor:
        """The neurons that have a region."""
        return self.start.region != VOID

    def own(self, c: Tensor) -> Tensor:
        """(t, m) The cosines of these neurons with their centres."""
        index = self.start.region[self.learned].expand(len(c), -1).unsqueeze(2)
        return c[:, self.learned].gather(2, index).squeeze(2)


def _alignment(run: _Run) -> Row:
    """t₁ with its law, t₂ as printed, and how well the neurons are aligned at the end of the phase."""
    s, own = run.setting, run.own(run.c)
    least = own.min(dim=1).values.numpy()
    t_1 = _passing(run.times, 1 - least, s.alpha**2)
    predicted = _passing(
        run.law.times.numpy(), 1 - run.own(run.law.cosines).min(dim=1).values.numpy(), s.alpha**2
    )
    gap = float((1 - least)[run.times <= 0.9 * -s.log_epsilon][-1])
    return {
        "log_inverse_alpha": log(1 / s.alpha),
        "t1": t_1,
        "predicted_t1": predicted,
        "over_t1": t_1 / predicted,
        "t2_over_t1": phases.alignment_end(s, len(run.start.kinds), s.log_epsilon) / t_1,
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


def _lemmas(run: _Run, trajectory: Trajectory[BalancedWeights], data: Mixture) -> Row:
    """(13) and Lemmas 7 to 10 and 14 to 16."""
    s, learned = run.setting, run.learned
    at_t1 = int(np.searchsorted(run.times, _alignment(run)["t1"]))
    growth, nominal = run.rho - run.rho[0], run.law.growth
    gained = 2 * (growth[at_t1] - _at(run.law.times, nominal, run.times[at_t1]))[learned]
    void = 2 * growth[-1, ~learned]
    lost = log(phases.mass_gain(REPELLED, 0.0, s.p))
    return {
        **_speeds(run, trajectory, data, at_t1),
        **_legs(run),
        **(_lemma_15(run, at_t1) if s.whole else {}),
        **_lemma_7(run, at_t1),
        "over_lemma_8": _lemma_8(run),
        "over_lemma_14": float(gained.abs().max().exp()),
        "void_growth": float(void.max().exp()),
        "over_lemma_16": float((void - lost).abs().max().exp()),
    }


def _lemma_7(run: _Run, at_t1: int) -> Row:
    """Up to t₁: least c_k ÷ the one recorded before, until it is 1 - α²; and largest |c_l|/c_k ÷ the first, of those SEEN then."""
    own = run.own(run.c)[: at_t1 + 1]
    growing = own[:-1] < 1 - run.setting.alpha**2
    others = run.c[: at_t1 + 1, run.learned].abs() / own.unsqueeze(2)
    others.scatter_(2, run.start.region[run.learned].expand(len(others), -1).unsqueeze(2), 0.0)
    return {
        "lemma_7_growth": float((own[1:] / own[:-1])[growing].min()),
        "lemma_7_ratio": float((others[1:] / others[0])[:, others[0] >= SEEN].max()),
    }


def _at(times: Tensor, values: Tensor, t: float) -> Tensor:
    """The row of `values` at the time nearest to t."""
    return values[int((times - t).abs().argmin())]


def _speeds(run: _Run, trajectory: Trajectory[BalancedWeights], data: Mixture, last: int) -> Row:
    """dc/dt of (E.5) at f = 0 up to t₁: least ÷ Δ̃₂ p c^(p-1)(1-c²), and largest departure from the nominal speed ÷ (α/√N + α/√D)."""
    s, mu, labels = run.setting, data.clusters.mu, data.clusters.labels
    _, factor = phases.lemma_5(run.start.gap, s.p)
    scores, y = data.train.x @ mu.T, data.train.y.unsqueeze(1)
    shares, departures = [], []
    for t in range(0, last, 4):
        u, c = trajectory.snapshots[t].directions, run.c[t]
        z = (data.train.x @ u.T).clamp_min(0)
        pull = y * z ** (s.p - 1) / s.per_cluster  # (n, h)
        speed = (
            s.p
            * run.start.weights.signs.unsqueeze(1)
            * (pull.T @ scores - c * (pull * z).sum(dim=0).unsqueeze(1))
        )
        nominal = theory.nominal_alignment_field(c, run.start.weights.signs, labels, s.p)
        own, ours = (run.own(value.unsqueeze(0))[0] for value in (c, speed))
        shares.append(float((ours / (factor * s.p * own ** (s.p - 1) * (1 - own**2))).min()))
        departures.append(float((ours - run.own(nominal.unsqueeze(0))[0]).abs().max()))
    order = s.alpha / sqrt(s.per_cluster) + s.alpha / sqrt(s.dim)
    return {
        "speed_share": min(shares),
        "departure": max(departures),
        "departure_over_order": max(departures) / order,
    }


def _legs(run: _Run) -> Row:
    """The two legs of t₁, up to cosine √(4/5) and on to 1 - α², ÷ the nominal times; the second ÷ the bound by Lemma 10 as printed."""
    s, levels = run.setting, (1 - sqrt(0.8), run.setting.alpha**2)
    legs = []
    for times, c in ((run.times, run.c), (run.law.times.numpy(), run.law.cosines)):
        gaps = (1 - run.own(c)).T.numpy()
        passed = np.array([[_passing(times, gap, level) for level in levels] for gap in gaps])
        legs.append(np.diff(passed, axis=1, prepend=0.0))  # (m, 2)
    measured, nominal = legs
    over = measured / nominal
    return {
        "lemma_9_law": farthest(over[:, 0], 1.0),
        "lemma_10_law": farthest(over[:, 1], 1.0),
        "lemma_10_printed": float(measured[:, 1].max()) / phases.second_leg(s.alpha, s.p)[0],
    }


def _lemma_15(run: _Run, at_t1: int) -> Row:
    """Time of each cluster mass from t₁ to 1 - 2α² ÷ the bound of Lemma 15 with Δ = α², and ÷ that of dS/dt = 2S(1-S)."""
    s, region = run.setting, run.start.region[run.learned]
    logs = 2 * run.rho[:, run.learned]
    end = 1 - 2 * s.alpha**2
    over, laws = [], []
    for k in range(s.num_clusters):
        mass = torch.logsumexp(logs[:, region == k], dim=1)  # ln S
        odds = mass - torch.log1p(-mass.exp().clamp_max(1 - 1e-6))  # grows like 2t
        start = float(mass[at_t1])
        after = _passing(run.times, (-odds).exp().numpy(), (1 - end) / end) - float(run.times[at_t1])
        over.append(after / phases.travel_time_15(start, end, s.alpha**2))
        laws.append(after / (0.5 * (log(end / (1 - end)) - start)))
    return {"lemma_15_printed": max(over), "lemma_15_law": farthest(np.array(laws), 1.0)}


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
