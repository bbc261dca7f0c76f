"""What linear classifiers can do on XOR clusters."""

from typing import Any

import torch

from featureprism.context import Context
from featureprism.data import LAWS
from featureprism.experiment import Bound, Claim, Experiment, Rows, Values, at_least, at_most, between, under
from featureprism.papers.feature_amplification.setting import (
    C,
    Setting,
    clean_error,
    good_run,
    problem,
    start,
    trained,
)
from featureprism.records import Row
from featureprism.seeds import generator_for


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
    """The largest error over the laws of the clusters against an upper bound, the least against a lower one, or the mean."""
    worst = {"<=": Rows.largest, ">=": Rows.least}.get(bound.relation, Rows.mean)

    def value(rows: Rows) -> Values:
        return worst(rows.of("linear", through=through), "error")

    return Claim(name, source, f"{statement}; over all laws", value, bound, **other)


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


def _settings(points: int, width: int, dim: int) -> list[Setting]:
    sizes = {"dim": dim, "points": points, "width": width, "test_points": 4000}
    return [Setting.on_edge(C, law=law, **sizes) for law in LAWS]


LINEAR = Experiment(
    id="feature-amplification/linear",
    source="Frei et al. 2023, Section 2.1",
    title="What linear classifiers can and cannot do",
    scales={
        "quick": _settings(2000, 200, 20),
        "standard": _settings(5000, 500, 200),
        "paper": _settings(8000, 500, 500),
    },
    measure=measure_linear,
    claims=CLAIMS_LINEAR,
    about=(
        "The best of least squares, the cluster directions, their sums and 200 random directions, chosen on the training set; with a"
        " bias the best threshold of each. Errors under clean labels."
    ),
)
