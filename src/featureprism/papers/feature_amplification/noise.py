"""How much label noise the network bears, of three random kinds and from an adversary with the same budget."""

from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np
import torch

from featureprism.context import Context
from featureprism.data import NOISES
from featureprism.lab import Bound, Claim, Experiment, Rows, at_least, between
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification.setting import (
    ADVERSARY,
    C,
    Problem,
    Setting,
    clean_error,
    margins,
    problem,
    test_error,
    trained,
)
from featureprism.probes.amplification import count_by_noise
from featureprism.theory import amplification_laws as laws

KINDS = (*NOISES, ADVERSARY)
RATES = (0.0, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.48)
FEW_RATES = (0.05, 0.15, 0.3, 0.48)  # where only the rate itself is looked at
COIN_RATES = (0.15, 0.3, 0.48)  # by coins: smaller rates of 2000 labels vary by more than a tenth
LARGEST = {"one cluster": 0.15}  # what a cluster of n/4 points surely has to flip
LOST = 0.01  # share of clean points: more than this counts as breaking


@dataclass(frozen=True, kw_only=True)
class Noisy(Setting):
    """The rates of one kind of noise; `family`: breakdown, where the network's losses are looked at; rate or coins, the rate alone."""

    rates: tuple[float, ...]
    family: str


def measure(s: Noisy, seed: int, context: Context) -> list[Row]:
    """Realised rate of one kind of noise, and errors of the network trained on it, for every rate asked."""
    rows: list[Row] = []
    rates = [rate for rate in s.rates if rate <= LARGEST.get(s.noise, 0.5)]
    for index, rate in enumerate(rates):
        noisy = replace(s, noise_rate=rate)
        data = problem(noisy, seed)
        realised = labels_against_centres(data)
        row: Row = {"kind": "rate", "rate": rate, "realised": realised / rate if rate else 1.0}
        if s.family == "breakdown":
            net = trained(noisy, data.train, seed).last
            wrong, right = count_by_noise(margins(net, data.train), data.train.flipped)
            row |= {
                "clean_lost": wrong / max(1, int((~data.train.flipped).sum())),
                "noisy_fitted": right / max(1, int(data.train.flipped.sum())),
                "clean_error": clean_error(net, data.test),
                "error": test_error(net, data.test),
                "predicted": laws.one_cluster_rate(s, *torch.bincount(data.train.data.cluster).tolist()[:2]),
            }
        rows.append(row)
        context.progress((index + 1) / len(rates))
    return rows


def labels_against_centres(data: Problem) -> float:
    """The share of labels that contradict |⟨μ₁, x⟩| - |⟨μ₂, x⟩|, from the labels and points that training sees."""
    x, y = data.train.data.x, data.train.data.y
    along = (x @ data.clusters.directions.T).abs()
    return float((y * (along[:, 0] - along[:, 1]) < 0).double().mean())


def breakdown(run: Rows) -> float:
    """The least rate at which more than 1 % of the clean points are lost; the largest tried if none is."""
    rates, lost = run.column("rate"), run.column("clean_lost")
    if np.isnan(lost).any():
        return nan
    return rates[lost > LOST].min(initial=rates.max())


def _sweep(rows: Rows, noise: str) -> Rows:
    return rows.of("rate", family="breakdown", noise=noise)


def _breakdown(name: str, noise: str, bound: Bound, **other: Any) -> Claim:
    return Claim(
        name,
        "beyond Theorem 3.1, which asks for η ≤ 1/C",
        f"{noise} noise: the rate at which more than 1 % of the clean points are lost (the largest tried if none)",
        lambda rows: _sweep(rows, noise).per_seed(breakdown),
        bound,
        origin="featureprism",
        **other,
    )


def _over_law(rows: Rows) -> np.ndarray:
    own = _sweep(rows, "one cluster")
    return own.per_seed(breakdown) / own.mean("predicted")


def _coins(rows: Rows) -> str:
    parts = rows.of("rate", family="coins").groups("noise", "dim").items()
    told = [f"{noise} {part.column('realised').mean():.3f} (d = {dim})" for (noise, dim), part in parts]
    return ", ".join(told)


CLAIMS = (
    Claim(
        "rate",
        "Section 2.1, item 4",
        "noise has the rate that was asked for: labels that contradict their point ÷ asked, farthest from 1 over kinds, rates and d",
        lambda rows: rows.of("rate").where(lambda row: row["counted"]).farthest("realised", 1.0),
        between(0.99, 1.01),
        origin="featureprism",
        aggregate="worst",
    ),
    Claim(
        "coins",
        "Section 2.1, item 4",
        "so has noise by independent coins, in the mean: the same ratio, mean over kinds, rates and d",
        lambda rows: rows.of("rate", family="coins").mean("realised"),
        between(0.97, 1.03),
        origin="featureprism",
        note=_coins,
    ),
    _breakdown("breakdown", "constant", at_least(0.35)),
    _breakdown("boundary", "boundary", at_least(0.35)),
    _breakdown("one-cluster", "one cluster", between(0.04, 0.15)),
    _breakdown("adversarial", ADVERSARY, between(0.04, 0.11)),
    Claim(
        "one-cluster-law",
        "beyond Theorem 3.1",
        "noise in one cluster loses it where its surplus of right labels falls to the predicted share of the surplus opposite:"
        " breakdown rate ÷ predicted",
        _over_law,
        between(0.9, 1.2),
        origin="featureprism",
        note="measured on a grid of rates, rounded up",
    ),
    Claim(
        "worst-case",
        "beyond Theorem 3.1",
        "an adversary breaks the network no later than noise in one cluster: breakdown rate in one cluster minus the adversary's",
        lambda rows: (
            _sweep(rows, "one cluster").per_seed(breakdown) - _sweep(rows, ADVERSARY).per_seed(breakdown)
        ),
        at_least(0.0),
        origin="featureprism",
        aggregate="worst",
    ),
)


def _settings(points: int, width: int, dim: int) -> list[Noisy]:
    """Every kind at all rates in one dimension, and at few in others, where only the rate is looked at."""
    full = {"points": points, "width": width, "test_points": 4000, "rates": RATES, "family": "breakdown"}
    small = {"points": 400, "width": 20, "test_points": 100, "rates": FEW_RATES, "family": "rate"}
    coins = {"points": 2000, "width": 20, "test_points": 1, "rates": COIN_RATES, "family": "coins"}
    dims = (50, 500, 5000)
    return [
        *(Noisy.on_edge(C, dim=dim, noise=kind, counted=True, **full) for kind in KINDS),
        *(Noisy.on_edge(C, dim=d, noise=kind, counted=True, **small) for d in dims for kind in KINDS),
        *(Noisy.on_edge(C, dim=d, noise=kind, **coins) for d in dims for kind in NOISES),
    ]


LABEL_NOISE = Experiment(
    id="feature-amplification/label-noise",
    source="Frei et al. 2023, Theorem 3.1",
    title="How much label noise the network bears",
    scales={
        "quick": _settings(1000, 200, 50),
        "standard": _settings(2000, 200, 100),
        "paper": _settings(3000, 300, 200),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Share of clean training points that are lost against the noise rate, for noise that is constant, sits in one cluster, gathers"
        " at the boundary, or is chosen by an adversary who knows points, start and training; each flips exactly the share asked for."
        " Other parameters on the edge of the assumptions for C = 16."
    ),
)
