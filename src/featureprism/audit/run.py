"""An audit, stage by stage: every stage is a unit that is kept as soon as it is done, and a second call goes on from there."""

import base64
import hashlib
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from featureprism.audit.read import Embeddings, read_embeddings
from featureprism.audit.stages import GivenHead, clusters, features, geometry
from featureprism.context import Context
from featureprism.experiment import fields_of
from featureprism.files import as_json, prepare_folder, read_arrays, write_whole
from featureprism.heads import load_head
from featureprism.heads.compare import Plan, best_within, candidates, drawn, measured, told
from featureprism.heads.estimators import Head
from featureprism.heads.subclasses import Subclasses
from featureprism.networks import load_net
from featureprism.records import Row
from featureprism.sweep.engine import Track, run_units
from featureprism.sweep.executors import Serial
from featureprism.sweep.store import Store
from featureprism.sweep.unit import Unit

GEOMETRY, YOURS = "geometry", "your head"
ALLOWED = 0.01  # loss of validation accuracy that a recommended head may have
ATTACKS = (0.05, 0.1)  # radii of adversarial training, in units of the spread of all points
WIDTH, EPOCHS, KERNEL_POINTS = 100, 6, 2_000


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
    plan: Plan
    clusters: Subclasses


def audit(
    embeddings: Path,
    head: Path | None,
    out: Path,
    *,
    normalise: str | None = None,
    num_points: int = 100,
    track: Track | None = None,
) -> list[Row]:
    """Rows of all stages: geometry, the head as it is, every remedy and baseline, the recommendation.

    Leaves heads/*.npz, audit.json and the recommended head.npz in `out`.
    """
    data = read_embeddings(embeddings, normalise)
    problem = _problem(data, None if head is None else read_head(head, data), num_points)
    prepare_folder(out)
    digest = _digest(embeddings, head, normalise, num_points)
    names = [
        GEOMETRY,
        *([] if head is None else [YOURS]),
        *(c.name for c in candidates(problem.plan, data.task, 0)),
    ]
    stages, measure = [Stage(name, digest) for name in names], partial(_measured, problem)
    units = [Unit("audit", measure, stage, 0, fields_of(stage)) for stage in stages]
    failed: list[str] = []
    with Store(out, write=True) as store:
        run_units(
            store,
            units,
            Serial(),
            track=track,
            hear=lambda unit, end: (
                failed.append(f"{unit.setting.name}: {end.message}") if end.message else None
            ),
        )
        rows = list(store.rows_of(units))
    if failed:
        raise ValueError(f"{len(failed)} of {len(units)} stages failed; the first is {failed[0]}.")
    for row in (row for row in rows if row["kind"] == "file"):
        write_whole(_head_path(out, row["head"]), base64.b64decode(row["content"]))
    rows = [row for row in rows if row["kind"] != "file"]
    rows.append(recommendation(rows))
    if rows[-1]["head"] != YOURS:
        shutil.copy(_head_path(out, rows[-1]["head"]), out / "head.npz")
    write_whole(out / "audit.json", as_json(rows, indent=1))
    return rows


def _problem(data: Embeddings, head: Any, num_points: int) -> Problem:
    x = data.task.x
    spread = float(np.sqrt(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()))
    radii = tuple(float(f"{share * spread:.2g}") for share in ATTACKS)
    plan = Plan(WIDTH, None, radii, EPOCHS, KERNEL_POINTS, num_points)
    return Problem(data, head, plan, clusters(data.task))


def _measured(problem: Problem, stage: Stage, seed: int, _context: Context) -> list[Row]:
    """The rows of one stage."""
    if stage.name == GEOMETRY:
        return geometry(problem.data.task, problem.clusters)
    return _your_head(problem, seed) if stage.name == YOURS else _candidate(problem, stage.name, seed)


def _candidate(problem: Problem, name: str, seed: int) -> list[Row]:
    """A head trained and looked at, and its file."""
    task, plan = problem.data.task, problem.plan
    candidate = next(c for c in candidates(plan, task, seed) if c.name == name)
    result = measured(candidate, task, plan, seed)
    if not isinstance(result.head, Head):
        return [result.row]
    seen = features(result.head, task, problem.clusters, result.bracket, drawn(task, plan.test_points, seed))
    result.head.classes_ = problem.data.classes  # from here on it speaks the user's labels
    with tempfile.TemporaryDirectory() as folder:
        result.head.save(Path(folder) / "head.npz")
        content = base64.b64encode((Path(folder) / "head.npz").read_bytes()).decode()
    return [result.row, {**seen, "head": name}, {"kind": "file", "head": name, "content": content}]


def _your_head(problem: Problem, seed: int) -> list[Row]:
    """The head that was brought, looked at in the same way."""
    head, task, points = (
        problem.head,
        problem.data.task,
        drawn(problem.data.task, problem.plan.test_points, seed),
    )
    bracket = head.robust_radius(*points)
    row = {
        "kind": "head",
        "head": YOURS,
        "family": "yours",
        "held_accuracy": float((head.predict(task.x_held) == task.y_held).mean()),
        "held_points": len(task.x_held),
    }
    seen = features(head, task, problem.clusters, bracket, points)
    return [{**row, **told(head, task, bracket)}, {**seen, "head": YOURS}]


def read_head(path: Path, data: Embeddings) -> Any:
    """A saved head, or a two-layer network of two classes (its sign +1 is the second class)."""
    dim = data.task.x.shape[1]
    if "owner" in read_arrays(path):
        head = load_head(path)
        if not np.array_equal(head.classes_, data.classes):
            raise ValueError(
                f"{path} knows the classes {head.classes_.tolist()}, the data has {data.classes.tolist()}."
            )
        head.classes_ = np.unique(data.task.y)
        found = head.n_features_in_
    else:
        if len(data.classes) != 2:
            raise ValueError(f"{path} is a network of two classes, the data has {len(data.classes)}.")
        head = GivenHead(load_net(path))
        found = head.net.W.shape[1]
    if found != dim:
        raise ValueError(f"{path} takes points of dimension {found}, the data has {dim}.")
    return head


def recommendation(rows: list[Row]) -> Row:
    """The head with the largest validation radius among those that lose at most 1 point to the head at hand, in two sentences."""
    heads = [row for row in rows if row["kind"] == "head"]
    now = next(
        (row for row in heads if row["family"] == "yours"), next(r for r in heads if r["family"] == "ReLU")
    )
    best = best_within(heads, now, ALLOWED)
    where = "Radii are distances between embeddings (median of test points); they promise nothing directly about images or texts."
    if best is None or best["attacked_radius"] <= now["attacked_radius"]:
        text = f"Keep {now['head']}: no head within 1 point of its accuracy ({now['accuracy']:.1%}) holds further. {where}"
        return {"kind": "recommendation", "head": now["head"], "text": text}
    loss = 100 * (now["accuracy"] - best["accuracy"])
    text = (
        f"Take '{best['head']}', saved as head.npz: it {'loses' if loss > 0 else 'gains'} {abs(loss):.1f} points of accuracy "
        f"against {now['head']} and holds up to {best['attacked_radius']:.3g} instead of {now['attacked_radius']:.3g} "
        f"(proven: {best['certified_radius']:.3g} instead of {now['certified_radius']:.3g}). {where}"
    )
    return {"kind": "recommendation", "head": best["head"], "text": text}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _head_path(out: Path, name: str) -> Path:
    (out / "heads").mkdir(exist_ok=True)
    return out / "heads" / f"{_slug(name)}.npz"


def _digest(embeddings: Path, head: Path | None, *choices: Any) -> str:
    """A hash of the files and the options."""
    digest = hashlib.sha256(f"{choices}".encode())
    for path in (embeddings, head):
        digest.update(b"" if path is None else path.read_bytes())
    return digest.hexdigest()[:16]
