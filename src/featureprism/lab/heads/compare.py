"""Many heads in one table: what each is, how it is trained and measured, and which one to take."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from featureprism._progress import Progress, no_progress, part
from featureprism.brackets import RadiusBracket, lower_median
from featureprism.lab.rows import Row
from featureprism.seeds import generator_for
from featureprism.verify import Budget

if TYPE_CHECKING:
    from featureprism.heads.estimators import PReLUHead

CHOSEN_ON = 24  # validation points whose radius a choice is made with
DISAGREE = 0.06  # share of points on which exactly one of two such heads is right
NOISY, NOISE = (
    "ReLU, trained with noise",
    4.0,
)  # of the largest radius of adversarial training: random directions hurt less
LINEAR_POINTS = 10_000  # that linear models of more than two classes are trained on: they gain little from more, and take minutes
LEAST_STEPS = 500  # of training, on small sets too
OURS = ("pReLU", "given", "discovered")
OFFERED = (*OURS, "Gaussian")  # heads that an audit may recommend


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
        """Whether there are two classes: some baselines know no others."""
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
    max_branches: int = 1


class Candidate(NamedTuple):
    """A head to train: its name, its family, how it is made (choosing its options may take a while), most points to train on."""

    name: str
    family: str
    make: Callable[[Progress], Any]
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
    """ReLU, pReLU, given and found sub-classes, linear models, neighbours; for two classes also adversarial training and an RBF SVM."""
    from featureprism.heads import DecoupledHead, GaussianHead, PReLUHead  # scikit-learn takes a second
    from featureprism.lab.heads import baselines as rivals

    width, common = plan.width, trained_alike(plan.epochs, len(task.x), seed)
    yield Candidate("ReLU", "ReLU", partial(chosen_relu, plan, task, seed))
    for p in (2.0, 3.0):
        yield Candidate(f"pReLU, p = {p:g}", "pReLU", made(PReLUHead, p, width, **common))
    if task.fine is not None:
        per_label = max(1, 2 * width // len(np.unique(task.fine)))
        given = made(DecoupledHead, "given", p=3.0, width=per_label, **common)
        yield Candidate("finer labels given, p = 3", "given", given)
    for p, weight in ((3.0, 0.3), (4.0, 0.5)):
        decoupled = made(DecoupledHead, "discovered", plan.num_subclasses, p, fine_weight=weight, **common)
        yield Candidate(f"sub-classes found, p = {p:g}", "discovered", decoupled)
    brief = {"epochs": common["epochs"], "random_state": seed}
    if task.is_binary:
        for eps in plan.attack_radii:
            hardened = made(rivals.AdversarialHead, eps, width=width, **brief)
            yield Candidate(f"ReLU, trained on attacks of {eps:g}", "adversarial", hardened)
        noise = NOISE * max(plan.attack_radii)
        yield Candidate(NOISY, "other", made(rivals.NoisyHead, noise, width=width, **brief))
    most = plan.kernel_points
    for kind in ("logistic regression", "linear SVM"):
        few = None if task.is_binary else LINEAR_POINTS
        name = kind if few is None else f"{kind} (at most {few} points)"
        yield Candidate(name, "other", made(rivals.LinearHead, kind, seed), few)
    if task.is_binary:
        yield Candidate(f"RBF SVM (at most {most} points)", "other", made(rivals.KernelHead), most)
    for covariance, words in (("shared", "one covariance"), ("per_class", "a covariance each")):
        yield Candidate(
            f"Gaussian classes, {words}", "Gaussian", made(GaussianHead, covariance, scaling="points")
        )
    yield Candidate(f"1-nearest neighbour (at most {most} points)", "other", made(rivals.NeighbourHead), most)


def made(kind: Callable[..., Any], *options: Any, **more: Any) -> Callable[[Progress], Any]:
    """How a head with these options is made, at once."""
    return lambda _progress: kind(*options, **more)


DECAYS = (1e-5, 1e-4, 1e-3)  # the ReLU head that the others are compared with has the best of these


def chosen_relu(plan: Plan, task: Task, seed: int, progress: Progress = no_progress) -> "PReLUHead":
    """The ReLU head, unfitted, with the weight decay that is most accurate on validation points."""
    from featureprism.heads import PReLUHead

    common = trained_alike(plan.epochs, len(task.x), seed)
    heads = [PReLUHead(1.0, plan.width, **{**common, "weight_decay": decay}) for decay in DECAYS]
    scores = []
    for i, head in enumerate(heads):
        head.fit(task.x, task.y, progress=part(progress, i / len(heads), (i + 1) / len(heads)))
        scores.append(head.score(task.x_held, task.y_held))
    best = DECAYS[int(np.argmax(scores))]
    return PReLUHead(1.0, plan.width, **{**common, "weight_decay": best})


def fitted(candidate: Candidate, task: Task, progress: Progress = no_progress) -> tuple[Any, float]:
    """The trained head, and the CPU seconds that training took (not choosing)."""
    choosing, rows = 0.75 if candidate.family == "ReLU" else 0.0, slice(candidate.most)
    head = candidate.make(part(progress, 0.0, choosing))
    more: dict[str, Any] = {"progress": part(progress, choosing, 1.0)} if is_ours(head) else {}
    if candidate.family == "given":
        more["fine_labels"] = task.fine
    began = time.process_time()
    head.fit(task.x[rows], task.y[rows], **more)
    return head, time.process_time() - began


def is_ours(head: Any) -> bool:
    """Whether this is one of our heads: they tell progress, and can be saved."""
    from featureprism.heads.scored import ScoredHead

    return isinstance(head, ScoredHead)


def measured(
    candidate: Candidate, task: Task, plan: Plan, seed: int, progress: Progress = no_progress
) -> Measured:
    """Train one head and measure it on test points; `held_*` are from validation points, to choose with."""
    head, seconds = fitted(candidate, task, part(progress, 0.0, 0.5))
    bracket = bracketed(
        head, *drawn(task, plan.test_points, seed), plan.max_branches, part(progress, 0.5, 0.8)
    )
    held_radius = math.nan
    if candidate.family in OFFERED:
        few = task.x_held[:CHOSEN_ON], task.y_held[:CHOSEN_ON]
        held = head.robust_radius(*few, progress=part(progress, 0.8, 1.0))
        held_radius = held.half_radius[1]
    row = {
        **named(candidate, head, task, seconds),
        "held_radius": held_radius,
        **measured_row(head, task, bracket),
    }
    progress(1.0)
    return Measured(head, row, bracket)


def named(candidate: Any, head: Any, task: Task, seconds: float) -> Row:
    """Which head a row speaks of, how accurate it is on validation points, and the CPU seconds that it was trained for."""
    return {
        "kind": "head",
        "head": candidate.name,
        "family": candidate.family,
        "held_points": len(task.x_held),
        "held_accuracy": float((head.predict(task.x_held) == task.y_held).mean()),
        "train_seconds": round(seconds, 2),
    }


def bracketed(
    head: Any, x: np.ndarray, y: np.ndarray, max_branches: int, progress: Progress = no_progress
) -> RadiusBracket:
    """The bracket of a head; baselines have one effort."""
    more = {"budget": Budget(branches=max_branches)} if is_ours(head) else {}
    return head.robust_radius(x, y, progress=progress, **more)


def drawn(task: Task, num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The test points that are bracketed: the same for all heads."""
    order = torch.randperm(len(task.x_test), generator=generator_for("test points", seed))[:num].numpy()
    return task.x_test[order], task.y_test[order]


def measured_row(head: Any, task: Task, bracket: RadiusBracket) -> Row:
    """Accuracy and radii on test points."""
    return {
        "accuracy": float((head.predict(task.x_test) == task.y_test).mean()),
        "attacked_radius": bracket.half_radius[1],
        "certified_radius": bracket.half_radius[0],
        "median_gap": lower_median(bracket.gap),
        "blind_share": bracket.blind_share,
    }


def best_within(rows: Sequence[Row], now: Row, allowed: float, families: Sequence[str] = OURS) -> Row | None:
    """The head with the largest validation radius among those that lose at most `allowed` of accuracy to `now`.

    Both accuracies are from n validation points and differ by chance: a standard error √(DISAGREE/n) is taken off what is allowed.
    """
    floor = now["held_accuracy"] - allowed + chance(now["held_points"])
    able = [row for row in rows if row["family"] in families and row["held_accuracy"] >= floor]
    return max(able, key=lambda row: row["held_radius"], default=None)


def chance(num_points: int) -> float:
    """The standard error of a difference of accuracies on so many points."""
    return math.sqrt(DISAGREE / num_points)
