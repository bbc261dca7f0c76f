"""Heads to compare: what each is and how it is trained."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from featureprism._progress import Progress, no_progress, part
from featureprism.seeds import generator_for

if TYPE_CHECKING:
    from featureprism.heads.estimators import PReLUHead

NOISE = 4.0  # of the largest radius of adversarial training: random directions hurt less
LINEAR_POINTS = 10_000  # that linear models of more than two classes are trained on: they gain little from more, and take minutes
LEAST_STEPS = 500  # of training, on small sets too


class Task(NamedTuple):
    """Points to train on, to choose on and to test on; two classes are -1 and +1. `fine` are finer labels, or None."""

    x: np.ndarray
    y: np.ndarray
    fine: np.ndarray | None
    x_validation: np.ndarray
    y_validation: np.ndarray
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


class Candidate(NamedTuple):
    """A head to train: its name, its family, how it is made (choosing its options may take a while), most points to train on."""

    name: str
    family: str
    make: Callable[[Progress], Any]
    most: int | None = None


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
    from featureprism.lab.heads import baselines

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
            hardened = made(baselines.AdversarialHead, eps, width=width, **brief)
            yield Candidate(f"ReLU, trained on attacks of {eps:g}", "adversarial", hardened)
        noise = NOISE * max(plan.attack_radii)
        yield Candidate(
            "ReLU, trained with noise", "other", made(baselines.NoisyHead, noise, width=width, **brief)
        )
    most = plan.kernel_points
    for kind in ("logistic regression", "linear SVM"):
        few = None if task.is_binary else LINEAR_POINTS
        name = kind if few is None else f"{kind} (at most {few} points)"
        yield Candidate(name, "other", made(baselines.LinearHead, kind, seed), few)
    if task.is_binary:
        yield Candidate(f"RBF SVM (at most {most} points)", "other", made(baselines.KernelHead), most)
    for covariance, words in (("shared", "one covariance"), ("per_class", "a covariance each")):
        yield Candidate(
            f"Gaussian classes, {words}", "Gaussian", made(GaussianHead, covariance, scaling="points")
        )
    yield Candidate(
        f"1-nearest neighbour (at most {most} points)", "other", made(baselines.NeighbourHead), most
    )


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
        scores.append(head.score(task.x_validation, task.y_validation))
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
    """Whether this is a head of featureprism: those report progress, and can be saved."""
    from featureprism.heads.scored import ScoredHead

    return isinstance(head, ScoredHead)


def drawn(task: Task, num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The test points that are bracketed: the same for all heads."""
    order = torch.randperm(len(task.x_test), generator=generator_for("test points", seed))[:num].numpy()
    return task.x_test[order], task.y_test[order]
