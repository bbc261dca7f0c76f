"""Many heads in one table: what each is, how it is trained and measured, and which one to take."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from featureprism.records import RadiusBracket, Row
from featureprism.seeds import generator_for

if TYPE_CHECKING:
    from featureprism.heads.estimators import PReLUHead

CHOSEN_ON = 24  # validation points whose radius a choice is made with
DISAGREE = 0.06  # share of points on which exactly one of two such heads is right
NOISY, NOISE = (
    "ReLU, trained with noise",
    4.0,
)  # of the largest radius of adversarial training: random directions hurt less
LEAST_STEPS = 500  # of training, on small sets too
OURS = ("pReLU", "given", "discovered")


class Task(NamedTuple):
    """Points to train on, to choose on and to test on; two classes are -1 and +1. `fine` are finer labels, or None."""

    x: np.ndarray
    y: np.ndarray
    fine: np.ndarray | None
    x_held: np.ndarray
    y_held: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes: the baselines know no others."""
        return len(np.unique(self.y)) == 2


@dataclass(frozen=True)
class Plan:
    """What is compared, and with how much effort."""

    width: int
    num_subclasses: int | None
    attack_radii: tuple[float, ...]
    epochs: int
    kernel_points: int
    test_points: int
    max_cells: int = 1


class Candidate(NamedTuple):
    """A head to train: its name, its family, how it is made, and how many points it is trained on at most."""

    name: str
    family: str
    make: Callable[[], Any]
    most: int | None = None


class Measured(NamedTuple):
    """A trained head, its row of the table, and the bracket of every test point drawn."""

    head: Any
    row: Row
    bracket: RadiusBracket


def trained_alike(epochs: int, num_points: int, seed: int) -> dict[str, Any]:
    """What all heads of a comparison share: so many passes, more on small sets; one unit for all features, and no bias.

    Embeddings have one unit, and their classes lie in directions from the mean.
    """
    batch_size = 256
    per_epoch = max(1, num_points // min(batch_size, num_points))
    return {
        "epochs": max(epochs, LEAST_STEPS / per_epoch),
        "batch_size": batch_size,
        "weight_decay": 1e-5,
        "scaling": "points",
        "fit_intercept": False,
        "random_state": seed,
    }


def candidates(plan: Plan, task: Task, seed: int) -> Iterator[Candidate]:
    """ReLU, pReLU, given and discovered sub-classes; for two classes also adversarial training and what people use instead."""
    from featureprism.heads import DecoupledHead, PReLUHead  # scikit-learn takes a second
    from featureprism.heads import baselines as rivals

    width, common = plan.width, trained_alike(plan.epochs, len(task.x), seed)
    yield Candidate("ReLU", "ReLU", lambda: chosen_relu(plan, task, seed))
    for p in (2.0, 3.0):
        yield Candidate(f"pReLU, p = {p:g}", "pReLU", partial(PReLUHead, p, width, **common))
    if task.fine is not None:
        per_label = max(1, 2 * width // len(np.unique(task.fine)))
        given = partial(DecoupledHead, "given", p=3.0, width=per_label, **common)
        yield Candidate("finer labels given, p = 3", "given", given)
    for p, weight in ((3.0, 0.3), (4.0, 0.5)):
        found = partial(DecoupledHead, "discovered", plan.num_subclasses, p, fine_weight=weight, **common)
        yield Candidate(f"sub-classes found, p = {p:g}", "discovered", found)
    if not task.is_binary:
        return
    brief = {"epochs": common["epochs"], "random_state": seed}
    for eps in plan.attack_radii:
        hardened = partial(rivals.AdversarialHead, eps, width=width, **brief)
        yield Candidate(f"ReLU, trained on attacks of {eps:g}", "adversarial", hardened)
    noise = NOISE * max(plan.attack_radii)
    yield Candidate(NOISY, "other", partial(rivals.NoisyHead, noise, width=width, **brief))
    most = plan.kernel_points
    for kind in ("logistic regression", "linear SVM"):
        yield Candidate(kind, "other", partial(rivals.LinearHead, kind, seed))
    yield Candidate(f"RBF SVM (at most {most} points)", "other", rivals.KernelHead, most)
    yield Candidate(f"1-nearest neighbour (at most {most} points)", "other", rivals.NeighbourHead, most)


DECAYS = (1e-5, 1e-4, 1e-3)  # the ReLU head that the others are compared with has the best of these


def chosen_relu(plan: Plan, task: Task, seed: int) -> "PReLUHead":
    """The ReLU head, unfitted, with the weight decay that is most accurate on validation points."""

    from featureprism.heads import PReLUHead

    def head(decay: float) -> PReLUHead:
        common = trained_alike(plan.epochs, len(task.x), seed)
        return PReLUHead(1.0, plan.width, **{**common, "weight_decay": decay})

    return head(
        max(DECAYS, key=lambda decay: head(decay).fit(task.x, task.y).score(task.x_held, task.y_held))
    )


def measured(candidate: Candidate, task: Task, plan: Plan, seed: int) -> Measured:
    """Train one head and measure it on test points; `held_*` are from validation points, to choose with."""
    head, part = candidate.make(), slice(candidate.most)
    began = time.process_time()
    if candidate.family == "given":
        head.fit(task.x, task.y, fine_labels=task.fine)
    else:
        head.fit(task.x[part], task.y[part])
    seconds = time.process_time() - began
    bracket = head.robust_radius(*drawn(task, plan.test_points, seed), **_effort(head, plan))
    held_radius = math.nan
    if candidate.family in OURS:
        held = head.robust_radius(task.x_held[:CHOSEN_ON], task.y_held[:CHOSEN_ON])
        held_radius = float(held.attacked.median())
    row = {
        "kind": "head",
        "head": candidate.name,
        "family": candidate.family,
        "held_points": len(task.x_held),
        "held_accuracy": float((head.predict(task.x_held) == task.y_held).mean()),
        "held_radius": held_radius,
        "train_seconds": round(seconds, 2),
        **told(head, task, bracket),
    }
    return Measured(head, row, bracket)


def drawn(task: Task, num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The test points that are bracketed: the same for all heads."""
    order = torch.randperm(len(task.x_test), generator=generator_for("test points", seed))[:num].numpy()
    return task.x_test[order], task.y_test[order]


def _effort(head: Any, plan: Plan) -> dict[str, Any]:
    from featureprism.heads.estimators import Head

    return {"max_cells": plan.max_cells} if isinstance(head, Head) else {}


def told(head: Any, task: Task, bracket: RadiusBracket) -> Row:
    """Accuracy and radii on test points."""
    return {
        "accuracy": float((head.predict(task.x_test) == task.y_test).mean()),
        "attacked_radius": float(bracket.attacked.median()),
        "certified_radius": float(bracket.certified.median()),
        "median_gap": float(bracket.gap.median()),
        "blind_share": bracket.blind_share,
    }


def best_within(rows: Sequence[Row], now: Row, allowed: float, families: Sequence[str] = OURS) -> Row | None:
    """The head with the largest validation radius among those that lose at most `allowed` of accuracy to `now`.

    Both accuracies are from n validation points and differ by chance: a standard error √(DISAGREE/n) is taken off what is allowed.
    """
    floor = now["held_accuracy"] - allowed + math.sqrt(DISAGREE / now["held_points"])
    able = [row for row in rows if row["family"] in families and row["held_accuracy"] >= floor]
    return max(able, key=lambda row: row["held_radius"], default=None)
