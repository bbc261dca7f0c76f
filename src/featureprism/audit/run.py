"""An audit, stage by stage: every stage is a unit that is kept as soon as it is done, and a second call goes on from there."""

import base64
import hashlib
import io
import math
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from featureprism._files import as_json, packed, prepare_folder, unpacked, write_whole
from featureprism._progress import Progress, part
from featureprism.audit.advice import YOURS, Contender, Decision, decide, recommendation
from featureprism.audit.given import read_head
from featureprism.audit.read import Embeddings, read_embeddings
from featureprism.audit.stages import clusters, features, geometry
from featureprism.audit.watch import Show, StageProgress, noted
from featureprism.brackets import RadiusBracket
from featureprism.heads import GaussianHead
from featureprism.heads.subclasses import Subclasses
from featureprism.lab.context import Context
from featureprism.lab.engine import UnitEnded, unit_events
from featureprism.lab.executors import Local, Serial
from featureprism.lab.experiment import fields_of
from featureprism.lab.heads.compare import Candidate, Plan, Task, candidates, drawn, fitted, is_ours
from featureprism.lab.heads.mixture import mixture_distance
from featureprism.lab.rows import Row
from featureprism.lab.store import Store
from featureprism.lab.unit import Unit
from featureprism.lab.work import DONE
from featureprism.verify import Budget

GEOMETRY = "geometry"
ATTACKS = (0.05, 0.1)  # radii of adversarial training, in units of the spread of all points
LOOKS = (50, 100, 200, 400)  # test points after which a decision is looked for, unless a number is given
WIDTH, EPOCHS, KERNEL_POINTS = 100, 6, 2_000
SEEN = ("training", "all", "none")  # rows of the file that your head was trained on
COSTS = {GEOMETRY: 0.1, "ReLU": 2.5}  # of stages, where a pReLU head is 1
CHEAP = 0.3  # of heads that are not ours


@dataclass(frozen=True)
class AuditInput:
    """What is audited; `seen` are the rows that the head was trained on, None where nobody said."""

    embeddings: Path
    head: Path | None
    normalise: str | None
    seen: str | None


@dataclass(frozen=True)
class Stage:
    """One stage of an audit: what it looks at, which of the drawn test points, and a hash of the data, the head and the options."""

    name: str
    problem: str
    first: int = 0
    last: int = 0


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
    num_points: int | None = None,
    seen: str | None = None,
    workers: int = 1,
    show: Show = lambda _share, _words: None,
) -> list[Row]:
    """Compare the head of an embedding with robust heads and baselines, and recommend one.

    Writes heads/*.npz, witnesses/*.npz, audit.json and, where a saved head is better than the one in use, head.npz to `out`.

    Parameters
    ----------
    embeddings : path
        An .npz file with embeddings and labels.
    head : path, optional
        The head in use, as an .npz file.
    out : path
        Folder for heads, perturbations and audit.json.
    normalise : str, optional
        How to scale the embeddings first.
    num_points : int, optional
        Test points of every head; by default points are added, for the heads that may still win, until the decision
        is significant (50, 100, 200, 400).
    seen : str, optional
        Which rows the head was trained on, where that is known.
    workers : int
        Processes.
    show : callable, optional
        Called with the share that is done and words about it.

    Returns
    -------
    list of dict
        Rows of all stages: geometry, the head as it is, every remedy and baseline, the recommendation.
    """
    if seen not in (None, *SEEN):
        raise ValueError(f"seen must be one of {', '.join(SEEN)}, got {seen!r}.")
    if num_points is not None and num_points < 1:
        raise ValueError(f"num_points must be at least 1, got {num_points}.")
    question = AuditInput(embeddings, head, normalise, seen)
    digest = _digest(question)
    problem = problem_of(question, digest)
    prepare_folder(out)
    names = [
        *([] if head is None else [YOURS]),
        *(c.name for c in candidates(problem.plan, problem.data.task, 0)),
    ]
    looks = _looks(num_points, len(problem.data.task.x_test))
    rows, decision = _race(question, digest, names, looks, out, workers, show)
    decision = replace(decision, points_wanted=LOOKS[-1] if num_points is None else 0)
    _write_files(rows, out)
    contenders = {c.name: c for c in contenders_of(rows)}
    rows = [
        {**row, **contenders[row["head"]].as_row()} if row["kind"] == "head" else row
        for row in rows
        if row["kind"] not in ("file", "points")
    ]
    rows.append(recommendation(decision))
    best, saved = rows[-1]["saved"], out / "head.npz"
    if best is not None:
        shutil.copy(out / "heads" / f"{slug(best)}.npz", saved)
    else:
        saved.unlink(missing_ok=True)
    write_whole(out / "audit.json", as_json(rows, indent=1))
    return rows


def _looks(num_points: int | None, available: int) -> list[int]:
    """Numbers of points after which a decision is looked for."""
    wanted = LOOKS if num_points is None else (num_points,)
    return sorted({min(n, available) for n in wanted})


def _race(
    question: AuditInput,
    digest: str,
    names: Sequence[str],
    looks: Sequence[int],
    out: Path,
    workers: int,
    show: Show,
) -> tuple[list[Row], Decision]:
    """Rows of all looks, and the decision after the last; heads that cannot win any more get no more points."""
    rows: list[Row] = []
    stages, first = [Stage(GEOMETRY, digest)], 0
    for last in looks:
        stages += [Stage(name, digest, first, last) for name in names]
        with tempfile.TemporaryDirectory() as notes:
            rows += _all_rows(question, digest, stages, out, Path(notes), workers, show)
        decision = decide(contenders_of(rows), len(looks))
        if decision.is_settled:
            break
        left = {c.name for c in (decision.now, decision.leader, *decision.ties)}
        names, stages, first = [name for name in names if name in left], [], last
    return rows, decide(contenders_of(rows), len(looks))


def contenders_of(rows: Sequence[Row]) -> list[Contender]:
    """The heads as the rows have them so far, radii of all looks joined."""
    found = []
    for row in (row for row in rows if row["kind"] == "head"):
        parts = [r for r in rows if r["kind"] == "points" and r["head"] == row["head"]]
        certified, attacked = (
            np.concatenate([unpacked(r[side]) for r in parts]) for side in ("certified", "attacked")
        )
        right = unpacked(parts[0]["right"]).astype(bool)
        found.append(Contender(row["head"], row["family"], right, certified, attacked, row["is_saved"]))
    return found


def _write_files(rows: Sequence[Row], out: Path) -> None:
    """The heads, and the witnesses of all looks of a head as one file."""
    contents: dict[str, list[bytes]] = {}
    for row in (row for row in rows if row["kind"] == "file"):
        contents.setdefault(row["path"], []).append(base64.b64decode(row["content"]))
    for path, parts in contents.items():
        (out / path).parent.mkdir(exist_ok=True)
        write_whole(out / path, parts[0] if len(parts) == 1 else _joined(parts))


def _joined(parts: Sequence[bytes]) -> bytes:
    """Archives of arrays with a row for each point as one; "universal" is that of the first."""
    loaded = [dict(np.load(io.BytesIO(part))) for part in parts]
    arrays = {
        name: array if name == "universal" else np.concatenate([each[name] for each in loaded])
        for name, array in loaded[0].items()
    }
    return _archive(arrays)


def _archive(arrays: dict[str, np.ndarray]) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]
    return content.getvalue()


def _all_rows(
    question: AuditInput,
    digest: str,
    stages: Sequence[Stage],
    out: Path,
    notes: Path,
    workers: int,
    show: Show,
) -> list[Row]:
    """The rows of every stage, from the store where they are there already."""
    measure = partial(_measured, question, digest, notes)
    units = [Unit("audit", measure, stage, 0, fields_of(stage)) for stage in stages]
    watch = StageProgress({stage.name: _cost(stage.name) for stage in stages}, partial(_note, notes), show)
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
def problem_of(question: AuditInput, _digest: str) -> Problem:
    """The data and the head, read once in every process that asks."""
    data = read_embeddings(question.embeddings, question.normalise)
    head = None if question.head is None else read_head(question.head, data)
    x = data.task.x
    spread = float(np.sqrt(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()))
    radii = tuple(float(f"{share * spread:.2g}") for share in ATTACKS)
    plan = Plan(WIDTH, None, radii, EPOCHS, KERNEL_POINTS, LOOKS[-1])
    seen = question.seen or ("training" if data.has_split else None)
    return Problem(data, head, seen, plan, clusters(data.task))


@cache
def _trained(question: AuditInput, digest: str, name: str, seed: int) -> tuple[Candidate, Any, float]:
    """A candidate, trained once in every process that asks, and the CPU seconds that it took."""
    problem = problem_of(question, digest)
    candidate = next(c for c in candidates(problem.plan, problem.data.task, seed) if c.name == name)
    return candidate, *fitted(candidate, problem.data.task)


def _measured(
    question: AuditInput, digest: str, notes: Path, stage: Stage, seed: int, context: Context
) -> list[Row]:
    """The rows of one stage."""
    progress = noted(_note(notes, stage.name), context.progress)
    progress(0.0)
    problem = problem_of(question, digest)
    if stage.name == GEOMETRY:
        return geometry(problem.data.task, problem.clusters)
    if stage.name == YOURS:
        row = {"kind": "head", "head": YOURS, "family": "yours", "seen": problem.seen, "is_saved": False}
        return _looked_at(problem, problem.head, row, stage, seed, progress)
    candidate, head, seconds = _trained(question, digest, stage.name, seed)
    progress(0.5)
    row = {"kind": "head", "head": candidate.name, "family": candidate.family, "is_saved": is_ours(head)}
    row |= {"train_seconds": round(seconds, 2)}
    return _looked_at(problem, head, row, stage, seed, part(progress, 0.5, 1.0))


def _looked_at(
    problem: Problem, head: Any, row: Row, stage: Stage, seed: int, progress: Progress
) -> list[Row]:
    """Radii and witnesses of some test points; at the first look also what the head is and looks at."""
    task, name = problem.data.task, row["head"]
    x, y = (part_[stage.first :] for part_ in drawn(task, stage.last, seed))
    is_network = row["is_saved"] or name == YOURS
    more = {"budget": Budget(branches=1)} if is_network else {}
    bracket = head.robust_radius(x, y, progress=part(progress, 0.0, 0.9), **more)
    right = np.asarray(head.predict(task.x_test) == task.y_test, dtype=np.float64)
    sides = {"certified": packed(bracket.certified), "attacked": packed(bracket.attacked)}
    rows: list[Row] = [{"kind": "points", "head": name, "right": packed(right), **sides}]
    universal, direction = {"universal_norm": math.nan}, None
    if stage.first == 0:
        universal, direction = features(head, task, problem.clusters, bracket, (x, y))
        rows.append({**universal, "head": name})
        rows = [row, *rows, *_mixture(head, name, task, bracket.half_radius[0])]
        rows += _saved(head, name, problem.data.classes) if row["is_saved"] else []
    norm = universal["universal_norm"]
    return [*rows, *_witnesses(problem, name, bracket, stage, seed, norm, direction)]


def _saved(head: Any, name: str, classes: np.ndarray) -> list[Row]:
    """The file of a head, which speaks the user's labels."""
    named, head.classes_ = head.classes_, classes
    with tempfile.TemporaryDirectory() as folder:
        head.save(Path(folder) / "head.npz")
        content = (Path(folder) / "head.npz").read_bytes()
    head.classes_ = named
    return [_file(f"heads/{slug(name)}.npz", content)]


def _mixture(head: Any, name: str, task: Task, radius: float) -> list[Row]:
    """How far the test points are from the mixture that a Gaussian head believes in."""
    if not isinstance(head, GaussianHead):
        return []
    return [mixture_distance(head, task.x_test, task.y_test, radius=radius).as_row() | {"head": name}]


def _witnesses(
    problem: Problem,
    name: str,
    bracket: RadiusBracket,
    stage: Stage,
    seed: int,
    norm: float,
    direction: Tensor | None,
) -> list[Row]:
    """x, y, the perturbation and both radii of every point that was bracketed, its row in the file; the universal vector."""
    data = problem.data
    if bracket.witness is None:
        return []
    task = data.task._replace(x_test=data.test_rows[:, None], y_test=data.task.y_test)
    (index, _), (x, y) = drawn(task, stage.last, seed), drawn(data.task, stage.last, seed)
    index, x, y = (part_[stage.first :] for part_ in (index, x, y))
    names = data.classes[(y > 0).astype(int) if len(data.classes) == 2 else y]
    arrays = {"row": index[:, 0], "x": x, "y": names, "delta": bracket.witness}
    arrays |= {"certified": bracket.certified, "attacked": bracket.attacked}
    if (
        direction is not None
    ):  # fools half: two classes x - s·universal, s = ±1 for the second and the first; more x + universal
        arrays["universal"] = norm * direction.numpy()
    return [_file(f"witnesses/{slug(name)}.npz", _archive(arrays))]


def _file(path: str, content: bytes) -> Row:
    return {"kind": "file", "path": path, "content": base64.b64encode(content).decode()}


def slug(name: str) -> str:
    """A name as part of a path."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _digest(question: AuditInput) -> str:
    """A hash of the files and the options."""
    digest = hashlib.sha256(f"{question.normalise, question.seen}".encode())
    for path in (question.embeddings, question.head):
        digest.update(b"" if path is None else _content(path))
    return digest.hexdigest()[:16]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror or error}.") from error
