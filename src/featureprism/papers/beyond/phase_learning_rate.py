"""Where feature averaging stops: against the step size and the size of the start."""

import torch

from featureprism.papers.feature_averaging.setting import (
    BASELINE,
    attack_facts,
    average_cosines,
    bracket,
    problem,
    theory_setting,
    train_two_class,
)
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.theory import feature_averaging as theory

AVERAGES = 0.9  # cosines of at least this share of the law count as averaging


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Cosines of one two-class network as a share of the law of feature averaging, and its radius."""
    data = problem(setting, seed)
    net = train_two_class(setting, data.train, seed)
    progress(0.5)
    same, opposite = average_cosines(net.W, torch.sign(net.a.detach()), data.clusters)
    found = bracket(net, data.test, gap=0.01)
    k, asked = data.clusters.num_clusters, theory_setting(setting, setting["per_class"])
    return [
        {
            "kind": "cell",
            "share": same / theory.cosine_law(setting["positive"], k, setting["points"]),
            "predicted_share": theory.averaging_share(asked, setting["steps"]),
            "opposite": opposite,
            "radius": float(found.attacked.median()) / theory.critical_radius(setting["dim"], k),
            **attack_facts(found),
        }
    ]


def _claims(rows: list[Row]) -> list[Claim]:
    seeds = seeds_of(rows)

    def agree(seed: int) -> float:
        cells = rows_of(rows, "cell", seed=seed)
        same = [(r["share"] >= AVERAGES) == (r["predicted_share"] >= AVERAGES) for r in cells]
        return sum(same) / len(same)

    def gap(seed: int) -> float:
        return max(abs(r["share"] - r["predicted_share"]) for r in rows_of(rows, "cell", seed=seed))

    source = "beyond feature-averaging, Figures 6 and 7"
    return [
        judge(
            "phase-learning-rate.boundary",
            source,
            "averaging stops where predicted: share of cells on the predicted side (cosines at least 90 % of the law, or not)",
            [agree(s) for s in seeds],
            ">=",
            0.9,
        ),
        judge(
            "phase-learning-rate.law",
            source,
            "and the cosines follow the predicted law: largest difference over cells, as a share of the averaging law",
            [gap(s) for s in seeds],
            "<=",
            0.1,
        ),
        judge(
            "phase-learning-rate.radius",
            source,
            "no step size and no start buys robustness: largest 50 % radius ÷ √(d/k)",
            [max(r["radius"] for r in rows_of(rows, "cell", seed=s)) for s in seeds],
            "<=",
            1.05,
        ),
    ]


def _settings(sizes: Row, steps: tuple[float, ...], starts: tuple[float, ...]) -> list[Row]:
    return [{**BASELINE, **sizes, "step_size": rate, "start": start} for start in starts for rate in steps]


PHASE_LEARNING_RATE = Experiment(
    id="beyond/phase-learning-rate",
    source="beyond feature-averaging, Figures 6 and 7",
    title="Where feature averaging stops",
    scales={
        "quick": _settings(
            {"dim": 1024, "points": 400, "test_points": 10},
            (3e-4, 3e-3, 0.03, 0.3, 1.0, 3.0),
            (1e-5, 1e-3, 3e-3, 1e-2),
        ),
        "standard": _settings(
            {"dim": 3072, "points": 1000, "test_points": 50},
            (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
            (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
        ),
        "paper": _settings(
            {"dim": 3072, "points": 1000, "test_points": 500},
            (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0),
            (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 1e-2),
        ),
    },
    measure=measure,
    claims=_claims,
    about=(
        "Two-class networks of feature-averaging (k = 10, 100 steps) over step size and entry std of the start: mean own-class"
        " cosine as a share of the law 1/√(|J|(1+k/n)). Predicted: a large start is still remembered when training ends, and"
        " with a large step the first one, in which every neuron sees about half of both classes, is never corrected; both enter"
        " one formula."
    ),
)
