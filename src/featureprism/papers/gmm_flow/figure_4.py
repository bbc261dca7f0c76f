"""Figure 4: neurons first align with the centres of their regions, then cluster masses grow to 1. A sketch in the paper."""

from dataclasses import dataclass
from math import inf, isfinite, log, nan
from typing import TYPE_CHECKING

import torch

from featureprism.lab import Claim, Experiment, Rows, at_most, between, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import gaussian_shape, nudge_to_own_class
from featureprism.networks.initial import random_signs
from featureprism.papers.gmm_flow import theory
from featureprism.papers.gmm_flow.setting import ALPHA, SampledGMM, follow_flow, mixture, start_from
from featureprism.probes import cluster_masses, cosines
from featureprism.seeds import generator_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON = 1e-7  # Appendix B.1
MASS_SEEN = 0.01  # from here on the growth of a cluster mass is compared with its law


@dataclass(frozen=True, kw_only=True)
class AlignmentAndGrowth(SampledGMM):
    """Gradient flow from a start nudged so that it is not degenerate, on the mixture of Appendix B.1."""

    width: int
    num_times: int
    nudge: float = 0.3  # not printed
    positive: int = 5
    negative: int = 5


def measure(s: AlignmentAndGrowth, seed: int, context: Context) -> list[Row]:
    """c_kj(t) of every neuron with the centre of its region, and S_k(t) of every cluster."""
    data = mixture(s, seed)
    mu, labels, k = data.clusters.mu, data.clusters.labels, s.num_clusters
    shape = gaussian_shape(s.width, s.dim, generator=generator_for("shape", seed))
    signs = random_signs(s.width, generator=generator_for("signs", seed))
    shape = nudge_to_own_class(shape, signs, mu, labels, s.nudge, generator=generator_for("nudge", seed))
    start = start_from(shape, signs, log(EPSILON), data.clusters)
    t_end = log(1 / EPSILON) + 12
    aligning = torch.linspace(0, 5, s.num_times).double().tolist()
    growing = torch.linspace(5, t_end, 2 * s.num_times, dtype=torch.float64).tolist()
    trajectory = follow_flow(
        s, data, start, t_end=t_end, record=aligning + growing, progress=context.progress
    )
    rows: list[Row] = []
    for t, weights in zip(trajectory.times, trajectory.snapshots, strict=True):
        c, masses = cosines(weights.directions, mu), cluster_masses(weights.log_norms, start.region, k)
        rows += [
            {"kind": "neuron", "time": t, "neuron": j, "cluster": int(r), "cosine": float(c[j, r])}
            for j, r in enumerate(start.region.tolist())
            if r >= 0
        ]
        rows += [
            {"kind": "mass", "time": t, "cluster": i, "mass": float(m)} for i, m in enumerate(masses.tolist())
        ]
    return rows + [premise.as_row() for premise in theory.assumption_2(start.margin, start.region, k)]


def mass_law_error(run: Rows) -> float:
    """Largest |S_k(t) - logistic| once S_k has passed 0.01, the logistic starting there; NaN if none ever has."""
    worst = -inf
    for cluster in run.groups("cluster").values():
        seen = cluster.where(lambda row: (row["mass"] or 0) >= MASS_SEEN)
        for row in seen:
            law = theory.nominal_mass(seen[0]["mass"], row["time"] - seen[0]["time"])
            worst = max(worst, abs(row["mass"] - law))
    return worst if worst >= 0 else nan


def gap_over_tilt_law(run: Rows) -> float:
    """The largest 1 - cosine over neurons at the last time ÷ tilt²/2 of the drift law, from when the first mass passes ½."""
    neurons, masses = run.of("neuron"), run.of("mass")
    end = neurons.column("time").max()
    if not isfinite(end):
        return nan
    half = masses.column("time")[masses.column("mass") >= 0.5].min(initial=inf)
    sizes = {name: run[0][name] for name in ("dim", "positive", "negative", "alpha", "per_cluster", "p")}
    tilt = theory.drift_tilt(theory.OrthonormalGMM(**sizes), end - half)
    return (1 - neurons.column("cosine")[neurons.column("time") == end].min()) / (tilt**2 / 2)


CLAIMS = (
    Claim(
        "alignment",
        source="Figure 4, behind Proposition 4",
        says="Every neuron ends at the centre of the region it started in, up to an angle that comes from the noise of the sample.",
        quantity="largest 1 - cosine of a neuron with its centre, divided by the prediction from the mean noise of a cluster",
        formula=r"1 - c_{kj} \approx \tfrac{1}{2} \left( \alpha^2/N + p^4\alpha^4(t-t^*)^2/(DN) \right)",
        bound=between(0.9, 1.3),
        because="1 is the law for one cluster; the largest of ten clusters lies a little above it",
        value=lambda rows: rows.where(lambda row: row["kind"] in ("neuron", "mass")).per_seed(
            gap_over_tilt_law
        ),
        origin="featureprism",
        premises=requires("assumption-2"),
        note=f"Proposition 4 has the order α²: cosines above {1 - ALPHA**2:g}, where the law gives 0.9998 and more",
    ),
    Claim(
        "mass-law",
        source="Figure 4, (14) with the corrected factor 2",
        says="The squared norms of the neurons of a cluster add up to a mass that grows to 1 along a logistic curve.",
        quantity="largest deviation of a cluster mass from the logistic curve",
        formula=r"\dot S_k = 2 S_k (1 - S_k), \quad S_k = \sum_{j \in \mathcal N_k} \lVert w_j \rVert^2",
        bound=at_most(0.01),
        because="one hundredth of the final mass, the width of a line in the figure",
        value=lambda rows: rows.of("mass").per_seed(mass_law_error),
        origin="featureprism",
        premises=requires("assumption-2"),
    ),
)


def draw(rows: Rows) -> "Figure":
    """Cosines of neurons and masses of clusters along the flow of the first seed, with the law of the masses."""
    from featureprism.lab.style import COLOURS, panels

    rows = rows.having(seed=rows.seeds[0])
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    neurons, masses = rows.of("neuron"), rows.of("mass")
    for neuron in neurons.groups("neuron").values():
        colour = COLOURS[neuron[0]["cluster"] % len(COLOURS)]
        left.plot(neuron.column("time"), neuron.column("cosine"), color=colour, linewidth=0.9, alpha=0.8)
    unaligned = max((r["time"] for r in neurons if r["cosine"] < 0.99), default=1.0)
    left.set(xlabel="time", ylabel="cos(neuron, its centre)", xlim=(0, 1.3 * unaligned))
    left.set_title("(a) every neuron, coloured by cluster")
    for k, cluster in masses.groups("cluster").items():
        colour = COLOURS[k % len(COLOURS)]
        right.plot(cluster.column("time"), cluster.column("mass"), color=colour, linewidth=1.2)
        seen = cluster.where(lambda row: row["mass"] >= MASS_SEEN)
        law = [theory.nominal_mass(seen[0]["mass"], r["time"] - seen[0]["time"]) for r in seen]
        label = "dS/dt = 2S(1-S)" if k == 0 else None
        right.plot(seen.column("time"), law, color="k", linestyle=":", linewidth=1, label=label)
    right.set(xlabel="time", ylabel="cluster mass S", title="(b) mass of every cluster")
    right.legend(loc="upper left")
    return figure


FIGURE_4 = Experiment(
    id="gmm-flow/figure-4",
    source="Min & Vidal 2025, Figure 4",
    title="Alignment first, then growth: a real trajectory",
    scales={
        "quick": [AlignmentAndGrowth(dim=400, per_cluster=50, width=30, num_times=61)],
        "standard": [AlignmentAndGrowth(dim=1000, per_cluster=200, width=60, num_times=81)],
        "paper": [AlignmentAndGrowth(dim=1000, per_cluster=500, width=60, num_times=81)],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The paper draws this figure as a sketch; here it is a gradient flow (ε = 1e-7, square loss, 1/N clock) from a"
        " non-degenerate start, with the nominal laws drawn over it."
    ),
)
