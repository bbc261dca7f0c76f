"""Sparse coding: robust accuracy after clean and after adversarial training against the sparsity and the dimension."""

from typing import Any

from featureprism.networks import LinearClassifier
from featureprism.papers.feature_purification.setting import (
    PAPER,
    QUICK,
    STANDARD,
    coding,
    pure_start,
    robustness,
    test_set,
    trained,
)
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.theory import feature_purification as theory


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """The two networks between the pure network (ceiling) and the linear classifier Mw* (floor, measured and predicted)."""
    problem, test = coding(setting, seed), test_set(setting, seed)
    nets: dict[str, Any] = {"clean_robust": trained(setting, seed, "clean")}
    progress(0.5)
    nets |= {
        "adversarial_robust": trained(setting, seed, "adversarial"),
        "ceiling": pure_start(setting, seed),
    }
    progress(0.8)
    row: Row = {
        name: robustness(net, test, problem, setting, seed).row["worst"] for name, net in nets.items()
    }
    linear = LinearClassifier(problem.dense_direction.double()).exact_radius(test.x.double(), test.y.double())
    floor = theory.linear_robust_accuracy(test.z @ problem.w, problem.w, setting["noise"], setting["radius"])
    row |= {"floor": float((linear > setting["radius"]).double().mean()), "predicted_floor": floor}
    return [{"kind": "cell", **row}]


def _claims(rows: list[Row]) -> list[Claim]:
    cells = rows_of(rows, "cell")
    dims, sparsities = (sorted({r[key] for r in cells}) for key in ("dim", "sparsity"))

    def over_cells(value, pick) -> list[float]:
        return [pick(value(r) for r in cells if r["seed"] == s) for s in seeds_of(cells)]

    def gain(seed: int, dim: int, sparsity: int) -> float:
        (r,) = (r for r in cells if (r["seed"], r["dim"], r["sparsity"]) == (seed, dim, sparsity))
        return r["adversarial_robust"] - r["clean_robust"]

    def mean(seed: int, dim: int, key: str) -> float:
        own = [r[key] for r in cells if (r["seed"], r["dim"]) == (seed, dim)]
        return sum(own) / len(own)

    source = "beyond feature-purification, Theorems 5.1 and 5.3"
    return [
        judge(
            "phase-purification.gain",
            source,
            f"sparse data (k = {sparsities[0]}): what adversarial training adds to robust accuracy, least over d",
            [min(gain(s, d, sparsities[0]) for d in dims) for s in seeds_of(cells)],
            ">",
            0.3,
        ),
        judge(
            "phase-purification.dense",
            source,
            f"the gain shrinks as k grows: at k = {sparsities[-1]} minus k = {sparsities[0]}, largest over d",
            [
                max(gain(s, d, sparsities[-1]) - gain(s, d, sparsities[0]) for d in dims)
                for s in seeds_of(cells)
            ],
            "<",
            0.0,
            "phrased after a first run: at d = 100, k = 30 little is gained",
        ),
        judge(
            "phase-purification.ceiling",
            source,
            "and never beyond the pure network: robust accuracy minus that of the ceiling, largest over cells",
            over_cells(lambda r: r["adversarial_robust"] - r["ceiling"], max),
            "<=",
            0.1,
        ),
        judge(
            "phase-purification.floor",
            source,
            "the linear floor is where predicted: largest |measured - predicted| robust accuracy over cells",
            over_cells(lambda r: abs(r["floor"] - r["predicted_floor"]), max),
            "<=",
            0.08,
        ),
        judge(
            "phase-purification.dimension",
            source,
            f"clean networks get worse with d: robust accuracy at d = {dims[-1]} minus d = {dims[0]}, mean over k",
            [mean(s, dims[-1], "clean_robust") - mean(s, dims[0], "clean_robust") for s in seeds_of(cells)],
            "<",
            0.0,
        ),
    ]


def _settings(base: Row, dims: tuple[int, ...], sparsities: tuple[int, ...]) -> list[Row]:
    return [{**base, "dim": d, "width": 3 * d, "sparsity": k} for d in dims for k in sparsities]


PHASE_PURIFICATION = Experiment(
    id="beyond/phase-purification",
    source="beyond feature-purification, Theorems 5.1 and 5.3",
    title="Where clean training breaks and adversarial training holds",
    scales={
        "quick": _settings({**QUICK, "test_points": 200}, (100, 200), (10, 20, 30)),
        "standard": _settings(STANDARD, (100, 200, 400), (5, 10, 20, 40)),
        "paper": _settings(PAPER, (200, 400, 800), (10, 20, 40, 80)),
    },
    measure=measure,
    claims=_claims,
    about=(
        "Worst-case accuracy at the radius τ of networks after clean and after adversarial training, over the number k of active"
        " features and the dimension d, between the pure network (ceiling, dashed) and the linear classifier along Mw* (floor)."
    ),
)
