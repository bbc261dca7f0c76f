"""Theorem 1 over its whole window [t*, T*]: the supremum of the distance and of the loss, and the drift after t*."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

import numpy as np
import torch
from torch import Tensor

from featureprism.context import Context, Progress, part
from featureprism.lab import Claim, Rows, Values, at_least, between, log_slope, requires
from featureprism.lab.rows import farthest
from featureprism.networks import BalancedWeights, PolynomialClassifier, PolynomialReLU, balanced
from featureprism.papers.gmm_flow.setting import Mixture, Setting, mixture, nondegenerate_shape
from featureprism.probes import (
    alignment,
    cluster_masses,
    nondegeneracy_margin,
    sphere_distance,
    voronoi_region,
)
from featureprism.records import Row, Trajectory
from featureprism.theory import gmm_flow as theory
from featureprism.training import Loss, balanced_flow

EARLY, LATE = 3.0, 4.0  # the time t* is looked for, around what is predicted for it
FINE = 0.05  # times there
RTOL = 1e-6  # of the flow; distances are of the order 1e-3 and more


@dataclass(frozen=True, kw_only=True)
class Window(Setting):
    """Flows followed to T*, one neuron for each cluster, on `draws` independent mixtures; `series` says what varies beside it."""

    series: str
    num_times: int
    draws: int = 1
    positive: int = 1
    negative: int = 1


def measure_window(s: Window, seed: int, context: Context) -> list[Row]:
    """Flows at ε = α^(8K): suprema over [t*, T*] of each, and one of them from t* to T*, beside what is predicted."""
    rows: list[Row] = []
    for draw in range(s.draws):
        share = part(context.progress, draw / s.draws, (draw + 1) / s.draws)
        states, premises = _follow(s, seed * s.draws + draw, share)
        rows += [*_summary(states, s), *(states if draw == 0 else ()), *premises]
    context.progress(1.0)
    return rows


def _follow(s: Window, seed: int, progress: Progress) -> tuple[list[Row], list[Row]]:
    """One flow: distance, loss and cosines from t* to T*, and the premises."""
    data = mixture(s, seed)
    mu, labels = data.clusters.mu, data.clusters.labels
    shape, signs = nondegenerate_shape(data, 1, seed)
    start, region = balanced(shape, signs, s.log_epsilon), voronoi_region(shape, signs, mu, labels)
    expected = _expected_start(s, start, float(alignment(shape, mu).min()))
    t_end = expected + LATE + theory.window_length(s)
    fine = np.arange(max(FINE, expected - EARLY), expected + LATE, FINE)
    trajectory = balanced_flow(
        start,
        data.train.x,
        data.train.y,
        p=s.p,
        loss=Loss("square", "per-cluster", s.num_clusters),
        t_end=t_end,
        record=[
            *fine,
            *(expected + LATE - 1 + np.geomspace(1, 1 + theory.window_length(s), 3 * s.num_times)),
        ],
        rtol=RTOL,
        progress=progress,
    )
    premises = [
        *theory.theorem_1_premises(s, s.log_epsilon),
        *theory.assumption_2(nondegeneracy_margin(shape, signs, mu, labels), region, s.num_clusters),
        *theory.good_event(data.train, s.alpha),
    ]
    return _inside(trajectory, data, region, s), [premise.as_row() for premise in premises]


def _expected_start(s: Window, start: BalancedWeights, cosine: float) -> float:
    """About when t* is: the slowest mass passes ½, and ln(1/α) later would be within α² of 1 by its law."""
    return theory.learning_time(float(2 * start.log_norms.min()), cosine, s.p) + log(1 / s.alpha)


def _inside(trajectory: Trajectory[BalancedWeights], data: Mixture, region: Tensor, s: Window) -> list[Row]:
    """The state at `num_times` of [t*, T*], closer together near t*; none if the masses never pass ½."""
    masses = torch.stack(
        [cluster_masses(weights.log_norms, region, s.num_clusters) for weights in trajectory.snapshots]
    ).min(dim=1)
    times = np.asarray(trajectory.times)
    grown = np.flatnonzero(masses.values.numpy() >= 0.5)
    if len(grown) == 0:
        return []
    # the logistic law from the first mass past ½ back to ½, and on to α² from 1
    since = torch.logit(masses.values[grown[0]].clamp_max(1 - 1e-9)) / 2
    t_star = float(times[grown[0]]) - float(since) + log(1 / s.alpha)
    wanted = t_star + np.geomspace(1, 1 + theory.window_length(s), s.num_times) - 1
    chosen = dict.fromkeys(int(np.abs(times - t).argmin()) for t in wanted)
    return [_state(trajectory.snapshots[i], float(times[i]), t_star, data, region, s) for i in chosen]


def _state(
    weights: BalancedWeights, t: float, t_star: float, data: Mixture, region: Tensor, s: Window
) -> Row:
    """Distance, loss and cosines at one time, and the predictions for it from the sizes and t - t* alone."""
    mu, labels = data.clusters.mu, data.clusters.labels
    net = weights.to_net(PolynomialReLU(s.p))
    with torch.no_grad():
        loss = float(((data.train.y - net(data.train.x)) ** 2).mean()) / 2
    since_half = t - t_star + log(1 / s.alpha)
    distance = sphere_distance(net, PolynomialClassifier(mu, labels, s.p)).value
    predicted = theory.drift_distance(s, since_half)
    return {
        "kind": "window",
        "t_star": t_star,
        "since": t - t_star,
        "distance": distance,
        "predicted_distance": predicted,
        "over_predicted": distance / predicted,
        "loss": loss,
        "alignment_gap": float(1 - (weights.directions * mu[region]).sum(dim=1).min()),
        "predicted_rate": theory.drift_rate(s, since_half),
    }


def _summary(rows: list[Row], s: Window) -> list[Row]:
    """Suprema over the window, and the fastest loss of alignment with its law."""
    if len(rows) < 2:
        return []
    since = np.array([row["since"] for row in rows])
    gaps = np.array([row["alignment_gap"] for row in rows])
    rates = np.diff(gaps) / np.diff(since)
    laws = np.array([row["predicted_rate"] for row in rows])
    over = np.array([row["over_predicted"] for row in rows])
    return [
        {
            "kind": "sup",
            "length": theory.window_length(s),
            "distance": max(row["distance"] for row in rows),
            "predicted_distance": max(row["predicted_distance"] for row in rows),
            "loss": max(row["loss"] for row in rows),
            "over_predicted": float(np.exp(np.log(over).mean())),
            "rate": float(rates.max()),
            "over_rate": float(rates[-1] / ((laws[-1] + laws[-2]) / 2)),
            "stopping_time": theory.stopping_time(s),
        }
    ]


def _slopes(own: Rows, column: str) -> np.ndarray:
    """The slopes against α, one for each p."""
    return np.array(
        [log_slope(part.column("alpha"), part.column(column)) for part in own.groups("p").values()]
    )


def _window(rows: Rows) -> Rows:
    return rows.of("sup", series="window")


def _slowest(rows: Rows, column: str) -> Values:
    """The least slope over p."""
    return _window(rows).per_seed(lambda own: float(_slopes(own, column).min()))


def _oddest(rows: Rows, column: str, centre: float) -> Values:
    """The slope farthest from a centre over p."""
    return _window(rows).per_seed(lambda own: farthest(_slopes(own, column), centre))


def _share_of_power(own: Rows) -> float:
    """The least, over p, of the exponent of the rate ÷ min(p, 4)."""
    return float((_slopes(own, "rate") / [min(p, 4.0) for p in own.groups("p")]).min())


def _note(rows: Rows) -> str:
    parts = rows.of("sup", series="window").groups("p")
    told = [
        f"p = {p:g}: {log_slope(part.column('alpha'), part.column('distance')):.2f}"
        f" (law {log_slope(part.column('alpha'), part.column('predicted_distance')):.2f})"
        for p, part in parts.items()
    ]
    return "slopes over all seeds, " + ", ".join(told) + "; O(α²) allows more than 2, never less"


def _drift_note(rows: Rows) -> str:
    over = rows.of("sup").column("over_predicted")
    law = "tilt² = α²/N + (p²α²(t-t*))²/(DN) to first order, so stop before √D/(p²α)"
    return f"{law}; single runs {over.min():.2f} to {over.max():.2f}"


REGIME = ("theorem-1", "assumption-2", "lemma-4")
WINDOW_CLAIMS = (
    Claim(
        "window",
        "Theorem 1, (12)",
        "sup over [t*, T*] of sup|f - F^(p)| is O(α²), T* - t* = α^(-min(p-2, 2)): slope against α at N, D = α⁻², least over p",
        lambda rows: _slowest(rows, "distance"),
        at_least(1.8),
        premises=requires(*REGIME, series="window"),
    ),
    Claim(
        "window-exponent",
        "Theorem 1, (12), sharp",
        "and no less than that: the same slope, the one farthest from 2 over p",
        lambda rows: _oddest(rows, "distance", 2.0),
        between(1.8, 2.2),
        origin="featureprism",
        note=_note,
        premises=requires(*REGIME, series="window"),
    ),
    Claim(
        "loss",
        "Theorem 1",
        "the training loss is O(α⁴) on [t*, T*]: slope of its largest value against α, least over p",
        lambda rows: _slowest(rows, "loss"),
        at_least(3.6),
        note="mean of ½(y - f)²: the printed loss is the sum over all KN points, which at N = α⁻² is larger by α⁻²",
        premises=requires(*REGIME, series="window"),
    ),
    Claim(
        "loss-exponent",
        "Theorem 1, sharp",
        "and no less than that: the same slope, the one farthest from 4 over p",
        lambda rows: _oddest(rows, "loss", 4.0),
        between(3.6, 4.4),
        origin="featureprism",
        note="the law is p²α²/(2D), so α⁴ only as D = α⁻²",
        premises=requires(*REGIME, series="window"),
    ),
    Claim(
        "drift",
        "after t*, not in the paper",
        "the distance drifts by a law: measured ÷ predicted from the sizes and t - t* alone, mean over [t*, T*] and over p, D"
        " and α ≤ 0.14",
        lambda rows: rows.of("sup").mean("over_predicted"),
        between(0.8, 1.25),
        origin="featureprism",
        note=_drift_note,
    ),
    Claim(
        "window-fixed-dim",
        "Theorem 1 without D ∝ α⁻²",
        "at fixed D and p = 4 the drift decides, and the same slope is 1",
        lambda rows: rows.of("sup", series="fixed D").slope("alpha", "distance"),
        between(0.8, 1.3),
        origin="featureprism",
        premises=requires(*REGIME, series="fixed D"),
    ),
    Claim(
        "alignment-kept",
        "Section 3.2.3",
        "alignment is lost no faster than O(α^min(p,4)): exponent of the largest -dc/dt on [t*, T*] ÷ min(p, 4), least over p",
        lambda rows: _window(rows).per_seed(_share_of_power),
        at_least(1.0),
        premises=requires(*REGIME, series="window"),
        note="the law p⁴α⁴(t-t*)/(DN) has α⁷ for p = 3 and α⁶ for p = 4 at the end of the window. Lemma 12 speaks of neurons that have"
        " lost α² of their cosine, and none here has",
    ),
    Claim(
        "alignment-kept-law",
        "behind Section 3.2.3 and Lemma 12",
        "-dc/dt at T* ÷ p⁴α⁴(T*-t*)/(DN), mean over α for p = 3",
        lambda rows: rows.of("sup", series="window", p=3.0).mean("over_rate"),
        between(0.75, 1.25),
        origin="featureprism",
    ),
)
SMALL, LESS_SMALL = (0.07, 0.05, 0.035), (0.1, 0.07, 0.05)
POWERS = {2.5: SMALL, 3.0: SMALL, 4.0: LESS_SMALL}
DRAWS = (6, 1, 3)  # at quick, from the largest α on: the ends decide on a slope, and small α are dear


def window_settings(num_times: int, clusters: int = 1, draws: Sequence[int] = (1, 1, 1)) -> list[Window]:
    """N = D = α⁻² for every p; the drift alone at α = 0.14; and D fixed at its largest. `draws` for each α of a slope."""

    def window(series: str, p: float, alpha: float, num: int = 1, dim: int = 0) -> Window:
        size = ceil(alpha**-2 - 1e-9)
        return Window(
            series=series,
            p=p,
            alpha=alpha,
            dim=dim or size,
            per_cluster=size,
            num_times=num_times,
            draws=num,
            positive=clusters,
            negative=clusters,
        )

    largest = ceil(min(POWERS[4.0]) ** -2 - 1e-9)
    slopes = {p: list(zip(alphas, draws, strict=True)) for p, alphas in POWERS.items()}
    both = [window("window", p, alpha, num) for p, ends in slopes.items() for alpha, num in ends]
    fixed = [window("fixed D", 4.0, alpha, num, largest) for alpha, num in slopes[4.0]]
    return [*both, *(window("drift", p, 0.14) for p in POWERS), *fixed]
