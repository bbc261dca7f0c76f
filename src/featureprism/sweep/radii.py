"""Brackets for many points of one network, kept batch by batch so that a stopped run goes on where it was."""

import csv
import hashlib
from dataclasses import dataclass
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from featureprism.certificates import INTERRUPTED, robust_radius
from featureprism.certificates.bracket import check_request
from featureprism.context import Context
from featureprism.experiment import Rows, fields_of
from featureprism.files import packed, prepare_folder, unpacked, write_whole
from featureprism.networks import TwoLayerNet
from featureprism.records import RadiusBracket, Row, check_points
from featureprism.sweep.engine import Rules, Track, run_units
from featureprism.sweep.executors import Executor, Serial
from featureprism.sweep.store import Store
from featureprism.sweep.unit import Unit

BATCH = 32  # points bracketed between two writes
COLUMNS = ("index", "certified", "attacked", "method", "seconds")


@dataclass(frozen=True)
class Request:
    """What is asked of every bracket; see `robust_radius`."""

    norm: float = 2
    gap: float = 0.01
    seconds_per_point: float = 1.0

    def __post_init__(self) -> None:
        check_request(self.norm, self.gap, self.seconds_per_point)


@dataclass(frozen=True)
class Batch:
    """Some points of a file: the hash of network and points, the first and how many, and what is asked."""

    problem: str
    first: int
    size: int
    norm: float
    gap: float
    seconds_per_point: float


def bracket_points(
    net: TwoLayerNet,
    x: Tensor,
    y: Tensor,
    request: Request,
    out: Path,
    *,
    executor: Executor | None = None,
    track: Track | None = None,
) -> RadiusBracket:
    """Bracket every point and leave brackets.csv and witnesses.npz in `out`; what the folder knows already is not done again."""
    check_points(x, y, at_least=1)
    prepare_folder(out)
    problem, measure = _digest(net, x, y), partial(_measured, net, x, y)
    batches = [
        Batch(
            problem, first, min(BATCH, len(x) - first), request.norm, request.gap, request.seconds_per_point
        )
        for first in range(0, len(x), BATCH)
    ]
    units = [Unit("radius", measure, batch, 0, fields_of(batch)) for batch in batches]
    failed: list[str] = []
    with Store(out, write=True) as store:
        run_units(
            store,
            units,
            executor or Serial(),
            rules=Rules(),
            track=track,
            hear=lambda _unit, outcome: failed.append(outcome.message) if outcome.message else None,
        )
        rows = Rows.gather(store.rows_of(units))
    if failed:
        raise ValueError(f"{len(failed)} of {len(units)} batches failed: {failed[0]}")
    bracket = _bracket(rows)
    _write(out, rows, bracket)
    return bracket


def _measured(
    net: TwoLayerNet, x: Tensor, y: Tensor, batch: Batch, _seed: int, context: Context
) -> list[Row]:
    """One row for each point of a batch."""
    part = slice(batch.first, batch.first + batch.size)
    bracket = robust_radius(
        net,
        x[part],
        y[part],
        norm=batch.norm,
        gap=batch.gap,
        seconds_per_point=batch.seconds_per_point,
        progress=context.progress,
    )
    if INTERRUPTED in bracket.method:
        raise KeyboardInterrupt
    assert bracket.witness is not None
    return [
        {
            "kind": "bracket",
            "index": batch.first + i,
            "certified": float(bracket.certified[i]),
            "attacked": float(bracket.attacked[i]),
            "method": bracket.method[i],
            "seconds": bracket.seconds,
            "zero_gradient_share": bracket.zero_gradient_share,
            "blind_share": bracket.blind_share,
            "witness": packed(bracket.witness[i].numpy()),
        }
        for i in range(batch.size)
    ]


def _bracket(rows: Rows) -> RadiusBracket:
    """The rows of all batches as one bracket."""
    certified, attacked = (torch.from_numpy(rows.column(side)) for side in ("certified", "attacked"))
    shares = (float(rows.column(name).mean()) for name in ("zero_gradient_share", "blind_share", "seconds"))
    witness = torch.from_numpy(np.stack([unpacked(row["witness"]) for row in rows]))
    return RadiusBracket(certified, attacked, tuple(row["method"] for row in rows), witness, (), *shares)


def _digest(net: TwoLayerNet, x: Tensor, y: Tensor) -> str:
    """A hash of network and points."""
    digest = hashlib.sha256(f"{net.activation}".encode())
    for tensor in (*net.parameters(), x, y):
        digest.update(tensor.detach().numpy().tobytes())
    return digest.hexdigest()[:16]


def _write(out: Path, rows: Rows, bracket: RadiusBracket) -> None:
    """For people and programs."""
    table, witnesses = StringIO(), BytesIO()
    csv.writer(table, lineterminator="\n").writerows([COLUMNS, *([row[c] for c in COLUMNS] for row in rows)])
    assert bracket.witness is not None
    np.savez(witnesses, delta=bracket.witness.numpy())
    write_whole(out / "brackets.csv", table.getvalue())
    write_whole(out / "witnesses.npz", witnesses.getvalue())
