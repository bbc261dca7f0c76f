"""Brackets for many points of one model, kept batch by batch so that a stopped run goes on where it was."""

import csv
import hashlib
from dataclasses import replace
from functools import cache
from io import BytesIO, StringIO
from math import inf
from pathlib import Path

import numpy as np
from torch import Tensor

from featureprism._environment import environment
from featureprism._files import csv_cell, prepare_folder, write_whole
from featureprism._progress import Progress, no_progress
from featureprism.brackets import RadiusBracket
from featureprism.models.model import Model
from featureprism.verify.api import statement_of
from featureprism.verify.driver import INTERRUPTED, bracket_points
from featureprism.verify.query import Budget, Query

BATCH = 32  # points bracketed between two writes
SHARDS = "batches"
CODE = (
    "*.py",
    "checker/**/*.py",
    "models/**/*.py",
    "attacks/**/*.py",
    "verify/**/*.py",
)  # what a bracket may depend on


def bracket_in_batches(
    model: Model,
    x: Tensor,
    label: Tensor,
    query: Query,
    budget: Budget,
    out: Path,
    *,
    progress: Progress = no_progress,
) -> RadiusBracket:
    """Bracket every point and leave brackets.csv, witnesses.npz, proofs.npz and, where it has a plain form, model.npz in `out`.

    Every batch is a proof file of its own in `out`/batches, named after model, points, query, budget and code: what is there is not
    done again. The seconds of the budget are shared by all points.
    """
    prepare_folder(out / SHARDS)
    parts: list[RadiusBracket] = []
    for first in range(0, len(x), BATCH):
        part = slice(first, first + BATCH)
        share = replace(budget, seconds=_share(budget.seconds, len(x[part]), len(x)))
        path = out / SHARDS / f"{first:07d}-{_key(model, x[part], label[part], query, share)}.npz"
        parts.append(_bracketed(model, x[part], label[part], query, share, path))
        progress(min(1.0, (first + BATCH) / len(x)))
    bracket = replace(RadiusBracket.joined(parts), statement=statement_of(model, x, label, query))
    write_bracket(out, bracket)
    model.save(out / "model.npz")
    return bracket


def _share(seconds: float, num: int, total: int) -> float:
    return inf if seconds == inf else seconds * num / total


def _bracketed(
    model: Model, x: Tensor, label: Tensor, query: Query, budget: Budget, path: Path
) -> RadiusBracket:
    if path.is_file():
        try:
            return replace(RadiusBracket.load(path), classes=model.classes)
        except ValueError:
            path.unlink()  # a damaged batch is computed again
    bracket = bracket_points(model, x, label, query, budget)
    if INTERRUPTED in bracket.method:
        raise KeyboardInterrupt
    replace(bracket, statement=statement_of(model, x, label, query)).save(path)
    return bracket


def _key(model: Model, x: Tensor, label: Tensor, query: Query, budget: Budget) -> str:
    """A hash of all that decides a batch, code, versions and kind of processor too.

    A network that can only be called counts with its file or all of its tensors.
    """
    plain = replace(query, bounds=None, weights=None)
    arrays = [*(query.bounds or ()), *([] if query.weights is None else [query.weights])]
    names = (_code(), environment(), model.sha256 or _identity(model), plain, budget)
    digest = hashlib.sha256(repr(names).encode())
    for array in arrays:
        digest.update(repr(np.asarray(array, dtype=np.float64).tolist()).encode())
    for tensor in (x, label):
        digest.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return digest.hexdigest()[:16]


@cache
def _code() -> str:
    """A hash of the files of the core."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(file for pattern in CODE for file in root.glob(pattern)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _identity(model: Model) -> str:
    if model.origin.source_sha256:
        return model.origin.source_sha256
    digest = hashlib.sha256(repr(model.net).encode())
    for tensor in (*model.net.parameters(), *model.net.buffers()):
        digest.update(tensor.detach().numpy().tobytes())
    return digest.hexdigest()


def write_bracket(out: Path, bracket: RadiusBracket) -> None:
    """brackets.csv, witnesses.npz and proofs.npz, for people and programs."""
    table, witnesses, columns = StringIO(), BytesIO(), bracket.columns()
    lines = zip(*(column.tolist() for column in columns.values()), strict=True)
    csv.writer(table, lineterminator="\n").writerows(
        [list(columns), *(map(csv_cell, line) for line in lines)]
    )
    assert bracket.witness is not None
    np.savez(witnesses, delta=bracket.witness)
    write_whole(out / "brackets.csv", table.getvalue())
    write_whole(out / "witnesses.npz", witnesses.getvalue())
    bracket.save(out / "proofs.npz")
