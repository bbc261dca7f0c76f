"""Figure 1, and what it leads to: how robust the amplified features are, and whether long training memorises the noise."""

from math import inf, sqrt

import torch

from featureprism.attacks import self_test
from featureprism.certificates import robust_radius
from featureprism.data import best_classifier
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_amplification.setting import (
    clean_error,
    margins,
    problem,
    row_of,
    test_error,
    theory_setting,
    trained,
)
from featureprism.probes.amplification import count_by_noise
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of
from featureprism.theory import feature_amplification as theory

ALPHA, NOISE = 0.05, 0.15  # caption of Figure 1
WINDOW, GRID = 2.0, 61
SHOWN = 400  # points drawn
EARLY = (4, 100)  # steps: after the start has been forgotten, long before anything is memorised


def printed(points: int, width: int, steps: int) -> Row:
    """The setting of Figure 1: d = 2, σ² = 1/(25d), ω² = 1/(16md)."""
    s = theory.Setting(2, points, width, 1 / sqrt(50), NOISE, 1 / sqrt(32 * width), ALPHA)
    return {**row_of(s), "steps": steps, "test_points": 4000}


def times_of(steps: int) -> tuple[int, ...]:
    """About ten times from 1 to the end, evenly on a log scale."""
    return tuple(sorted({round(steps ** (i / 9)) for i in range(10)}))


def agreement(net: TwoLayerNet, directions: torch.Tensor) -> float:
    """Share of a grid over [-2, 2]² (in the plane of μ1, μ2) where f and f* have one sign."""
    axis = torch.linspace(-WINDOW, WINDOW, 201, dtype=torch.float64)
    plane = torch.cartesian_prod(axis, axis) @ directions
    with torch.no_grad():
        return float((net(plane).sign() == best_classifier(directions, plane).sign()).double().mean())


def measure_1(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Counts, error and agreement with f* along training; the boundary and some points at the end."""
    data = problem(setting, seed)
    run = trained(setting, data.train, seed, times_of(setting["steps"]))
    progress(0.9)
    rows = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        wrong, right = count_by_noise(margins(net, data.train), data.train.flipped)
        rows.append(
            {
                "kind": "time",
                "time": time,
                "clean_wrong": wrong,
                "noisy_right": right,
                "excess_error": test_error(net, data.test) - float(data.test.flipped.double().mean()),
                "agreement": agreement(net, data.clusters.directions),
            }
        )
    axis = torch.linspace(-WINDOW, WINDOW, GRID, dtype=torch.float64)
    plane = torch.cartesian_prod(axis, axis) @ data.clusters.directions
    shown = {run.times[len(run.times) // 3], run.times[-1]}
    for time, net in zip(run.times, run.snapshots, strict=True):
        if time in shown:
            with torch.no_grad():
                values = net(plane)
            places = torch.cartesian_prod(axis, axis).tolist()
            rows += [
                {"kind": "boundary", "time": time, "x1": p[0], "x2": p[1], "value": v}
                for p, v in zip(places, values.tolist(), strict=True)
            ]
    at = data.train.data.x[:SHOWN] @ data.clusters.directions.T
    rows += [
        {"kind": "point", "x1": p[0], "x2": p[1], "label": y, "flipped": f}
        for p, y, f in zip(at.tolist(), data.train.data.y.tolist(), data.train.flipped.tolist(), strict=False)
    ]
    low, high = theory.feasible_constants(theory_setting(setting))
    rows.append({"kind": "constants", "least": low, "largest": high})
    return rows + [p.as_row() for p in theory.assumptions(theory_setting(setting), low)]


def _last(rows: list[Row]) -> list[Row]:
    found = rows_of(rows, "time")
    end = max((r["time"] for r in found), default=0)
    return [r for r in found if r["time"] == end]


def _claims_1(rows: list[Row]) -> list[Claim]:
    found, constants = _last(rows), rows_of(rows, "constants")
    note = ""
    if constants:
        least, largest = constants[0]["least"], constants[0]["largest"]
        note = f"(A7) asks for C ≥ {least:.0f}, the others for C ≤ {largest:.2g}: no C fits these parameters"
    return [
        judge(
            "figure-1.clean-wrong",
            "Figure 1",
            "clean training points that are wrong",
            [r["clean_wrong"] for r in found],
            "<=",
            0.0,
        ),
        judge(
            "figure-1.noisy-right",
            "Figure 1",
            "flipped training points that are fitted",
            [r["noisy_right"] for r in found],
            "<=",
            0.0,
        ),
        judge(
            "figure-1.test-error",
            "Figure 1",
            "test error under noisy labels minus the noise rate",
            [r["excess_error"] for r in found],
            "in",
            (-0.01, 0.01),
        ),
        judge(
            "figure-1.boundary",
            "Figure 1",
            "the boundary is near the diagonals: agreement with |⟨μ1,x⟩| - |⟨μ2,x⟩| on [-2, 2]²",
            [r["agreement"] for r in found],
            ">=",
            0.95,
        ),
        judge(
            "figure-1.constants",
            "Assumptions (A1)-(A7)",
            "the parameters of the figure satisfy no C: least C ÷ largest C",
            [r["least"] / r["largest"] for r in constants],
            ">",
            1.0,
            note,
        ),
    ]


def measure_robustness(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Bracketed radii of clean test points after T = 1 + 1/(4α) steps and after long training."""
    data = problem(setting, seed)
    times = (theory_setting(setting).steps, setting["steps"])
    run = trained(setting, data.train, seed, times)
    progress(0.4)
    x, y = data.test.data.x[: setting["radius_points"]], data.test.clean[: setting["radius_points"]]
    rows = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        bracket = robust_radius(
            net, x, y, gap=0.02, seconds_per_point=inf, max_cells=setting["max_cells"], upper=3.0
        )
        rows.append(
            {
                "kind": "radius",
                "time": time,
                "stage": "theorem" if time == times[0] else "long",
                "half_radius": float(bracket.attacked.median()),
                "certified_half_radius": float(bracket.certified.median()),
                "clean_error": clean_error(net, data.test),
                "zero_gradient_share": bracket.zero_gradient_share,
                "blind_share": bracket.blind_share,
                "self_test_passed": self_test().passed,
            }
        )
        progress(0.4 + 0.3 * len(rows))
    return rows


def _claims_robustness(rows: list[Row]) -> list[Claim]:
    first, late = (rows_of(rows, "radius", stage=s) for s in ("theorem", "long"))
    best = 1 / sqrt(2)
    return [
        judge(
            "robustness.amplified",
            "beyond the paper",
            "amplified features: 50 % radius ÷ 1/√2, the distance of a centre from the boundary of f*; attacked end",
            [r["half_radius"] / best for r in first],
            "in",
            (0.5, 1.05),
        ),
        judge(
            "robustness.proven",
            "beyond the paper",
            "the same, proven end",
            [r["certified_half_radius"] / best for r in first],
            "in",
            (0.4, 1.05),
        ),
        judge(
            "robustness.long",
            "beyond the paper",
            "long training: 50 % radius ÷ that after the theorem's steps",
            [b["half_radius"] / a["half_radius"] for a, b in zip(first, late, strict=True)],
            "in",
            (0.5, 1.5),
            "reported: does long training change it",
        ),
    ]


def measure_memorisation(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Clean points lost and flipped points fitted along a long run, for several ratios n/d."""
    data = problem(setting, seed)
    run = trained(setting, data.train, seed, times_of(setting["steps"]))
    flips = max(1, int(data.train.flipped.sum()))
    rows = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        wrong, right = count_by_noise(margins(net, data.train), data.train.flipped)
        rows.append(
            {
                "kind": "time",
                "time": time,
                "clean_wrong": wrong,
                "fitted_share": right / flips,
                "clean_error": clean_error(net, data.test),
            }
        )
    progress(1.0)
    return rows


def _claims_memorisation(rows: list[Row]) -> list[Claim]:
    dims = sorted({r["dim"] for r in rows})
    few, many = (_last([r for r in rows if r["dim"] == d]) for d in (dims[0], dims[-1]))
    early = [r for r in rows_of(rows, "time") if EARLY[0] <= r["time"] <= EARLY[1]]
    soon = [
        max(r["fitted_share"] for r in early if r["seed"] == s) for s in sorted({r["seed"] for r in early})
    ]
    source = "beyond the paper"
    return [
        judge(
            "memorisation.early",
            source,
            f"from step {EARLY[0]} to {EARLY[1]} no flipped label is fitted: largest share",
            soon,
            "<=",
            0.0,
        ),
        judge(
            "memorisation.high-dimension",
            source,
            f"d = {dims[-1]}, more directions than points: share of flipped labels that long training fits",
            [r["fitted_share"] for r in many],
            ">=",
            0.9,
        ),
        judge(
            "memorisation.benign",
            source,
            f"d = {dims[-1]}: and fresh points keep their clean label all the same (clean test error)",
            [r["clean_error"] for r in many],
            "<=",
            0.02,
        ),
        judge(
            "memorisation.low-dimension",
            source,
            f"d = {dims[0]}: only part of them can be fitted (share)",
            [r["fitted_share"] for r in few],
            "<",
            0.7,
        ),
        judge(
            "memorisation.harmful",
            source,
            f"d = {dims[0]}: and what is fitted costs clean test error",
            [r["clean_error"] for r in few],
            ">",
            0.02,
        ),
    ]


def _long(dim: int, points: int, width: int, steps: int, **more) -> Row:
    """A setting of the theorem's kind (C = 16) but longer and with the noise of Figure 1."""
    s = theory.regime(dim, points, width, 16.0)
    return {**row_of(s), "noise_rate": 0.1, "steps": steps, "test_points": 1000, **more}


def _wide(dim: int, points: int, steps: int) -> Row:
    """The same with noise of norm 1, so that points have something of their own to be memorised by, and larger steps."""
    return _long(dim, points, 60, steps, sigma=1 / sqrt(dim), step_size=1.0)


FIGURE_1 = Experiment(
    id="feature-amplification/figure-1",
    source="Frei et al. 2023, Figure 1",
    title="Every clean point right, every flipped point wrong",
    scales={
        "quick": [printed(1500, 500, 600)],
        "standard": [printed(5000, 500, 3000)],
        "paper": [printed(5000, 500, 3000)],
    },
    measure=measure_1,
    claims=_claims_1,
    about=(
        "XOR clusters in the plane with 15 % of the labels flipped. The network ignores the flipped labels; its boundary follows the"
        " diagonals. The parameters of the figure satisfy the paper's assumptions for no value of their constant C."
    ),
)
ROBUSTNESS = Experiment(
    id="feature-amplification/robustness",
    source="beyond the paper",
    title="How robust amplified features are",
    scales={
        "quick": [_long(50, 800, 40, 1000, radius_points=20, max_cells=20)],
        "standard": [_long(200, 2000, 100, 3000, radius_points=100, max_cells=60)],
        "paper": [_long(200, 5000, 200, 10000, radius_points=200, max_cells=200)],
    },
    measure=measure_robustness,
    claims=_claims_robustness,
    about="Radii of test points under their clean labels, bracketed: after the steps of Theorem 3.1 and after long training.",
)
MEMORISATION = Experiment(
    id="feature-amplification/memorisation",
    source="beyond the paper",
    title="Does long training fit the flipped labels?",
    scales={
        "quick": [_wide(dim, 150, 3000) for dim in (20, 600)],
        "standard": [_wide(dim, 300, 10000) for dim in (20, 200, 1200)],
        "paper": [_wide(dim, 500, 30000) for dim in (20, 200, 2000)],
    },
    measure=measure_memorisation,
    claims=_claims_memorisation,
    about="The paper leaves open what happens after T = 1 + 1/(4α) steps. Flipped labels are ignored for long, then"
    " fitted: harmlessly where there are more directions than points, at a cost where there are few.",
)
