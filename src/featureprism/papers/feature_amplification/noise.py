"""How much label noise the network bears, and what linear classifiers can do."""

import torch

from featureprism.data import NOISES
from featureprism.papers.feature_amplification.setting import (
    clean_error,
    margins,
    problem,
    row_of,
    test_error,
    trained,
)
from featureprism.probes.amplification import count_by_noise
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.seeds import generator_for
from featureprism.theory import feature_amplification as theory

RATES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.24, 0.3, 0.35, 0.4, 0.45, 0.48)
LOST = 0.01  # share of clean points: more than this counts as breaking


def measure_noise(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Errors of the trained network for every rate of one kind of noise."""
    rows = []
    rates = [r for r in RATES if setting["noise"] != "one cluster" or r < 0.25]
    for place, rate in enumerate(rates):
        own = {**setting, "noise_rate": rate}
        data = problem(own, seed)
        net = trained(own, data.train, seed).last
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
        progress((place + 1) / len(rates))
    return rows


def breakdown(rows: list[Row], noise: str, seed: int) -> float:
    """The least rate at which more than 1 % of the clean points are lost; the largest tried if none is."""
    found = sorted(rows_of(rows, "rate", noise=noise, seed=seed), key=lambda r: r["rate"])
    broken = [r["rate"] for r in found if r["clean_lost"] > LOST]
    return broken[0] if broken else found[-1]["rate"] if found else float("nan")


def _claims_noise(rows: list[Row]) -> list[Claim]:
    def claim(noise: str, id: str, bound: tuple[float, float]) -> Claim:
        return judge(
            f"label-noise.{id}",
            "Theorem 3.1 asks for η ≤ 1/C",
            f"{noise} noise: the rate at which more than 1 % of the clean points are lost (the largest tried if none)",
            [breakdown(rows, noise, s) for s in seeds_of(rows)],
            "in",
            bound,
            "reported",
        )

    return [
        claim("constant", "breakdown", (0.2, 0.5)),
        claim("one cluster", "one-cluster", (0.05, 0.25)),
        claim("boundary", "boundary", (0.05, 0.5)),
        claim("adversarial", "adversarial", (0.05, 0.5)),
    ]


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
    place = int(errors.argmin())
    row, column = place // errors.shape[1], place % errors.shape[1]
    return directions[column], float(scores[order[row, column], column])


def measure_linear(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Test error of the best linear classifier found, through the origin and with a bias."""
    data = problem(setting, seed)
    x, y = data.train.data.x, data.train.data.y
    mu = data.clusters.directions
    fitted = torch.linalg.lstsq(x, y.unsqueeze(1)).solution.T
    random = torch.randn(200, x.shape[1], generator=generator_for("directions", seed), dtype=torch.float64)
    known = torch.cat([mu, mu[:1] + mu[1:], mu[:1] - mu[1:]])
    directions = torch.cat([known, fitted, random])
    directions = torch.cat([directions, -directions])
    rows = []
    for name in ("origin", "bias"):
        w, threshold = best_linear(x, y, directions, bias=name == "bias")
        said = torch.where(data.test.data.x @ w > threshold, 1.0, -1.0).double()
        rows.append(
            {"kind": "linear", "through": name, "error": float((said != data.test.clean).double().mean())}
        )
    net = trained(setting, data.train, seed).last
    rows.append({"kind": "linear", "through": "network", "error": clean_error(net, data.test)})
    progress(1.0)
    return rows


def _claims_linear(rows: list[Row]) -> list[Claim]:
    def errors(name: str) -> list[float]:
        return [r["error"] for r in rows_of(rows, "linear", through=name)]

    return [
        judge(
            "linear.origin",
            "Section 2.1",
            "no linear classifier through the origin beats chance: test error of the best found",
            errors("origin"),
            ">=",
            0.45,
        ),
        judge(
            "linear.bias",
            "Section 2.1",
            "with a bias it can cut off one cluster: test error of the best found",
            errors("bias"),
            "in",
            (0.2, 0.3),
            "the paper's 'no better than chance' holds through the origin only",
        ),
        judge("linear.network", "Theorem 3.1", "the network on the same data", errors("network"), "<=", 0.01),
    ]


def _setting(points: int, width: int, dim: int, **more) -> Row:
    return {**row_of(theory.regime(dim, points, width, 16.0)), "test_points": 4000, **more}


LABEL_NOISE = Experiment(
    id="feature-amplification/label-noise",
    source="Frei et al. 2023, Theorem 3.1",
    title="How much label noise the network bears",
    scales={
        "quick": [_setting(1000, 200, 50, noise=kind) for kind in NOISES],
        "standard": [_setting(4000, 500, 200, noise=kind) for kind in NOISES],
        "paper": [_setting(10000, 2000, 500, noise=kind) for kind in NOISES],
    },
    measure=measure_noise,
    claims=_claims_noise,
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
    claims=_claims_linear,
    about=(
        "The best of least squares, the cluster directions, their sums and 200 random directions, chosen on the training set; with a"
        " bias the best threshold of each. Errors under clean labels."
    ),
)
