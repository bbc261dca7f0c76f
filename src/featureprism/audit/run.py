"""An audit, stage by stage: every stage is a unit that is kept as soon as it is done, and a second call goes on from there."""

import base64
import hashlib
import io
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from featureprism._files import as_json, prepare_folder, write_whole
from featureprism._progress import Progress, part
from featureprism.audit.advice import YOURS, recommendation
from featureprism.audit.given import read_head
from featureprism.audit.read import Embeddings, read_embeddings
from featureprism.audit.stages import clusters, features, geometry
from featureprism.audit.watch import Show, Watch, noted
from featureprism.brackets import RadiusBracket
from featureprism.heads import GaussianHead
from featureprism.heads.subclasses import Subclasses
from featureprism.lab.context import Context
from featureprism.lab.engine import UnitEnded, unit_events
from featureprism.lab.executors import Local, Serial
from featureprism.lab.experiment import fields_of
from featureprism.lab.heads.compare import Plan, Task, candidates, drawn, is_ours, measured, measured_row
from featureprism.lab.heads.mixture import mixture_distance
from featureprism.lab.rows import Row
from featureprism.lab.store import Store
from featureprism.lab.unit import Unit
from featureprism.lab.work import DONE
from featureprism.verify import Budget

GEOMETRY = "geometry"
ATTACKS = (0.05, 0.1)  # radii of adversarial training, in units of the spread of all points
WIDTH, EPOCHS, KERNEL_POINTS = 100, 6, 2_000
SEEN = ("training", "all", "none")  # rows of the file that your head was trained on
COSTS = {GEOMETRY: 0.1, "ReLU": 2.5}  # of stages, where a pReLU head is 1
CHEAP = 0.3  # of heads that are not ours


@dataclass(frozen=True)
class Question:
    """What is audited; `seen` are the rows that the head was trained on, None where nobody said."""

    embeddings: Path
    head: Path | None
    normalise: str | None
    num_points: int
    seen: str | None


@dataclass(frozen=True)
class Stage:
    """One stage of an audit: what it looks at, and a hash of the data, the head and the options."""

    name: str
    problem: str


@dataclass(frozen=True, eq=False)
class Problem:
    """What all stages share."""

    data: Embeddings
    head: Any
    seen: str | None
    plan: Plan
    clusters: Subclasses


def audit(
    embeddings: Path,
    head: Path | None,
    out: Path,
    *,
    normalise: str | None = None,
    num_points: int = 100,
    seen: str | None = None,
    workers: int = 1,
    show: Show = lambda _share, _words: None,
) -> list[Row]:
    """Rows of all stages: geometry, the head as it is, every remedy and baseline, the recommendation.

    Leaves heads/*.npz, witnesses/*.npz, audit.json and the recommended head.npz in `out`.
    """
    if seen not in (None, *SEEN):
        raise ValueError(f"seen must be one of {', '.join(SEEN)}, got {seen!r}.")
    question = Question(embeddings, head, normalise, num_points, seen)
    digest = _digest(question)
    problem = problem_of(question, digest)
    prepare_folder(out)
    names = [
        GEOMETRY,
        *([] if head is None else [YOURS]),
        *(c.name for c in candidates(problem.plan, problem.data.task, 0)),
    ]
    with tempfile.TemporaryDirectory() as notes:
        rows = _all_rows(question, digest, names, out, Path(notes), workers, show)
    for row in (row for row in rows if row["kind"] == "file"):
        path = out / row["path"]
        path.parent.mkdir(exist_ok=True)
        write_whole(path, base64.b64decode(row["content"]))
    rows = [row for row in rows if row["kind"] != "file"]
    rows.append(recommendation(rows))
    if rows[-1]["head"] != YOURS:
        shutil.copy(out / "heads" / f"{slug(rows[-1]['head'])}.npz", out / "head.npz")
    write_whole(out / "audit.json", as_json(rows, indent=1))
    return rows


def _all_rows(
    question: Question, digest: str, names: Sequence[str], out: Path, notes: Path, workers: int, show: Show
) -> list[Row]:
    """The rows of every stage, from the store where they are there already."""
    measure = partial(_measured, question, digest, notes)
    stages = [Stage(name, digest) for name in names]
    units = [Unit("audit", measure, stage, 0, fields_of(stage)) for stage in stages]
    watch = Watch({name: _cost(name) for name in names}, partial(_note, notes), show)
    failed: list[str] = []
    context = Context(progress=lambda _share: watch.refresh())
    with Store(out, write=True) as store:
        before = store.statuses(units)
        watch.end([unit.setting.name for unit in units if before.get(unit.key) == DONE])
        executor = Serial() if workers == 1 else Local(workers)
        for event in unit_events(store, units, executor, context=context):
            if isinstance(event, UnitEnded):
                watch.end([event.unit.setting.name])
                if event.ending.message:
                    failed.append(f"{event.unit.setting.name}: {event.ending.message}")
            watch.refresh()
        rows = list(store.rows_of(units))
    watch.refresh()
    if failed:
        raise ValueError(f"{len(failed)} of {len(units)} stages failed; the first is {failed[0]}.")
    return rows


def _cost(name: str) -> float:
    ours = name == YOURS or name.startswith(("pReLU", "sub-classes", "finer", "ReLU"))
    return COSTS.get(name, 1.0 if ours else CHEAP)


def _note(notes: Path, name: str) -> Path:
    """Where a stage notes its progress."""
    return notes / slug(name)


@lru_cache(maxsize=1)
def problem_of(question: Question, _digest: str) -> Problem:
    """The data and the head, read once in every process that asks."""
    data = read_embeddings(question.embeddings, question.normalise)
    head = None if question.head is None else read_head(question.head, data)
    x = data.task.x
    spread = float(np.sqrt(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()))
    radii = tuple(float(f"{share * spread:.2g}") for share in ATTACKS)
    plan = Plan(WIDTH, None, radii, EPOCHS, KERNEL_POINTS, question.num_points)
    seen = question.seen or ("training" if data.has_split else None)
    return Problem(data, head, seen, plan, clusters(data.task))


def _measured(
    question: Question, digest: str, notes: Path, stage: Stage, seed: int, context: Context
) -> list[Row]:
    """The rows of one stage."""
    progress = noted(_note(notes, stage.name), context.progress)
    progress(0.0)
    problem = problem_of(question, digest)
    if stage.name == GEOMETRY:
        return geometry(problem.data.task, problem.clusters)
    if stage.name == YOURS:
        return _your_head(problem, seed, progress)
    return _candidate(problem, stage.name, seed, progress)


def _candidate(problem: Problem, name: str, seed: int, progress: Progress) -> list[Row]:
    """A head trained and looked at, its file and its witnesses."""
    task, plan = problem.data.task, problem.plan
    candidate = next(c for c in candidates(plan, task, seed) if c.name == name)
    result = measured(candidate, task, plan, seed, part(progress, 0.0, 0.95))
    if not is_ours(result.head):
        return [result.row, *_witnesses(problem, name, result.bracket, seed)]
    points = drawn(task, plan.test_points, seed)
    row, direction = features(result.head, task, problem.clusters, result.bracket, points)
    mixture = _mixture(result.head, name, task, result.row["certified_radius"])
    result.head.classes_ = problem.data.classes  # from here on it speaks the user's labels
    with tempfile.TemporaryDirectory() as folder:
        result.head.save(Path(folder) / "head.npz")
        saved = _file(f"heads/{slug(name)}.npz", (Path(folder) / "head.npz").read_bytes())
    looks = {**row, "head": name}
    return [
        result.row,
        looks,
        *mixture,
        saved,
        *_witnesses(problem, name, result.bracket, seed, row["universal_norm"], direction),
    ]


def _mixture(head: Any, name: str, task: Task, radius: float) -> list[Row]:
    """How far the test points are from the mixture that a Gaussian head believes in."""
    if not isinstance(head, GaussianHead):
        return []
    return [mixture_distance(head, task.x_test, task.y_test, radius=radius).as_row() | {"head": name}]


def _your_head(problem: Problem, seed: int, progress: Progress) -> list[Row]:
    """The head that was brought, looked at in the same way.

    The rows that heads are chosen on come from the training rows, which it may know by heart: unless it has seen none of them, the
    accuracy that others are measured against is that of test rows.
    """
    head, task, plan = problem.head, problem.data.task, problem.plan
    points = drawn(task, plan.test_points, seed)
    bracket = head.robust_radius(
        *points, budget=Budget(branches=plan.max_branches), progress=part(progress, 0.0, 0.9)
    )
    numbers = measured_row(head, task, bracket)
    is_fresh = problem.seen == "none"
    row = {
        "kind": "head",
        "head": YOURS,
        "family": "yours",
        "seen": problem.seen,
        "held_accuracy": float((head.predict(task.x_held) == task.y_held).mean())
        if is_fresh
        else numbers["accuracy"],
        "held_points": len(task.x_held) if is_fresh else len(task.x_test),
        **numbers,
    }
    looks, direction = features(head, task, problem.clusters, bracket, points)
    norm = looks["universal_norm"]
    return [row, {**looks, "head": YOURS}, *_witnesses(problem, YOURS, bracket, seed, norm, direction)]


def _witnesses(
    problem: Problem,
    name: str,
    bracket: RadiusBracket,
    seed: int,
    norm: float = float("nan"),
    direction: Tensor | None = None,
) -> list[Row]:
    """x, y, the perturbation and both radii of every point that was bracketed, its row in the file; the universal vector."""
    data, num = problem.data, problem.plan.test_points
    if bracket.witness is None:
        return []
    task = data.task._replace(x_test=data.test_rows[:, None], y_test=data.task.y_test)
    index, _ = drawn(task, num, seed)
    x, y = drawn(data.task, num, seed)
    names = data.classes[(y > 0).astype(int) if len(data.classes) == 2 else y]
    arrays = {"row": index[:, 0], "x": x, "y": names, "delta": bracket.witness}
    arrays |= {"certified": bracket.certified, "attacked": bracket.attacked}
    if (
        direction is not None
    ):  # fools half: two classes x - s·universal, s = ±1 for the second and the first; more x + universal
        arrays["universal"] = norm * direction.numpy()
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]
    return [_file(f"witnesses/{slug(name)}.npz", content.getvalue())]


def _file(path: str, content: bytes) -> Row:
    return {"kind": "file", "path": path, "content": base64.b64encode(content).decode()}


def slug(name: str) -> str:
    """A name as part of a path."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _digest(question: Question) -> str:
    """A hash of the files and the options."""
    digest = hashlib.sha256(f"{question.normalise, question.num_points, question.seen}".encode())
    for path in (question.embeddings, question.head):
        digest.update(b"" if path is None else _content(path))
    return digest.hexdigest()[:16]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror or error}.") from error
