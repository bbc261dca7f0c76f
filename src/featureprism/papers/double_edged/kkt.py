"""Where training goes (Theorem 2.1), and how well such networks generalise (Theorem 3.1)."""

from math import log

import torch

from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.setting import (
    EXACT_KINK,
    KINK,
    error_of,
    on_sphere,
    problem,
    start_of,
    theory_setting,
    trained,
    usual,
    within,
)
from featureprism.probes import KKTAudit, direction_cosines, kkt_audit
from featureprism.records import Claim, Dataset, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.theory import double_edged as theory
from featureprism.training import log_loss, margin_ascent, margin_descent, max_margin_network

PATHS = {  # name: loss, method, step size
    "flow, exponential": ("exponential", "flow", 2.0),
    "flow, logistic": ("logistic", "flow", 2.0),
    "normalised": ("exponential", "normalised", 0.1),
}
TIMES = (100, 400)


def _path_row(
    name: str, time: int, loss: str, net: TwoLayerNet, best: TwoLayerNet, exact: KKTAudit, data: Dataset
) -> Row:
    """The KKT conditions of one trained network and how close it is to the solver's point."""
    with torch.no_grad():
        margins = data.y * net(data.x)
    below = float(log_loss(margins, loss)) < log(theory.loss_threshold(len(data.y), loss))
    row: Row = {"kind": "path", "path": name, "time": time, "log_loss": float(log_loss(margins, loss))}
    row |= {"below_threshold": below, "least_margin": float(margins.min())}
    if not row["least_margin"] > 0:
        return row
    audit = kkt_audit(net, data.x, data.y, tolerance=KINK)
    return {
        **row,
        **audit.as_row(),
        "margin_share": audit.normalised_margin / exact.normalised_margin,
        "cosine": float(direction_cosines(net, best).min()),
    }


def measure_kkt(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """The solver's point and its audit, then every way of training, seen at a few times, and L-BFGS after the last."""
    data = problem(setting, seed)
    x, y = data.train.x, data.train.y
    solution = max_margin_network(x, y)
    given = kkt_audit(
        solution.net, x, y, tolerance=EXACT_KINK, multipliers=(solution.alone, solution.against)
    )
    found = kkt_audit(solution.net, x, y, tolerance=EXACT_KINK)
    hard = kkt_audit(solution.net, x, y, tolerance=0.0)
    rows: list[Row] = [
        {
            "kind": "solution",
            **given.as_row(),
            "fitted_stationarity": found.stationarity,
            "hard_stationarity": hard.stationarity,
        }
    ]
    net = solution.net
    for place, (name, (loss, method, step_size)) in enumerate(PATHS.items()):
        run = margin_descent(
            start_of(setting, seed),
            x,
            y,
            loss=loss,
            method=method,
            step_size=step_size,
            steps=TIMES[-1],
            record=TIMES,
        )
        for time, net in zip(run.times, run.snapshots, strict=True):
            rows.append(_path_row(name, int(time), loss, net, solution.net, given, data.train))
        progress((place + 1) / (len(PATHS) + 1))
    climbed = margin_ascent(net, x, y, iterations=setting["iterations"])
    rows.append(_path_row("then L-BFGS", TIMES[-1], "exponential", climbed, solution.net, given, data.train))
    return rows


def _claims_kkt(rows: list[Row]) -> list[Claim]:
    def worst(kind: str, key: str, **fields) -> list[float]:
        """The largest over settings, one value for each seed."""
        found = rows_of(rows, kind, **fields)
        return [max(abs(r[key]) for r in found if r["seed"] == s) for s in seeds_of(found)]

    last = [r for r in rows_of(rows, "path", time=TIMES[-1]) if "cosine" in r]
    paths = [r for r in rows_of(rows, "path") if r["below_threshold"]]
    seeds = seeds_of(last)
    solver = [
        ("stationarity", "‖θ - Σ λ_i y_i ∇N(x_i)‖/‖θ‖", 1e-8),
        ("feasibility", "|1 - least margin|", 1e-9),
        ("slackness", "largest λ_i (y_i N(x_i) - 1)/Σλ", 1e-9),
        ("balance", "|v_j² - ‖w_j‖² - b_j²|/max v²", 1e-9),
        ("sum_gap", "|Σλ/(‖θ‖²/2) - 1|", 1e-8),
        ("fitted_stationarity", "stationarity with the audit's own multipliers", 1e-8),
    ]
    claims = [
        judge(
            f"kkt.{key.replace('_', '-')}",
            "eqs. (2)-(7)",
            f"{text} at the solver's point, largest over settings",
            worst("solution", key),
            "<=",
            bound,
        )
        for key, text, bound in solver
    ]
    return [
        *claims,
        judge(
            "kkt.trained-cosine",
            "Theorem 2.1",
            "cosine between the trained network's summed neurons and the solver's, smallest over signs, methods and settings",
            [min(r["cosine"] for r in last if r["seed"] == s) for s in seeds],
            ">",
            0.98,
            "the theorem says 'a KKT point'; that it is this one is an observation",
        ),
        judge(
            "kkt.trained-residual",
            "Theorem 2.1",
            f"stationarity of the network after L-BFGS, derivatives free within {KINK:g} of a kink; largest over settings",
            worst("path", "stationarity", path="then L-BFGS"),
            "<=",
            0.01,
        ),
        judge(
            "kkt.hard-residual",
            "Theorem 2.1",
            "stationarity of the exact point itself in the usual setting when derivatives may only be 0 or 1",
            [r["hard_stationarity"] for r in rows_of(rows, "solution", name="usual")],
            "in",
            (0.005, 0.2),
            "no trained network can come below: some neurons sit on their kinks, where the derivative is a fraction",
        ),
        judge(
            "kkt.threshold",
            "Theorem 2.1",
            "share of recorded times with L below 1/n (ln 2/n for the logistic loss) at which every margin is positive",
            [_share([r["least_margin"] > 0 for r in paths if r["seed"] == s]) for s in seeds_of(paths)],
            ">=",
            1.0,
        ),
    ]


def _share(flags: list[bool]) -> float:
    return sum(flags) / len(flags)


def measure_3_1(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Test error of the solver's point and of networks trained to near KKT points from several widths and starts."""
    data = problem(setting, seed)
    x, y = data.train.x, data.train.y
    solution = max_margin_network(x, y)
    exact = kkt_audit(solution.net, x, y, tolerance=EXACT_KINK)
    rows: list[Row] = [
        {
            "kind": "point",
            "width_used": 2,
            "start_used": 0.0,
            "error": error_of(solution.net, data.test),
            "stationarity": exact.stationarity,
        }
    ]
    variants = [tuple(map(float, pair.split(":"))) for pair in setting["variants"].split()]
    for place, (width, size) in enumerate(variants):
        net = trained({**setting, "width": int(width), "start": size}, data.train, seed)
        audit = kkt_audit(net, x, y, tolerance=KINK)
        rows.append(
            {
                "kind": "point",
                "width_used": int(width),
                "start_used": size,
                "error": error_of(net, data.test),
                "stationarity": audit.stationarity,
                "margin_share": audit.normalised_margin / exact.normalised_margin,
            }
        )
        progress((place + 1) / len(variants))
    sizes = theory_setting(setting, data.clusters)
    u = theory.linear_direction(data.clusters.mu, data.clusters.labels)
    rows.append(
        {
            "kind": "bound",
            "bound": theory.test_error_bound(sizes),
            "linear_least": float((data.test.y * (data.test.x @ u)).min()),
            "linear_bound": theory.linear_margin(setting["dim"]),
        }
    )
    premises = theory.assumption_2_2(sizes) + theory.size_conditions(sizes)
    return [*rows, *(p.as_row() for p in premises)]


def _claims_3_1(rows: list[Row]) -> list[Claim]:
    points, bounds = rows_of(rows, "point"), rows_of(rows, "bound")
    trained_points = [r for r in points if r["start_used"] > 0]
    inside = [r for r in bounds if r["name"] == "within"]

    def largest(found: list[Row], key: str) -> list[float]:
        return [max(r[key] for r in found if r["seed"] == s) for s in seeds_of(found)]

    return [
        judge(
            "theorem-3-1.error",
            "Theorem 3.1",
            "test error at KKT points, largest over settings, widths and starts",
            largest(points, "error"),
            "in",
            (0.0, 0.005),
        ),
        judge(
            "theorem-3-1.residual",
            "Theorem 2.1",
            f"stationarity of the trained ones (kinks within {KINK:g}), largest",
            largest(trained_points, "stationarity"),
            "<=",
            0.01,
        ),
        judge(
            "theorem-3-1.margin",
            "Theorem 2.1",
            "their normalised margin ÷ the solver's, smallest",
            [
                min(r["margin_share"] for r in trained_points if r["seed"] == s)
                for s in seeds_of(trained_points)
            ],
            ">=",
            0.99,
        ),
        judge(
            "theorem-3-1.linear",
            "Lemma 2.1",
            "least y⟨u, x⟩ ÷ ((9d - 1)/10) on test points, inside the assumption",
            [r["linear_least"] / r["linear_bound"] for r in inside],
            ">=",
            1.0,
        ),
    ]


KKT = Experiment(
    id="double-edged/kkt",
    source="Frei et al. 2023, Theorem 2.1",
    title="Training goes to a KKT point of the max-margin problem",
    scales={
        "quick": [f(iterations=80) for f in (usual, on_sphere, within)],
        "standard": [usual(), on_sphere(), within(), within(3000, 8), usual(3072, 10)],
        "paper": [usual(width=200), on_sphere(width=200), within(6000, 16), usual(3072, 10, width=200)],
    },
    measure=measure_kkt,
    claims=_claims_kkt,
    about=(
        "The convex problem gives a KKT point to rounding; networks trained by gradient flow (both losses, in the log domain) and by"
        " normalised descent are audited on the way, and L-BFGS on the smoothed normalised margin goes on from the last."
    ),
)
_VARIANTS = {"quick": "6:0.01 20:1.0", "standard": "6:0.1 20:0.01 20:0.1 20:1.0 200:0.1 200:1.0"}
THEOREM_3_1 = Experiment(
    id="double-edged/theorem-3-1",
    source="Frei et al. 2023, Theorem 3.1",
    title="KKT points generalise",
    scales={
        "quick": [f(variants=_VARIANTS["quick"], iterations=80) for f in (usual, within)],
        "standard": [
            f(variants=_VARIANTS["standard"], test_points=10000) for f in (usual, on_sphere, within)
        ],
        "paper": [
            usual(3072, 10, variants=_VARIANTS["standard"], test_points=100000),
            within(6000, 16, variants=_VARIANTS["standard"], test_points=100000),
        ],
    },
    measure=measure_3_1,
    claims=_claims_3_1,
    about="Test error of the exact KKT point and of networks trained close to one, for widths and starting sizes (width:size).",
)
