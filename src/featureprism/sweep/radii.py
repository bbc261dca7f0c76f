"""Brackets for many points of one model, kept batch by batch so that a stopped run goes on where it was."""

import base64
import csv
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.certificates import INTERRUPTED, bracket_classifier
from featureprism.certificates.bracket import check_radius, check_request
from featureprism.certificates.pairs import Effort
from featureprism.checker.certificate import Certificate
from featureprism.checker.proofs import Proof, as_arrays, from_arrays, save_proofs
from featureprism.files import packed, prepare_folder, unpacked, write_whole
from featureprism.lab import Rows, fields_of
from featureprism.lab.context import Context
from featureprism.lab.engine import UnitEnded, unit_events
from featureprism.lab.executors import Executor, Serial
from featureprism.lab.store import Store
from featureprism.lab.unit import Unit
from featureprism.networks.reading import Classifier, save_model
from featureprism.records import RadiusBracket, Row

BATCH = 32  # points bracketed between two writes
SHARES = ("zero_gradient_share", "blind_share", "seconds")


@dataclass(frozen=True)
class Request:
    """What is asked of every bracket; see `robust_radius`."""

    norm: float = 2
    gap: float = 0.01
    seconds_per_point: float = 1.0
    max_cells: int = 500
    domain: tuple[float, float] | None = None
    at: float | None = None

    def __post_init__(self) -> None:
        check_request(self.norm, self.gap, self.seconds_per_point)
        check_radius("at", self.at)


@dataclass(frozen=True)
class Batch(Request):
    """Some points of a file: the hash of model and points, the first and how many, and what is asked."""

    problem: str = ""
    first: int = 0
    size: int = 0


def bracket_points(
    model: Classifier,
    x: Tensor,
    own: Tensor,
    request: Request,
    out: Path,
    *,
    executor: Executor | None = None,
    show: Callable[[object], None] = lambda _event: None,
    context: Context = Context(),
) -> RadiusBracket:
    """Bracket every point and leave brackets.csv, witnesses.npz, proofs.npz and, where it has a plain form, model.npz in `out`.

    What the folder knows already is not done again.
    """
    prepare_folder(out)
    problem, measure = _digest(model, x, own), partial(_measured, model, x, own)
    asked = fields_of(request)
    firsts = range(0, len(x), BATCH)
    batches = [Batch(**asked, problem=problem, first=i, size=min(BATCH, len(x) - i)) for i in firsts]
    units = [Unit("radius", measure, batch, 0, fields_of(batch)) for batch in batches]
    failed: list[str] = []
    with Store(out, write=True) as store:
        for event in unit_events(store, units, executor or Serial(), context=context):
            show(event)
            if isinstance(event, UnitEnded) and event.ending.message:
                failed.append(event.ending.message)
        rows = Rows.gather(store.rows_of(units))
    if failed:
        raise ValueError(f"{len(failed)} of {len(units)} batches failed: {failed[0]}")
    bracket = _bracket(rows, own, model.classes)
    _write(out, rows, bracket)
    save_model(out / "model.npz", model)
    return bracket


def _measured(
    model: Classifier, x: Tensor, own: Tensor, batch: Batch, _seed: int, context: Context
) -> list[Row]:
    """One row for each point of a batch, and one with their proofs."""
    part = slice(batch.first, batch.first + batch.size)
    limits = {"domain": batch.domain, "at": batch.at}
    effort = Effort(batch.norm, batch.gap, batch.seconds_per_point, batch.max_cells, **limits)
    bracket = bracket_classifier(model, x[part], own[part], effort, targets=x, progress=context.progress)
    if INTERRUPTED in bracket.method:
        raise KeyboardInterrupt
    assert bracket.witness is not None
    assert bracket.predicted is not None
    assert bracket.rival is not None
    shares = {name: getattr(bracket, name) for name in SHARES}
    rows: list[Row] = [
        {
            "kind": "bracket",
            "index": batch.first + i,
            "predicted": int(bracket.predicted[i]),
            "rival": int(bracket.rival[i]),
            "certified": float(bracket.certified[i]),
            "attacked": float(bracket.attacked[i]),
            "method": bracket.method[i],
            "witness": packed(bracket.witness[i].numpy()),
            **shares,
        }
        for i in range(batch.size)
    ]
    return [*rows, {"kind": "proofs", "first": batch.first, "content": _as_text(bracket.proofs())}]


def _as_text(proofs: list[Proof]) -> str:
    """Proofs as text that a row can hold."""
    content = BytesIO()
    np.savez_compressed(content, **as_arrays(proofs))  # pyright: ignore[reportArgumentType]
    return base64.b64encode(content.getvalue()).decode()


def _from_text(text: str) -> list[Proof]:
    with np.load(BytesIO(base64.b64decode(text)), allow_pickle=False) as arrays:
        return from_arrays(dict(arrays))


def _bracket(rows: Rows, own: Tensor, classes: np.ndarray | None) -> RadiusBracket:
    """The rows of all batches as one bracket."""
    points = rows.of("bracket")
    certificates: list[dict[int, Certificate]] = [{} for _ in points]
    for row in rows.of("proofs"):
        for proof in _from_text(row["content"]):
            certificates[row["first"] + proof.point][proof.rival] = proof.certificate
    certified, attacked = (torch.from_numpy(points.column(side)) for side in ("certified", "attacked"))
    predicted, rival = (torch.tensor([row[name] for row in points]) for name in ("predicted", "rival"))
    witness = torch.from_numpy(np.stack([unpacked(row["witness"]) for row in points]))
    return RadiusBracket(
        certified,
        attacked,
        tuple(row["method"] for row in points),
        witness,
        tuple(certificates),
        *(float(points.column(name).mean()) for name in SHARES),
        label=own,
        predicted=predicted,
        rival=rival,
        classes=classes,
    )


def _digest(model: Classifier, x: Tensor, own: Tensor) -> str:
    """A hash of model and points."""
    words: Any = getattr(model.net, "activation", type(model.net).__name__)
    digest = hashlib.sha256(f"{words}".encode())
    for tensor in (*model.net.parameters(), *model.net.buffers(), x, own):
        digest.update(tensor.detach().numpy().tobytes())
    return digest.hexdigest()[:16]


def _write(out: Path, rows: Rows, bracket: RadiusBracket) -> None:
    """For people and programs."""
    table, witnesses, columns = StringIO(), BytesIO(), bracket.columns()
    columns["seconds"] = np.array([row["seconds"] for row in rows.of("bracket")])
    lines = zip(*(column.tolist() for column in columns.values()), strict=True)
    csv.writer(table, lineterminator="\n").writerows([list(columns), *lines])
    assert bracket.witness is not None
    np.savez(witnesses, delta=bracket.witness.numpy())
    write_whole(out / "brackets.csv", table.getvalue())
    write_whole(out / "witnesses.npz", witnesses.getvalue())
    save_proofs(out / "proofs.npz", bracket.proofs(), bracket.certified.numpy())
