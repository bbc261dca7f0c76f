"""An audit, stage by stage: every stage is kept in the folder as soon as it is done, and a second call goes on from there."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from featureprism.audit.read import Embeddings, read_embeddings
from featureprism.audit.stages import GivenHead, clusters, features, geometry
from featureprism.heads import load_head
from featureprism.heads.compare import Candidate, Plan, best_within, candidates, drawn, measured, told
from featureprism.heads.estimators import Head
from featureprism.heads.subclasses import Subclasses
from featureprism.networks import load_net
from featureprism.records import Progress, RadiusBracket, Row
from featureprism.sweep.runner import prepare_folder, write_whole

YOURS = "your head"
ALLOWED = 0.01  # loss of validation accuracy that a recommended head may have
ATTACKS = (0.05, 0.1)  # radii of adversarial training, in units of the spread of all points
WIDTH, EPOCHS, KERNEL_POINTS = 100, 6, 2_000
Stage = Callable[[], list[Row]]


def audit(
    embeddings: Path,
    head: Path | None,
    out: Path,
    *,
    normalise: str | None = None,
    num_points: int = 100,
    track: Callable[[int, int, str], Progress] | None = None,
) -> list[Row]:
    """Rows of all stages: geometry, the head as it is, every remedy and baseline, the recommendation.

    Leaves stages/*.json, heads/*.npz, audit.json and the recommended head.npz in `out`; a folder of another audit is refused.
    """
    data = read_embeddings(embeddings, normalise)
    own = None if head is None else read_head(head, data)
    prepare_folder(out)
    _claim_folder(out, _key(embeddings, head, normalise, num_points))
    stages = _stages(data, own, out, num_points)
    rows = []
    for index, (name, work) in enumerate(stages):
        progress = track(index, len(stages), name) if track else lambda _done: None
        rows += _kept(out / "stages" / f"{_slug(name)}.json", work)
        progress(1.0)
    rows.append(recommendation(rows))
    if rows[-1]["head"] != YOURS:
        shutil.copy(_head_path(out, rows[-1]["head"]), out / "head.npz")
    write_whole(out / "audit.json", json.dumps(rows, indent=1))
    return rows


def _stages(data: Embeddings, own: Any, out: Path, num_points: int) -> list[tuple[str, Stage]]:
    """Every stage by its name, in order; `own` is the head at hand, or None."""
    spread, found = _clusters(data)
    radii = tuple(float(f"{r * spread:.2g}") for r in ATTACKS)
    look = _Look(data, found, Plan(WIDTH, None, radii, EPOCHS, KERNEL_POINTS, num_points), out)
    stages: list[tuple[str, Stage]] = [("geometry", lambda: geometry(data.task, found))]
    if own is not None:
        stages.append((YOURS, partial(look.at_own, own)))
    return stages + [(c.name, partial(look.at_candidate, c)) for c in candidates(look.plan, data.task, 0)]


@dataclass(frozen=True)
class _Look:
    """How a head is measured: on which data, with which clusters and how much effort, and where trained heads are kept."""

    data: Embeddings
    found: Subclasses
    plan: Plan
    out: Path

    def at_candidate(self, candidate: Candidate) -> list[Row]:
        """Train one head, measure it, and where it has neurons say what they see."""
        result = measured(candidate, self.data.task, self.plan, 0)
        if not isinstance(result.head, Head):
            return [result.row]
        result.head.classes_ = self.data.classes  # from here on it speaks the user's labels
        result.head.save(_head_path(self.out, candidate.name))
        return [result.row, self._features(result.head, candidate.name, result.bracket)]

    def at_own(self, head: Any) -> list[Row]:
        """The same of the head at hand."""
        task = self.data.task
        bracket = head.robust_radius(*drawn(task, self.plan.test_points, 0))
        row = {
            "kind": "head",
            "head": YOURS,
            "family": "yours",
            "held_accuracy": float((head.predict(task.x_held) == task.y_held).mean()),
            "held_points": len(task.x_held),
        }
        return [{**row, **told(head, task, bracket)}, self._features(head, YOURS, bracket)]

    def _features(self, head: Any, name: str, bracket: RadiusBracket) -> Row:
        points = drawn(self.data.task, self.plan.test_points, 0)
        return {**features(head, self.data.task, self.found, bracket, points), "head": name}


def read_head(path: Path, data: Embeddings) -> Any:
    """A saved head, or a two-layer network of two classes (its sign +1 is the second class)."""
    dim = data.task.x.shape[1]
    with np.load(path) as file:
        is_ours = "owner" in file.files
    if is_ours:
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


def _clusters(data: Embeddings) -> tuple[float, Subclasses]:
    x = data.task.x
    return float(np.sqrt(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean())), clusters(data.task)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _head_path(out: Path, name: str) -> Path:
    (out / "heads").mkdir(exist_ok=True)
    return out / "heads" / f"{_slug(name)}.npz"


def _key(embeddings: Path, head: Path | None, *choices: Any) -> str:
    """A hash of everything the audit depends on."""
    digest = hashlib.sha256(f"{version('featureprism')} {choices}".encode())
    for path in (embeddings, head):
        digest.update(b"" if path is None else path.read_bytes())
    return digest.hexdigest()[:16]


def _claim_folder(out: Path, key: str) -> None:
    path = out / "key.txt"
    if path.exists() and path.read_text() != key:
        raise ValueError(
            f"{out} holds an audit of other data, another head or other options. Choose another --out."
        )
    path.write_text(key)
    (out / "stages").mkdir(exist_ok=True)


def _kept(path: Path, work: Stage) -> list[Row]:
    """The rows of a stage: read if it was done before, else done and written in one motion."""
    if not path.exists():
        write_whole(path, json.dumps(work(), indent=1))
    return json.loads(path.read_text())
