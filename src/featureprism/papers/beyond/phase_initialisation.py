"""The 50 % radius of pReLU networks against the power p and the size of the start."""

from itertools import pairwise
from math import exp, log, nan, sqrt

import torch

from featureprism.attacks import minimal_radius, self_test, structured_starts
from featureprism.networks import PolynomialReLU, gaussian_start
from featureprism.papers.gmm_flow.setting import mixture
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.seeds import generator_for
from featureprism.theory import gmm_flow as theory
from featureprism.training import Loss, gradient_descent

FALLEN = 0.9  # of √2/2: below, a network counts as no longer as robust as possible


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Train one network by full-batch descent and attack its test points."""
    data, p, dim, width = mixture(setting, seed), setting["p"], setting["dim"], setting["width"]
    start = gaussian_start(
        width, dim, setting["std"], PolynomialReLU(p), generator=generator_for("start", seed)
    ).float()
    run = gradient_descent(
        start,
        data.train.x,
        data.train.y,
        loss=Loss("square", "mean"),
        step_size=setting["step_size"],
        steps=setting["steps"],
        progress=lambda done: progress(0.6 * done),
    )
    net, clusters = run.last.double(), data.clusters
    with torch.no_grad():
        fitted = float((data.train.y * net(data.train.x) > 0).double().mean())
    starts = structured_starts(net, clusters.mu, clusters.labels)
    found = minimal_radius(net, data.test.x, data.test.y, starts=starts, upper=1.0)
    per_cluster = width / clusters.num_clusters
    critical = theory.critical_start(dim, per_cluster, p)
    return [
        {
            "kind": "cell",
            "half_radius": float(found.radius.median()),
            "train_accuracy": fitted,
            "critical_std": critical,
            "predicted_cosine": theory.aligned_when_learned(per_cluster * setting["std"] ** 2 * dim, p),
            "zero_gradient_share": found.zero_gradient_share,
            "self_test_passed": self_test().passed,
            "ended": run.ended.name,
        }
    ]


def fall(rows: list[Row], p: float, seed: int) -> float:
    """The entry std at which the radius falls below 0.9 √2/2, interpolated in log std; NaN if it never does, or always is."""
    cells = sorted(rows_of(rows, "cell", p=p, seed=seed), key=lambda r: r["std"])
    level = FALLEN * theory.LARGEST_RADIUS
    for small, large in pairwise(cells):
        high, low = small["half_radius"], large["half_radius"]
        if high >= level > low:
            share = (high - level) / (high - low)
            return exp((1 - share) * log(small["std"]) + share * log(large["std"]))
    return nan


def _claims(rows: list[Row]) -> list[Claim]:
    seeds = seeds_of(rows)
    cells = rows_of(rows, "cell")
    powers = sorted({r["p"] for r in cells if r["p"] > 2})

    def ratio(seed: int) -> float:
        """Geometric mean over p > 2 of measured ÷ predicted std of the fall."""
        logs = [
            log(fall(rows, p, seed) / rows_of(rows, "cell", p=p, seed=seed)[0]["critical_std"])
            for p in powers
        ]
        return exp(sum(logs) / len(logs)) if logs else nan

    def extreme(pick, seed: int, wanted) -> float:
        values = [r["half_radius"] for r in cells if r["seed"] == seed and wanted(r)]
        return pick(values) if values else nan

    def small(r: Row) -> bool:
        return r["p"] > 2 and r["std"] <= r["critical_std"] / 10

    def large(r: Row) -> bool:
        return r["p"] > 2 and r["std"] >= 4 * r["critical_std"]

    least = min(r["std"] for r in cells) if cells else nan
    source, best = "beyond gmm-flow, Figure 7", theory.LARGEST_RADIUS
    return [
        judge(
            "phase-initialisation.small",
            source,
            "p > 2 and a start of at most a tenth of the predicted size: as robust as possible (least 50 % radius ÷ √2/2)",
            [extreme(min, s, small) / best for s in seeds],
            ">=",
            0.95,
            "a tenth chosen after a first look: at a quarter, p = 2.5 falls short on some seeds",
        ),
        judge(
            "phase-initialisation.large",
            source,
            "p > 2 and a start of at least four times that size: not (largest 50 % radius ÷ √2/2)",
            [extreme(max, s, large) / best for s in seeds],
            "<",
            FALLEN,
        ),
        judge(
            "phase-initialisation.place",
            source,
            "the radius falls off where predicted: entry std at which it passes 0.9 √2/2, measured ÷ predicted, mean over p > 2",
            [ratio(s) for s in seeds],
            "in",
            (1 / 3, 3.0),
            "predicted: where a neuron has cosine 1/√2 with its centre when its cluster is learned (level chosen after a first look)",
        ),
        judge(
            "phase-initialisation.power",
            source,
            "p ≤ 2 is never as robust as possible, however small the start: largest 50 % radius ÷ √2/2 at the smallest start",
            [extreme(max, s, lambda r: r["p"] <= 2 and r["std"] == least) / best for s in seeds],
            "<",
            FALLEN,
            "Theorem 1 asks for p > 2",
        ),
    ]


def _settings(size: Row, powers: tuple[float, ...], stds: tuple[float, ...]) -> list[Row]:
    mix = {"positive": 12, "negative": 8, "alpha": 0.1, "width": 200, "step_size": 2.0}
    return [{**mix, **size, "p": p, "std": std} for p in powers for std in stds]


STDS = (1e-3, 1e-2, 0.03, 0.1, 0.5)
PHASE_INITIALISATION = Experiment(
    id="beyond/phase-initialisation",
    source="beyond gmm-flow, Figure 7",
    title="Which powers and starts make pReLU robust",
    scales={
        "quick": _settings(
            {"dim": 200, "per_cluster": 30, "test_points": 12, "steps": 300}, (1.5, 2.0, 2.5, 3.0), STDS
        ),
        "standard": _settings(
            {"dim": 1000, "per_cluster": 100, "test_points": 50, "steps": 1000},
            (1.5, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0),
            (1e-4, 1e-3, 3e-3, *STDS[1:]),
        ),
        "paper": _settings(
            {"dim": 2000, "per_cluster": 1000, "test_points": 100, "steps": 2000},
            (1.5, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0),
            (1e-4, 1e-3, 3e-3, *STDS[1:]),
        ),
    },
    measure=measure,
    claims=_claims,
    about=(
        "Width 200 on the mixture of Figure 2 (K = 12+8, α = 0.1), trained by full-batch descent from entries N(0, std²); radii are"
        " those of the shortest verified perturbation found. Predicted: a neuron turns towards a centre while its output weight grows"
        " from nothing; the start is too large when the cluster is learned before the neuron has cosine 1/√2 with its centre. (The"
        " prediction looks at one cluster alone; near p = 2 clusters compete for a neuron, and the fall comes earlier.) Best possible:"
        f" √2/2 = {sqrt(0.5):.3f}."
    ),
)
