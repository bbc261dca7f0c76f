"""Robust heads on embeddings: what a pReLU head and finer labels gain over a ReLU head, and who else holds as far."""

import time
from collections.abc import Iterator
from math import nan
from typing import Any, NamedTuple

import numpy as np
import torch

from featureprism.attacks import minimal_radius, structured_starts
from featureprism.data.real import Split, real_data, unit_norm
from featureprism.heads import DecoupledHead, PReLUHead
from featureprism.heads.baselines import AdversarialHead, KernelHead, LinearHead, NeighbourHead
from featureprism.heads.estimators import Head
from featureprism.records import Claim, Experiment, Progress, RadiusBracket, Row, judge, rows_of, seeds_of
from featureprism.seeds import generator_for

VALIDATION = 0.1  # share of the training points that heads are chosen on
CHOSEN_ON = 32  # validation points that are attacked
CAUTION = 0.003  # accuracy: the standard error of a difference of two heads on 5000 validation points
ALLOWED = {"free": 0.01, "discovered": 0.03}  # the loss of clean accuracy that each claim allows
RESAMPLES = 500  # of the test points, for the interval of a gain
OURS = ("pReLU", "given", "discovered")


class Task(NamedTuple):
    """Classes 0 to 4 (+1) against 5 to 9 (-1), rows of norm 1; `fine` are the ten classes."""

    x: np.ndarray
    y: np.ndarray
    fine: np.ndarray
    x_held: np.ndarray
    y_held: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


class Candidate(NamedTuple):
    """A head to train: its name, its family, and how many points it is trained on at most."""

    name: str
    family: str
    head: Any
    most: int | None = None


class Measured(NamedTuple):
    """A trained head: the row of the table, and what the gains are made of."""

    row: Row
    bracket: RadiusBracket


def task_of(split: Split, setting: Row, seed: int) -> Task:
    """A seed's draw of training, validation and test points."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(split.x_train))[: setting["train_points"]]
    x, fine = unit_norm(split.x_train[order]), split.y_train[order].astype(np.int64)
    y = np.where(fine < 5, 1, -1)
    held = int(VALIDATION * len(order))
    y_test = np.where(split.y_test < 5, 1, -1)
    return Task(x[held:], y[held:], fine[held:], x[:held], y[:held], unit_norm(split.x_test), y_test)


def candidates(setting: Row, seed: int) -> Iterator[Candidate]:
    """Everything that is compared; all networks have 2 · width neurons."""
    width, subclasses = setting["width"], setting["num_subclasses"]
    common = {"epochs": setting["epochs"], "random_state": seed}
    for decay in (1e-5, 1e-4):
        yield Candidate(f"ReLU, decay {decay:g}", "ReLU", PReLUHead(1.0, width, weight_decay=decay, **common))
    for p in (2.0, 3.0):
        yield Candidate(f"pReLU, p = {p:g}", "pReLU", PReLUHead(p, width, **common))
    given = DecoupledHead("given", p=3.0, width=max(1, width // 5), **common)
    yield Candidate("ten labels given, p = 3", "given", given)
    for p, weight in ((3.0, 0.3), (4.0, 0.5)):
        found = DecoupledHead("discovered", subclasses, p, max(1, width // subclasses), **common)
        found.set_params(fine_weight=weight)
        yield Candidate(f"{subclasses} sub-classes found, p = {p:g}", "discovered", found)
    for eps in setting["attack_radii"].split():
        yield Candidate(
            f"ReLU, trained on attacks of {eps}",
            "adversarial",
            AdversarialHead(float(eps), width=width, **common),
        )
    most = setting["kernel_points"]
    yield Candidate("logistic regression", "other", LinearHead("logistic regression", seed))
    yield Candidate("linear SVM", "other", LinearHead("linear SVM", seed))
    yield Candidate(f"RBF SVM ({most} points)", "other", KernelHead(), most)
    yield Candidate(f"1-nearest neighbour ({most} points)", "other", NeighbourHead(), most)


def measured(candidate: Candidate, task: Task, setting: Row, seed: int) -> Measured:
    """Train one head and measure it on held-out points."""
    head, part = candidate.head, slice(candidate.most)
    began = time.process_time()
    if candidate.family == "given":
        head.fit(task.x, task.y, fine_labels=task.fine)
    else:
        head.fit(task.x[part], task.y[part])
    seconds = time.process_time() - began
    draw = torch.randperm(len(task.x_test), generator=generator_for("test points", seed))
    draw = draw[: setting["test_points"]].numpy()
    x, y = task.x_test[draw], task.y_test[draw]
    effort = {"max_cells": setting["max_cells"]} if isinstance(head, Head) else {}
    bracket = head.robust_radius(x, y, **effort)
    row = {
        "kind": "head",
        "head": candidate.name,
        "family": candidate.family,
        "held_accuracy": float((head.predict(task.x_held) == task.y_held).mean()),
        "held_radius": _held_radius(head, task) if isinstance(head, Head) else nan,
        "accuracy": float((head.predict(task.x_test) == task.y_test).mean()),
        "attacked_radius": float(bracket.attacked.median()),
        "certified_radius": float(bracket.certified.median()),
        "median_gap": float(bracket.gap.median()),
        "blind_share": bracket.blind_share,
        "train_seconds": round(seconds, 2),
    }
    return Measured(row, bracket)


def _held_radius(head: Head, task: Task) -> float:
    """Median attacked radius on a few validation points, by a short attack: heads are chosen with it."""
    net = head.net_.margin(1, 0)
    x, y = (torch.as_tensor(part[:CHOSEN_ON]).double() for part in (task.x_held, task.y_held))
    found = minimal_radius(net, x, y, starts=structured_starts(net), upper=4.0, steps=10, rounds=3)
    return found.half


def gains(found: list[Measured], seed: int) -> Iterator[Row]:
    """What the claims speak of: each head chosen on validation points, each number from test points."""
    relu = max((m for m in found if m.row["family"] == "ReLU"), key=lambda m: m.row["held_accuracy"])
    for which, families in (("free", OURS), ("discovered", ("discovered",)), ("pReLU", ("pReLU",))):
        allowed = ALLOWED.get(which, ALLOWED["free"])
        floor = relu.row["held_accuracy"] - allowed + CAUTION
        able = [m for m in found if m.row["family"] in families and m.row["held_accuracy"] >= floor]
        best = max(able, key=lambda m: m.row["held_radius"], default=relu)
        loss = relu.row["accuracy"] - best.row["accuracy"]
        if loss > allowed:  # the validation points promised too much: the ReLU head stays, and gains nothing
            best = relu
        yield {"kind": "gain", "which": which, **_gain(best, relu, seed), "loss": loss}
    yield {"kind": "gain", "which": "adversarial", **_against_adversarial(found, relu)}


def _gain(best: Measured, relu: Measured, seed: int) -> Row:
    draws = np.random.default_rng(seed).integers(
        len(best.bracket.attacked), size=(RESAMPLES, len(best.bracket.attacked))
    )
    ours, theirs = (np.median(m.bracket.attacked.numpy()[draws], axis=1) for m in (best, relu))
    low, high = np.quantile(ours / np.maximum(theirs, 1e-12), [0.05, 0.95])
    certified, attacked = relu.row["certified_radius"], relu.row["attacked_radius"]
    return {
        "head": best.row["head"],
        "against": relu.row["head"],
        "gain": best.row["attacked_radius"] / attacked,
        "low": float(low),
        "high": float(high),
        "certified_gain": best.row["certified_radius"] / certified,
        "proven_gain": best.row["certified_radius"] / attacked,
    }


def _against_adversarial(found: list[Measured], relu: Measured) -> Row:
    """Our head with the largest validation radius within 3 points, beside adversarial training at the same clean accuracy.

    Adversarially trained heads and the plain ReLU head give points (accuracy, radius), joined by straight lines; below the least
    accuracy of these the largest radius stands.
    """
    floor = relu.row["held_accuracy"] - ALLOWED["discovered"]
    able = [m.row for m in found if m.row["family"] in OURS and m.row["held_accuracy"] >= floor]
    best = max(able, key=lambda row: row["held_radius"], default=relu.row)
    rivals = [m.row for m in found if m.row["family"] == "adversarial"]
    curve = sorted((row["accuracy"], row["attacked_radius"]) for row in [*rivals, relu.row])
    accuracy, radius = (np.array(side) for side in zip(*curve, strict=True))
    radius = np.maximum.accumulate(radius[::-1])[::-1]  # a head that is better in both is at hand
    theirs = float(np.interp(best["accuracy"], accuracy, radius))
    cost = np.mean([row["train_seconds"] for row in rivals]) / max(best["train_seconds"], 1e-9)
    return {
        "head": best["head"],
        "gain": best["attacked_radius"] / theirs,
        "theirs": theirs,
        "loss": relu.row["accuracy"] - best["accuracy"],
        "time_ratio": round(float(cost), 1),
    }


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Train and measure every head on one data set; a single row says so where the data is not found."""
    split = real_data(setting["data"])
    if split is None:
        return [
            {"kind": "missing", "why": f"{setting['data']} not found; set FEATUREPRISM_DATA to its folder"}
        ]
    task = task_of(split, setting, seed)
    plan, found = list(candidates(setting, seed)), []
    for i, candidate in enumerate(plan):
        found.append(measured(candidate, task, setting, seed))
        progress((i + 1) / len(plan))
    return [*(m.row for m in found), *gains(found, seed)]


def _claims(rows: list[Row]) -> list[Claim]:
    source, seeds = "beyond the papers", seeds_of(rows)

    def values(data: str, which: str, key: str) -> list[float]:
        found = {r["seed"]: r[key] for r in rows_of(rows, "gain", data=data, which=which)}
        return [found.get(seed, nan) for seed in seeds]

    def note(data: str, which: str) -> str:
        found = rows_of(rows, "gain", data=data, which=which)
        if not found:
            return "not measured: data not found"
        low, high = (np.mean([r.get(side, nan) for r in found]) for side in ("low", "high"))
        heads = ", ".join(dict.fromkeys(r["head"] for r in found))
        loss = 100 * np.mean([r["loss"] for r in found])
        interval = "" if np.isnan(low) else f"; 90 % interval over test points {low:.2f} to {high:.2f}"
        return f"{heads}; loses {loss:.1f} points of accuracy{interval}"

    def claim(
        id: str, statement: str, data: str, which: str, key: str, relation: str, bound: float, more=""
    ) -> Claim:
        name = f"robust-heads.{id}"
        return judge(
            name, source, statement, values(data, which, key), relation, bound, note(data, which) + more
        )

    cifar = "cifar10 embeddings"
    times = [t for t in values(cifar, "adversarial", "time_ratio") if not np.isnan(t)]
    cost = f"; adversarial training takes {np.mean(times):.1f} times as long" if times else ""
    return [
        claim(
            "free-gain",
            "CIFAR-10 embeddings: median attacked radius of a head that loses at most 1 point of accuracy ÷ the ReLU head's",
            cifar,
            "free",
            "gain",
            ">=",
            1.5,
        ),
        claim(
            "discovered-gain",
            "the same for sub-classes that clustering finds, within 3 points",
            cifar,
            "discovered",
            "gain",
            ">=",
            1.8,
        ),
        claim(
            "certified-gain",
            "the same ratio of proven radii, for pReLU heads within 1 point",
            cifar,
            "pReLU",
            "certified_gain",
            ">=",
            1.2,
        ),
        claim(
            "proven-gain",
            "the proven radius of that pReLU head ÷ the attacked radius of the ReLU head: a gain no better attack can undo",
            cifar,
            "pReLU",
            "proven_gain",
            ">",
            1.0,
        ),
        claim(
            "against-adversarial",
            "median attacked radius of our best head within 3 points ÷ that of adversarial training at the same clean accuracy",
            cifar,
            "adversarial",
            "gain",
            ">=",
            1.0,
            cost,
        ),
        claim("digits", "the first ratio on the digits of scikit-learn", "digits", "free", "gain", ">", 1.0),
        claim("mnist", "the first ratio on MNIST pixels", "mnist", "free", "gain", ">", 1.0),
    ]


def _scales() -> dict[str, list[Row]]:
    embeddings = {
        "data": "cifar10 embeddings",
        "width": 100,
        "num_subclasses": 100,
        "attack_radii": "0.05 0.1",
    }
    pixels = {"data": "mnist", "width": 100, "num_subclasses": 50, "attack_radii": "0.1"}
    small = {"data": "digits", "width": 50, "num_subclasses": 10, "attack_radii": "0.1"}
    sizes = {
        "quick": (20_000, 6_000, 60, 2_000, 1),
        "standard": (50_000, 20_000, 200, 4_000, 1),
        "paper": (50_000, 60_000, 1_000, 10_000, 8),
    }
    scales = {}
    for scale, (train, fewer, test, kernel, cells) in sizes.items():
        common = {"epochs": 6, "test_points": test, "kernel_points": kernel, "max_cells": cells}
        scales[scale] = [
            {**embeddings, **common, "train_points": train},
            {**pixels, **common, "train_points": fewer},
            {**small, **common, "train_points": 1_200, "test_points": min(test, 400)},
        ]
    return scales


ROBUST_HEADS = Experiment(
    id="beyond/robust-heads",
    source="beyond the papers",
    title="Robust heads for embeddings, without adversarial training",
    scales=_scales(),
    measure=measure,
    claims=_claims,
    about=(
        "Two-layer heads on frozen embeddings (CIFAR-10, classes 0-4 against 5-9), on MNIST pixels and on scikit-learn's digits, rows"
        " scaled to norm 1. A ReLU head is compared with pReLU heads and with heads that also learn finer labels (the ten classes, or"
        " clusters found within each class); all have the same number of neurons and the same training. Heads are chosen on a tenth of"
        " the training points, every number is from test points. A radius is the smallest change of the embedding that changes the"
        " decision: found by attack (upper side), proven (lower side); misclassified points count as 0. It says nothing directly about"
        " changes of the image. Beside them linear models, an RBF SVM, 1-nearest neighbour (exact) and adversarial training."
    ),
)
