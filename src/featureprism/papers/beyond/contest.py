"""A fair contest: eight kinds of heads on embeddings, pixels and tables, with two classes and with many."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from featureprism.context import Context
from featureprism.data.real import real_data, unit_norm
from featureprism.experiment import Claim, Experiment, Rows, above
from featureprism.heads.compare import NOISE, Candidate, Plan, Task, made, measured, trained_alike
from featureprism.records import Row

SOURCE = "beyond the papers"
CIFAR = "cifar10 embeddings"
TABLES = ("breast cancer", "wine")  # of scikit-learn
ATTACK = 0.1  # radius of adversarial training, in units of the spread of all points
NEAR = 0.02  # heads within this of the best validation accuracy compete for the radius
FULL = 300  # dimensions up to which each class has a full covariance; a diagonal one beyond
OURS = ("pReLU", "discovered", "Gaussian")


@dataclass(frozen=True, kw_only=True)
class Setting(Plan):
    """A data set with so many classes, and how many of its points are trained and chosen on."""

    data: str
    classes: int
    train_points: int
    held_points: int


def _points(name: str, context: Context) -> tuple[np.ndarray, np.ndarray] | None:
    """All points and labels 0, 1, …; None where the files are not found."""
    if name in TABLES:
        from sklearn.datasets import load_breast_cancer, load_wine  # take a second

        bunch: Any = load_breast_cancer() if name == "breast cancer" else load_wine()
        return bunch.data, bunch.target
    split = real_data(name, context.data)
    if split is None:
        return None
    x, y = (np.concatenate([split[i], split[i + 2]]) for i in (0, 1))
    return x, y.astype(np.int64)


def task_of(x: np.ndarray, y: np.ndarray, s: Setting, seed: int) -> Task:
    """A seed's draw of training, validation and test points; rows of norm 1, tables in units of their training points.

    Two of ten classes are 0 to 4 (+1) against 5 to 9 (-1); two classes of a table are ±1.
    """
    order = np.random.default_rng(seed).permutation(len(x))
    ends = s.held_points, s.held_points + s.train_points
    held, train, test = np.split(order, ends)
    test = test[:2000]
    if s.data in TABLES:
        x = (x - x[train].mean(axis=0)) / np.maximum(x[train].std(axis=0), 1e-12)
        parts = [x[rows] for rows in (train, held, test)]
    else:
        parts = [unit_norm(x[rows]) for rows in (train, held, test)]
    labels = y
    if s.classes == 2:
        labels = np.where(y < 5, 1, -1) if y.max() > 1 else 2 * y - 1
    return Task(parts[0], labels[train], None, parts[1], labels[held], parts[2], labels[test])


def contestants(s: Setting, task: Task, seed: int) -> Iterator[Candidate]:
    """Every head, made with what all share."""
    from featureprism.heads import DecoupledHead, GaussianHead, PReLUHead  # scikit-learn takes a second
    from featureprism.heads import baselines as rivals

    common = trained_alike(s.epochs, len(task.x), seed)
    brief = {"epochs": common["epochs"], "width": s.width, "random_state": seed}
    spread = float(np.sqrt(((task.x - task.x.mean(axis=0)) ** 2).sum(axis=1).mean()))
    yield Candidate("logistic regression", "linear", made(rivals.LinearHead, "logistic regression", seed))
    yield Candidate("ReLU network", "MLP", made(PReLUHead, 1.0, s.width, **common))
    yield Candidate("ReLU, noise", "noise", made(rivals.NoisyHead, NOISE * ATTACK * spread, **brief))
    yield Candidate("ReLU, attacks", "adversarial", made(rivals.AdversarialHead, ATTACK * spread, **brief))
    yield Candidate("1-nearest neighbour", "neighbour", made(rivals.NeighbourHead), s.kernel_points)
    yield Candidate("PReLUHead", "pReLU", made(PReLUHead, 3.0, s.width, **common))
    found = made(DecoupledHead, "discovered", s.num_subclasses, 3.0, **common)
    yield Candidate("DecoupledHead", "discovered", found)
    yield Candidate("GaussianHead, shared", "Gaussian", made(GaussianHead, "shared", scaling="points"))
    structure = "full" if task.x.shape[1] <= FULL else "diagonal"
    each = made(GaussianHead, "per_class", structure, scaling="points")
    yield Candidate("GaussianHead, per class", "Gaussian", each)


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """Train and measure every head on one split, and compare ours with the others; one row says so where the data is not found."""
    found = _points(s.data, context)
    if found is None:
        return [{"kind": "missing", "why": f"{s.data} not found; name its folder with --data"}]
    task = task_of(*found, s, seed)
    rows: list[Row] = []
    everyone = list(contestants(s, task, seed))
    for candidate in everyone:
        rows.append(measured(candidate, task, s, seed).row)
        context.progress(len(rows) / len(everyone))
    return [*rows, ahead(rows)]


def ahead(rows: Sequence[Row]) -> Row:
    """The largest median radius of ours over the largest of the others, among heads that are accurate enough on validation points."""
    floor = max(row["held_accuracy"] for row in rows) - NEAR
    able = [row for row in rows if row["held_accuracy"] >= floor]

    def best(side: str, ours: bool) -> tuple[float, str]:
        radii = [(row[f"{side}_radius"], row["head"]) for row in able if (row["family"] in OURS) == ours]
        return max(radii, default=(0.0, "nobody"))

    (proven, first), (theirs, second) = (best("certified", ours) for ours in (True, False))
    attacked, their_attacked = (best("attacked", ours)[0] for ours in (True, False))
    return {
        "kind": "ahead",
        "ours": first,
        "theirs": second,
        "proven_ratio": proven / theirs if theirs else np.inf,
        "attacked_ratio": attacked / their_attacked if their_attacked else np.inf,
    }


def _of(rows: Rows, data: str, classes: int, column: str) -> np.ndarray:
    return rows.of("ahead", data=data, classes=classes).per_seed(column)


def _note(data: str, classes: int, rows: Rows) -> str:
    """Who was first among ours and among the others."""
    own = rows.of("ahead", data=data, classes=classes)
    if not len(own):
        return "not measured: data not found"
    return f"{', '.join(own.distinct('ours'))} against {', '.join(own.distinct('theirs'))}"


FIELDS = (
    (CIFAR, 2),
    (CIFAR, 10),
    ("mnist", 2),
    ("mnist", 10),
    ("digits", 2),
    ("digits", 10),
    ("breast cancer", 2),
    ("wine", 3),
)
CLAIMS = tuple(
    Claim(
        f"{data.replace(' ', '-')}-{classes}",
        SOURCE,
        f"{data}, {classes} classes: the largest proven median radius of our heads ÷ that of the others, among heads within 2 points "
        "of the best validation accuracy",
        partial(_of, data=data, classes=classes, column="proven_ratio"),
        above(1.0),
        speaker="ours",
        note=partial(_note, data, classes),
    )
    for data, classes in FIELDS
)


def _settings(effort: Plan, cifar: int, mnist: int) -> list[Setting]:
    from featureprism.experiment import fields_of

    plan = fields_of(effort)
    sizes = {
        CIFAR: (cifar, 2000),
        "mnist": (mnist, 1000),
        "digits": (900, 300),
        "breast cancer": (300, 100),
        "wine": (100, 30),
    }
    return [
        Setting(data=data, classes=classes, train_points=sizes[data][0], held_points=sizes[data][1], **plan)
        for data, classes in FIELDS
    ]


# width, sub-classes, (radii: see ATTACK), epochs, points of the nearest neighbour, test points, cells
CONTEST = Experiment(
    id="beyond/contest",
    source=SOURCE,
    title="A fair contest of heads",
    scales={
        "quick": _settings(Plan(20, 10, (), 6, 500, 30, 1), 5_000, 3_000),
        "standard": _settings(Plan(50, 20, (), 6, 2_000, 100, 1), 40_000, 20_000),
        "paper": _settings(Plan(100, 50, (), 6, 5_000, 300, 8), 50_000, 50_000),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Logistic regression, a ReLU network, the same trained with noise and on attacks, 1-nearest neighbour, PReLUHead,"
        " DecoupledHead and GaussianHead on the same splits: CIFAR-10 embeddings and MNIST pixels and the digits of scikit-learn"
        " (rows of norm 1), two tables of scikit-learn (standardised). A seed is a split. Radii are medians over test points,"
        " proven and attacked; misclassified points count as 0. Training time is CPU time."
    ),
    long=True,
)
