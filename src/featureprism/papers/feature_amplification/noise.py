"""How much label noise the network bears, and what linear classifiers can do."""

from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import torch

from featureprism.context import Context
from featureprism.data import NOISES
from featureprism.experiment import Bound, Claim, Experiment, Rows, Values, at_least, at_most, between, under
from featureprism.papers.feature_amplification.setting import (
    C,
    Setting,
    clean_error,
    good_run,
    margins,
    problem,
    start,
    test_error,
    trained,
)
from featureprism.probes.amplification import count_by_noise
from featureprism.records import Row
from featureprism.seeds import generator_for

RATES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.24, 0.3, 0.35, 0.4, 0.45, 0.48)
LOST = 0.01  # share of clean points: more than this counts as breaking


def measure_noise(s: Setting, seed: int, context: Context) -> list[Row]:
    """Errors of the trained network for every rate of one kind of noise."""
    rows: list[Row] = []
    rates = [rate for rate in RATES if s.noise != "one cluster" or rate < 0.25]
    for index, rate in enumerate(rates):
        noisy = replace(s, noise_rate=rate)
        data = problem(noisy, seed)
        net = trained(noisy, data.train, seed).last
        wrong, right = count_by_noise(margins(net, data.train), data.train.flipped)
        rows.append(
            {
                "kind": "rate",
                "rate": rate,
                "clean_lost": wrong / max(1, int((~data.train.flipped).sum())),
                "noisy_fitted": right / max(1, int(data.train.flipped.sum())),
                "clean_error": clean_error(net, data.test),
                "error": test_error(net, data.test),
            }
        )
        context.progress((index + 1) / len(rates))
    return rows


def breakdown(run: Rows) -> float:
    """The least rate at which more than 1 % of the clean points are lost; the largest tried if none is."""
    rates, lost = run.column("rate"), run.column("clean_lost")
    if np.isnan(lost).any():
        return nan
    return rates[lost > LOST].min(initial=rates.max())


def _breakdown(name: str, noise: str, low: float, high: float) -> Claim:
    return Claim(
        name,
        "beyond Theorem 3.1, which asks for η ≤ 1/C",
        f"{noise} noise: the rate at which more than 1 % of the clean points are lost (the largest tried if none)",
        lambda rows: rows.of("rate", noise=noise).per_seed(breakdown),
        between(low, high),
        speaker="ours",
    )


CLAIMS_NOISE = (
    _breakdown("breakdown", "constant", 0.2, 0.5),
    _breakdown("one-cluster", "one cluster", 0.05, 0.25),
    _breakdown("boundary", "boundary", 0.05, 0.5),
    _breakdown("adversarial", "adversarial", 0.05, 0.5),
)


def best_linear(
    x: torch.Tensor, y: torch.Tensor, directions: torch.Tensor, *, bias: bool
) -> tuple[torch.Tensor, float]:
    """The direction (and threshold, if `bias`) with the least training error among candidates and their opposites."""
    scores = x @ directions.T  # (n, c)
    order = scores.argsort(dim=0)
    sorted_y = y.unsqueeze(1).expand_as(scores).gather(0, order)
    # threshold after the i-th score: points up to it are called -1
    wrong = torch.cumsum((sorted_y > 0).double(), dim=0) - torch.cumsum((sorted_y < 0).double(), dim=0)
    errors = (wrong + (y < 0).sum()) / len(y)  # (n, c)
    if not bias:
        plain = ((torch.where(scores > 0, 1.0, -1.0) * y.unsqueeze(1)) < 0).double().mean(dim=0)
        return directions[plain.argmin()], 0.0
    row, column = divmod(int(errors.argmin()), errors.shape[1])
    return directions[column], float(scores[order[row, column], column])


def measure_linear(s: Setting, seed: int, context: Context) -> list[Row]:
    """Test error of the best linear classifier found, through the origin and with a bias, and of the network."""
    data = problem(s, seed)
    x, y = data.train.data.x, data.train.data.y
    mu = data.clusters.directions
    fitted = torch.linalg.lstsq(x, y.unsqueeze(1)).solution.T
    random = torch.randn(200, x.shape[1], generator=generator_for("directions", seed), dtype=torch.float64)
    known = torch.cat([mu, mu[:1] + mu[1:], mu[:1] - mu[1:]])
    directions = torch.cat([known, fitted, random])
    directions = torch.cat([directions, -directions])
    errors: dict[str, float] = {}
    for name in ("origin", "bias"):
        w, threshold = best_linear(x, y, directions, bias=name == "bias")
        said = torch.where(data.test.data.x @ w > threshold, 1.0, -1.0).double()
        errors[name] = float((said != data.test.clean).double().mean())
    errors["network"] = clean_error(trained(s, data.train, seed).last, data.test)
    context.progress(1.0)
    rows = [{"kind": "linear", "through": name, "error": error} for name, error in errors.items()]
    return rows + good_run(s, start(s, seed).W.detach(), data.train)


def _linear(name: str, source: str, statement: str, through: str, bound: Bound, **other: Any) -> Claim:
    def value(rows: Rows) -> Values:
        return rows.of("linear", through=through).per_seed("error")

    return Claim(name, source, statement, value, bound, **other)


_CHANCE = "no linear classifier beats chance: test error of the best found"
_ORIGIN_ONLY = "'no better than random guessing' is true through the origin only"
_CUT = (
    "with a bias a linear classifier cuts off one cluster, and errs on another: test error of the best found"
)
_NETWORK = "the network on the same data: test error under clean labels"
CLAIMS_LINEAR = (
    _linear("origin", "Section 1", f"{_CHANCE} through the origin", "origin", at_least(0.45), reported=0.5),
    _linear(
        "bias", "Section 1", f"{_CHANCE} with a bias", "bias", at_least(0.45), reported=0.5, note=_ORIGIN_ONLY
    ),
    _linear("one-cluster", "beyond Section 1", _CUT, "bias", between(0.2, 0.3), speaker="ours"),
    _linear("network", "Theorem 3.1", _NETWORK, "network", at_most(0.01), premises=under("assumption")),
)


def _setting(points: int, width: int, dim: int, noise: str = "constant") -> Setting:
    return Setting.on_edge(C, dim=dim, points=points, width=width, test_points=4000, noise=noise)


LABEL_NOISE = Experiment(
    id="feature-amplification/label-noise",
    source="Frei et al. 2023, Theorem 3.1",
    title="How much label noise the network bears",
    scales={
        "quick": [_setting(1000, 200, 50, kind) for kind in NOISES],
        "standard": [_setting(4000, 500, 200, kind) for kind in NOISES],
        "paper": [_setting(10000, 2000, 500, kind) for kind in NOISES],
    },
    measure=measure_noise,
    claims=CLAIMS_NOISE,
    about=(
        "Share of clean training points that are lost against the noise rate, for noise that is constant, sits in one cluster, gathers"
        " at the boundary or is chosen by an adversary in every cluster; other parameters on the edge of the assumptions for C = 16."
    ),
)
LINEAR = Experiment(
    id="feature-amplification/linear",
    source="Frei et al. 2023, Section 2.1",
    title="What linear classifiers can and cannot do",
    scales={
        "quick": [_setting(2000, 200, 20)],
        "standard": [_setting(5000, 500, 200)],
        "paper": [_setting(10000, 1000, 500)],
    },
    measure=measure_linear,
    claims=CLAIMS_LINEAR,
    about=(
        "The best of least squares, the cluster directions, their sums and 200 random directions, chosen on the training set; with a"
        " bias the best threshold of each. Errors under clean labels."
    ),
)
