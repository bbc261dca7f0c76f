"""The 50 % radius against the number of clusters and of labels: two labels, one for each cluster, and everything between."""

from math import sqrt

import torch

from featureprism.networks import BinaryReadout, grouped_start
from featureprism.papers.feature_averaging.setting import (
    BASELINE,
    attack_facts,
    bracket,
    clean_accuracy,
    problem,
    train,
)
from featureprism.records import Claim, Experiment, Progress, Row, judge, log_slope, rows_of, seeds_of
from featureprism.seeds import generator_for
from featureprism.theory import feature_averaging as theory


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """One network with a label for every `per_label` clusters of a class."""
    data, per_label, dim = problem(setting, seed), setting["per_label"], setting["dim"]
    label = torch.arange(data.clusters.num_clusters) // per_label
    start = grouped_start(
        setting["labels"],
        setting["group"],
        dim,
        setting["start"],
        generator=generator_for("labels start", seed),
    )
    net = train(start, setting, data.train.x, label[data.train.cluster])
    progress(0.6)
    readout = BinaryReadout(net, data.clusters.labels[::per_label])
    found = bracket(readout, data.test, gap=0.01)
    return [
        {
            "kind": "cell",
            "radius": float(found.attacked.median()) / sqrt(dim),
            "certified_radius": float(found.certified.median()) / sqrt(dim),
            "predicted_radius": theory.partial_radius(dim, per_label) / sqrt(dim),
            "clean_accuracy": clean_accuracy(readout, data.test),
            **attack_facts(found),
        }
    ]


def _claims(rows: list[Row]) -> list[Claim]:
    seeds = seeds_of(rows)

    def slope(seed: int, pick) -> float:
        found = [r for r in rows_of(rows, "cell", seed=seed) if pick(r)]
        return log_slope([r["clusters"] for r in found], [r["radius"] for r in found])

    def finest(seed: int) -> float:
        found = [r for r in rows_of(rows, "cell", seed=seed) if r["per_label"] > 1]
        return log_slope([r["per_label"] for r in found], [r["radius"] for r in found])

    def ratios(seed: int) -> list[float]:
        return [r["radius"] / r["predicted_radius"] for r in rows_of(rows, "cell", seed=seed)]

    source = "beyond feature-averaging, Section 4"
    return [
        judge(
            "phase-supervision.two-labels",
            source,
            "two labels: the radius falls like 1/√k (slope of log radius against log k)",
            [slope(s, lambda r: r["labels"] == 2) for s in seeds],
            "in",
            (-0.6, -0.4),
        ),
        judge(
            "phase-supervision.all-labels",
            source,
            "a label for each cluster: it stays (the same slope)",
            [slope(s, lambda r: r["per_label"] == 1) for s in seeds],
            "in",
            (-0.1, 0.1),
        ),
        judge(
            "phase-supervision.partial",
            source,
            "partial labels: only the number s of clusters under one label counts (slope of log radius against log s)",
            [finest(s) for s in seeds],
            "in",
            (-0.6, -0.4),
        ),
        judge(
            "phase-supervision.law",
            source,
            "one law for all: largest |radius ÷ √(d/2s) - 1| over cells",
            [max(abs(ratio - 1) for ratio in ratios(s)) for s in seeds],
            "<=",
            0.15,
        ),
    ]


def _settings(counts: tuple[int, ...], dim: int, test_points: int) -> list[Row]:
    rows = []
    for k in counts:
        for per_label in (s for s in (1, 2, 4, 8, 16, 32) if s <= k // 2):
            sizes = {"dim": dim, "positive": k // 2, "negative": k // 2, "clusters": k, "points": 40 * k}
            labels = {"labels": k // per_label, "per_label": per_label}
            speed = {"step_size": 7.5e-3 * 1536 / dim, "steps": 20 * k}  # as in feature-averaging/scaling
            rows.append({**BASELINE, **sizes, **labels, **speed, "test_points": test_points})
    return rows


PHASE_SUPERVISION = Experiment(
    id="beyond/phase-supervision",
    source="beyond feature-averaging, Section 4",
    title="How fine must labels be?",
    scales={
        "quick": _settings((4, 8, 16), 1024, 12),
        "standard": _settings((4, 8, 16, 32), 4096, 100),
        "paper": _settings((4, 8, 16, 32, 64), 8192, 500),
    },
    measure=measure,
    claims=_claims,
    about=(
        "k clusters share fewer labels: each label stands for s clusters of one class, from s = 1 (a label for each cluster) to"
        " s = k/2 (two labels). Networks are trained on these labels and read as two-class classifiers. Predicted 50 % radius"
        " √(d/2s): averaging happens under each label, and only there. Radii are the attacked end, with the proven end beside"
        " it, in units of √d."
    ),
)
