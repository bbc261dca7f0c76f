"""Flows over the whole window [t*, T*] of Theorem 1: suprema of the distance and of the loss, and the drift after t*."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np
import torch

from featureprism._progress import Progress, part
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import PolynomialClassifier, PolynomialReLU
from featureprism.networks.balanced_weights import BalancedWeights
from featureprism.papers.gmm_flow import theory
from featureprism.papers.gmm_flow.setting import (
    Mixture,
    SampledGMM,
    Start,
    follow_flow,
    mixture,
    nondegenerate_start,
    theorem_1_premises,
)
from featureprism.probes import alignment, cluster_masses, sphere_distance
from featureprism.training.trajectory import Trajectory

EARLY, LATE = 3.0, 4.0  # t* is looked for from so long before to so long after the time predicted for it
FINE = 0.05  # between the recorded times there
RTOL = 1e-6  # of the flow; distances are of the order 1e-3 and more
FAILURE = 0.05  # δ of the logarithm in Lemma 11
POWERS = {2.5: (0.07, 0.05, 0.035), 3.0: (0.07, 0.05, 0.035), 4.0: (0.1, 0.07, 0.05)}  # the α for each p


@dataclass(frozen=True, kw_only=True)
class Window(SampledGMM):
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
        rows += [*_suprema(states, s), *(states if draw == 0 else ()), *premises]
    context.progress(1.0)
    return rows


def _follow(s: Window, seed: int, progress: Progress) -> tuple[list[Row], list[Row]]:
    """One flow: distance, loss and cosines from t* to T*, and the premises."""
    data = mixture(s, seed)
    start = nondegenerate_start(s, data, 1, seed)
    expected = _expected_start(s, start, data)
    length = theory.window_length(s)
    fine = np.arange(max(FINE, expected - EARLY), expected + LATE, FINE)
    later = expected + LATE - 1 + np.geomspace(1, 1 + length, 3 * s.num_times)
    trajectory = follow_flow(
        s,
        data,
        start,
        t_end=expected + LATE + length,
        record=[*fine, *later],
        rtol=RTOL,
        progress=progress,
    )
    return _inside(trajectory, data, start, s), theorem_1_premises(s, data, start, s.log_epsilon)


def _expected_start(s: Window, start: Start, data: Mixture) -> float:
    """About when t* is: the slowest mass passes ½, and ln(1/α) later would be within α² of 1 by its law."""
    cosine = float(alignment(start.weights.directions, data.clusters.mu).min())
    log_mass = float(2 * start.weights.log_norms.min())
    return theory.learning_time(log_mass, cosine, s.p) + log(1 / s.alpha)


def _inside(trajectory: Trajectory[BalancedWeights], data: Mixture, start: Start, s: Window) -> list[Row]:
    """The state at `num_times` of [t*, T*], closer together near t*; none if the masses never pass ½."""
    least = torch.stack(
        [cluster_masses(weights.log_norms, start.region, s.num_clusters) for weights in trajectory.snapshots]
    ).amin(dim=1)
    times = np.asarray(trajectory.times)
    grown = np.flatnonzero(least.numpy() >= 0.5)
    if len(grown) == 0:
        return []
    # the logistic law from the first mass past ½ back to ½, and on to α² from 1
    since = torch.logit(least[grown[0]].clamp_max(1 - 1e-9)) / 2
    t_star = float(times[grown[0]]) - float(since) + log(1 / s.alpha)
    wanted = t_star + np.geomspace(1, 1 + theory.window_length(s), s.num_times) - 1
    chosen = dict.fromkeys(int(np.abs(times - t).argmin()) for t in wanted)
    return [_state(trajectory.snapshots[i], float(times[i]), t_star, data, start, s) for i in chosen]


def _state(weights: BalancedWeights, t: float, t_star: float, data: Mixture, start: Start, s: Window) -> Row:
    """Distance, loss and cosines at one time, and the predictions for it from the sizes and t - t* alone."""
    mu, labels = data.clusters.mu, data.clusters.labels
    net = weights.to_net(PolynomialReLU(s.p))
    masses = cluster_masses(weights.log_norms, start.region, s.num_clusters)
    with torch.no_grad():
        margins = data.train.y * net(data.train.x)
    since_half = t - t_star + log(1 / s.alpha)
    distance = sphere_distance(net, PolynomialClassifier(mu, labels, s.p)).value
    predicted = theory.drift_distance(s, since_half)
    logarithm = sqrt(log(s.num_clusters**2 * s.per_cluster / FAILURE))
    return {
        "kind": "window",
        "t_star": t_star,
        "since": t - t_star,
        "distance": distance,
        "predicted_distance": predicted,
        "over_predicted": distance / predicted,
        "loss": float(((1 - margins) ** 2).mean()) / 2,
        "lemma_11": float((margins - masses[data.train.cluster]).abs().max()) / logarithm,
        "alignment_gap": float(1 - (weights.directions * mu[start.region]).sum(dim=1).min()),
    }


def _suprema(states: list[Row], s: Window) -> list[Row]:
    """Suprema over the window, and the fastest loss of alignment."""
    if len(states) < 2:
        return []
    since, gaps, over = (
        np.array([row[name] for row in states]) for name in ("since", "alignment_gap", "over_predicted")
    )
    largest = {
        name: max(row[name] for row in states)
        for name in ("distance", "predicted_distance", "loss", "lemma_11")
    }
    return [
        {
            "kind": "sup",
            "clusters": s.num_clusters,
            "length": theory.window_length(s),
            "t_star": states[0]["t_star"],
            **largest,
            "over_predicted": float(np.exp(np.log(over).mean())),
            "rate": float((np.diff(gaps) / np.diff(since)).max()),
            "stopping_time": theory.stopping_time(s),
        }
    ]


def cluster_settings(num_times: int) -> list[Window]:
    """From 2 to 40 clusters at D = 400 and N = 100; several draws of the small ones, whose largest noise scatters more."""
    return [
        Window(
            series="clusters",
            alpha=0.1,
            dim=400,
            per_cluster=100,
            num_times=num_times,
            draws=draws,
            positive=half,
            negative=half,
        )
        for half, draws in ((1, 6), (3, 3), (10, 2), (20, 1))
    ]


def window_settings(num_times: int, clusters: int = 1, draws: Sequence[int] = (1, 1, 1)) -> list[Window]:
    """N = D = α⁻² for every p, `draws` for each α from the largest on; and one larger α, for t* and the drift alone."""

    def window(series: str, p: float, alpha: float, num: int = 1) -> Window:
        size = ceil(alpha**-2 - 1e-9)
        return Window(
            series=series,
            p=p,
            alpha=alpha,
            dim=size,
            per_cluster=size,
            num_times=num_times,
            draws=num,
            positive=clusters,
            negative=clusters,
        )

    inside = [
        window("window", p, alpha, num)
        for p, alphas in POWERS.items()
        for alpha, num in zip(alphas, draws, strict=True)
    ]
    return [*inside, *(window("drift", p, 0.14) for p in POWERS)]
