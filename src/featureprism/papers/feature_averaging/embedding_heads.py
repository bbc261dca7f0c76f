"""Beyond the paper: what pReLU heads, ten labels and found labels gain on embeddings, as brackets of the ℓ2 radius."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.context import Context
from featureprism.data.real import Split, unit_norm
from featureprism.heads.compare import Task, trained_alike
from featureprism.heads.compare import drawn as drawn_points
from featureprism.heads.network import MergedHead
from featureprism.heads.subclasses import discovered_subclasses
from featureprism.lab import Bound, Claim, Experiment, Rows, Values, above, at_most
from featureprism.networks import BinaryReadout, GroupedNet, ReLU, TwoLayerNet
from featureprism.papers.feature_averaging.embeddings import (
    WHERE,
    Descent,
    embeddings,
    source_of,
    trained,
)
from featureprism.records import RadiusBracket, Row
from featureprism.verify import robust_radius

ENOUGH = above(1.2)  # the least ratio of median radii that counts
BEYOND = "beyond the paper"
RESAMPLES = 2000  # of the test points, for the interval of a gain
FOUND = 5  # clusters of each merged class, as many as it has classes
RELU, PRELU = "two labels, p = 1", "two labels, p = 3"
TEN, TEN_FOUND, TEN_SUMMED = "ten labels", "found labels", "ten labels, scores added"
SLOW_TWO, SLOW_TEN, SLOW_FOUND = (f"descent, {name} labels" for name in ("two", "ten", "found"))


@dataclass(frozen=True, kw_only=True)
class Heads(Descent):
    """The paper's networks, and the heads that Adam trains; radii are of so many test points.

    Every head has the weight decay that is most accurate on validation points; `powers` are those of two-class pReLU heads.
    """

    held_points: int
    test_points: int
    width: int
    epochs: int = 6
    decays: tuple[float, ...] = (1e-5, 1e-4, 1e-3)
    powers: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)


class Fitted(NamedTuple):
    """A trained two-class head: x ↦ sign of the decision, and (x, y) ↦ the bracket of its radius."""

    predict: Callable[[np.ndarray], np.ndarray]
    radius: Callable[[np.ndarray, np.ndarray], RadiusBracket]


def fitted(net: nn.Module, **more: Any) -> Fitted:
    """A torch function whose sign is the decision as a head; `more` is told to `certificates.robust_radius`."""

    def predict(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.where(net(torch.as_tensor(x)).numpy() > 0, 1, -1)

    def radius(x: np.ndarray, y: np.ndarray) -> RadiusBracket:
        effort = {"seconds_per_point": inf, "max_cells": 1, **more}
        return robust_radius(net, torch.as_tensor(x), torch.as_tensor(y).double(), **effort)

    return Fitted(predict, radius)


def task_of(split: Split, s: Heads, seed: int) -> Task:
    """Classes 0 to 4 (+1) against 5 to 9 (-1), rows of norm 1; a quarter of fewer points is kept for choosing on."""
    order = np.random.default_rng(seed).permutation(len(split.x_train))
    held = min(s.held_points, len(order) // 4)
    order = order[: held + s.train_points]
    x, fine = unit_norm(split.x_train[order]), split.y_train[order].astype(np.int64)
    y, y_test = np.where(fine < 5, 1, -1), np.where(split.y_test < 5, 1, -1)
    return Task(x[held:], y[held:], fine[held:], x[:held], y[:held], unit_norm(split.x_test), y_test)


def found_labels(task: Task, seed: int) -> Int[np.ndarray, " n"]:
    """Labels 0 to 4 of five clusters of the positive points, 5 to 9 of the negative ones, by k-means. No class is looked at."""
    x = torch.as_tensor(task.x.astype(np.float32))
    return discovered_subclasses(
        x, torch.as_tensor((task.y < 0).astype(np.int64)), 2, FOUND, seed
    ).label.numpy()


def _signs() -> Float[Tensor, " c"]:
    return torch.cat([torch.ones(FOUND), -torch.ones(FOUND)]).double()


def makers(task: Task, s: Heads, seed: int) -> Iterator[tuple[str, Callable[[float], Fitted], bool]]:
    """Name, training for a weight decay, and whether that has a decay to choose. All heads of one training have one width."""
    from featureprism.heads import DecoupledHead, PReLUHead  # scikit-learn takes a second

    width, common = s.width, trained_alike(s.epochs, len(task.x), seed)
    clusters, classes = found_labels(task, seed), task.fine
    assert classes is not None

    def two(p: float, decay: float) -> Fitted:
        head = PReLUHead(p, width, **{**common, "weight_decay": decay}).fit(task.x, task.y)
        return Fitted(head.predict, partial(head.robust_radius, max_cells=1, seconds_per_point=inf))

    def merged(fine: np.ndarray, decay: float) -> Fitted:
        head = PReLUHead(1.0, width // FOUND, **{**common, "weight_decay": decay}).fit(task.x, fine)
        net = MergedHead(head.net_, _signs())
        return fitted(net, lipschitz=net.lipschitz())

    def added(labels: str, p: float, decay: float) -> Fitted:
        head = DecoupledHead(labels, FOUND, p, width // FOUND, **{**common, "weight_decay": decay})
        head.fit(task.x, task.y, fine_labels=classes if labels == "given" else None)
        return Fitted(head.predict, partial(head.robust_radius, max_cells=1, seconds_per_point=inf))

    def descent(fine: np.ndarray, k: int) -> Fitted:
        net = trained(k, torch.as_tensor(task.x), torch.as_tensor(fine), s, seed)
        return fitted(two_layer(net) if k == 2 else BinaryReadout(net, _signs()))

    for p in s.powers:
        yield f"two labels, p = {p:g}", lambda decay, p=p: two(p, decay), True
    yield TEN, lambda decay: merged(classes, decay), True
    yield TEN_FOUND, lambda decay: merged(clusters, decay), True
    yield TEN_SUMMED, lambda decay: added("given", 1.0, decay), True
    for p in (1.0, 3.0):
        name = f"found labels, scores added, p = {p:g}"
        yield name, lambda decay, p=p: added("discovered", p, decay), True
    merged_labels = (task.y < 0).astype(np.int64)
    for name, fine, k in ((SLOW_TWO, merged_labels, 2), (SLOW_TEN, classes, 10), (SLOW_FOUND, clusters, 10)):
        yield name, lambda _decay, fine=fine, k=k: descent(fine, k), False


def two_layer(net: GroupedNet) -> TwoLayerNet:
    """f_1 - f_2 of a network with two groups as a two-layer network with votes ±1/h: it has the sharper certificates."""
    h = net.W.shape[1]
    votes = torch.cat([torch.ones(h), -torch.ones(h)]).double() / h
    return TwoLayerNet(net.W.detach().flatten(0, 1), votes, None, activation=ReLU())


def ratio_interval(own: Tensor, other: Tensor, seed: int) -> tuple[float, float]:
    """95 % percentile interval of median(own)/median(other) when the points are drawn again, the same for both."""
    draws = np.random.default_rng(seed).integers(len(own), size=(RESAMPLES, len(own)))
    ours, theirs = (np.median(side.numpy()[draws], axis=1) for side in (own, other))
    low, high = np.quantile(ours / np.maximum(theirs, 1e-12), [0.025, 0.975])
    return float(low), float(high)


def measure(s: Heads, seed: int, context: Context) -> list[Row]:
    """Train every head with the weight decay that validation points choose, and bracket the same test points."""
    task = task_of(embeddings(s.data, context.data), s, seed)
    x, y = drawn_points(task, s.test_points, seed)
    rows, brackets = [], {}
    every = list(makers(task, s, seed))
    for index, (name, make, choose) in enumerate(every):
        tried = [(make(decay), decay) for decay in (s.decays if choose else (0.0,))]
        context.progress((index + 0.5) / len(every))
        scores = [float((head.predict(task.x_held) == task.y_held).mean()) for head, _ in tried]
        (head, decay), held = tried[int(np.argmax(scores))], max(scores)
        brackets[name] = bracket = head.radius(x, y)
        rows.append(
            {
                "kind": "head",
                "head": name,
                "weight_decay": decay,
                "held_accuracy": held,
                "accuracy": float((head.predict(task.x_test) == task.y_test).mean()),
                "attacked_radius": bracket.half_radius[1],
                "certified_radius": bracket.half_radius[0],
                "num_points": len(y),
            }
        )
        context.progress((index + 1) / len(every))
    return rows + _gains({r["head"]: r for r in rows}, brackets, seed)


PAIRS = {  # what is compared with what
    "prelu": (PRELU, RELU),
    "ten-labels": (SLOW_TEN, SLOW_TWO),
    "ten-labels-adam": (TEN, RELU),
    "ten-labels-added": (TEN_SUMMED, RELU),
    "discovered": (SLOW_FOUND, SLOW_TWO),
    "discovered-adam": (TEN_FOUND, RELU),
    "discovered-prelu": ("found labels, scores added, p = 3", RELU),
}


def _gains(heads: dict[str, Row], brackets: dict[str, RadiusBracket], seed: int) -> list[Row]:
    rows = []
    for which, (own, other) in PAIRS.items():
        ours, theirs = (torch.from_numpy(brackets[name].attacked) for name in (own, other))
        low, high = ratio_interval(ours, theirs, seed)

        def over(side: str, below: str, own: str = own, other: str = other) -> float:
            return heads[own][side] / heads[other][below] if heads[other][below] > 0 else nan

        rows.append(
            {
                "kind": "gain",
                "which": which,
                "head": own,
                "against": other,
                "gain": over("attacked_radius", "attacked_radius"),
                "low": low,
                "high": high,
                "certified_gain": over("certified_radius", "certified_radius"),
                "proven_gain": over("certified_radius", "attacked_radius"),
                "loss": heads[other]["accuracy"] - heads[own]["accuracy"],
            }
        )
    return rows


def survives(found: Values, given: Values) -> Values:
    """Share of the gain with ten given labels that remains with found ones: (found - 1)/(given - 1); NaN without a gain."""
    return (found - 1) / np.where(given > 1, given - 1, nan)


def gain(rows: Rows, which: str, field: str = "gain") -> Values:
    """What one of `PAIRS` gains, seed by seed."""
    return rows.of("gain", which=which).per_seed(field)


def _note(rows: Rows, which: str) -> str:
    gains = rows.of("gain", which=which)
    columns = (gains.column(name) for name in ("seed", "gain", "low", "high", "loss"))
    told = (
        f"seed {seed:.0f}: {ratio:.2f} (95 % over test points {low:.2f} to {high:.2f}, accuracy lost {100 * loss:.1f} points)"
        for seed, ratio, low, high, loss in zip(*columns, strict=True)
    )
    return "; ".join([*told, f"points: {source_of(rows)}"])


COST = ("loss", "-accuracy", at_most(0.01))  # the most clean accuracy that a gain may cost
PROVEN = ("certified_gain", "-certified")


def _claim(which: str, statement: str, field: str = "gain", suffix: str = "", bound: Bound = ENOUGH) -> Claim:
    def value(rows: Rows) -> Values:
        return gain(rows, which, field)

    note = partial(_note, which=which) if field == "gain" else ""
    return Claim(f"{which}{suffix}", BEYOND, statement, value, bound, "featureprism", note=note)


CLAIMS = (
    _claim("prelu", "median attacked radius of the two-class pReLU head (p = 3) ÷ the ReLU head's"),
    _claim("prelu", "what it costs: accuracy of the ReLU head minus the pReLU head's", *COST),
    _claim("prelu", "the ratio of the proven radii of the same two heads", *PROVEN),
    _claim(
        "prelu",
        "proven radius of the pReLU head ÷ attacked radius of the ReLU head: a gain no better attack can undo",
        "proven_gain",
        "-proven",
        above(1.0),
    ),
    _claim(
        "ten-labels",
        "the paper's network, descent and read-out (log-sum-exp): ten labels ÷ two labels, median attacked radius",
    ),
    _claim("ten-labels", "what it costs: accuracy with two labels minus with ten", *COST),
    _claim(
        "ten-labels", "the ratio of the proven radii of these two (ten labels: a Lipschitz bound)", *PROVEN
    ),
    _claim(
        "ten-labels-adam",
        "ten labels and the same read-out, but heads trained as the two-class ReLU head is (Adam, large start)",
    ),
    _claim("ten-labels-added", "the same where class scores are added up instead of their exponentials"),
    Claim(
        "discovered",
        BEYOND,
        "share of the ten-label gain that remains with labels from clustering: (gain - 1)/(gain with given labels - 1)",
        lambda rows: survives(gain(rows, "discovered"), gain(rows, "ten-labels")),
        above(0.5),
        "featureprism",
        note=partial(_note, which="discovered"),
    ),
    _claim("discovered-adam", "found labels with heads trained by Adam ÷ the two-class ReLU head"),
    _claim("discovered-prelu", "found labels, p = 3, scores added ÷ the two-class ReLU head"),
)


def _heads(train: int, held: int, test: int, width: int, steps: int) -> list[Heads]:
    return [Heads(train_points=train, held_points=held, test_points=test, width=width, descent_steps=steps)]


EMBEDDING_HEADS = Experiment(
    id="feature-averaging/embeddings",
    source=BEYOND,
    title="What finer labels and pReLU gain on embeddings, in brackets",
    scales={
        "quick": _heads(10_000, 2000, 100, 50, 300),
        "standard": _heads(45_000, 5000, 500, 100, 1000),
        "paper": _heads(45_000, 5000, 2000, 100, 3000),
    },
    measure=measure,
    claims=CLAIMS,
    long=True,
    about=(
        "Two-class decisions (classes 0-4 against 5-9) on CIFAR-10 embeddings of norm 1, from heads with two labels (pReLU, p = 1 to"
        " 4), with the ten classes as labels, and with ten labels that k-means finds without looking at the classes. Heads named"
        " descent are the paper's: 30 ReLU neurons, no biases, full-batch descent from small weights, log-sum-exp read-out. All"
        " others are trained by Adam with biases. Weight decays are chosen by accuracy on validation points, for every head alike;"
        " all numbers are from test points. A misclassified point has radius 0; the proven side of ten labels is a Lipschitz bound."
        + WHERE
    ),
)
