"""Brackets for many points of one network, kept batch by batch so that a stopped run goes on where it was."""

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from featureprism.certificates import INTERRUPTED, robust_radius
from featureprism.networks import TwoLayerNet
from featureprism.records import Progress, RadiusBracket
from featureprism.sweep.runner import prepare_folder

BATCH = 32  # points bracketed between two writes
COLUMNS = ("index", "certified", "attacked", "method", "seconds")
SHARES = ("zero_gradient_share", "blind_share")


@dataclass(frozen=True)
class Request:
    """What is asked of every bracket; see `robust_radius`."""

    norm: float = 2
    gap: float = 0.01
    seconds_per_point: float = 1.0


def bracket_points(
    net: TwoLayerNet,
    x: Tensor,
    y: Tensor,
    request: Request,
    out: Path,
    *,
    track: Callable[[int, int, str], Progress] | None = None,
) -> RadiusBracket:
    """Bracket every point and leave brackets.csv, witnesses.npz and radius.json in `out` after each batch.

    A folder of the same network, points and request is continued; one of another request is refused, so that nothing is lost.
    """
    prepare_folder(out)
    key = _key(net, x, y, request)
    rows, witnesses, shares = _resume(out, key)
    for first in range(len(rows), len(x), BATCH):
        part = slice(first, first + BATCH)
        closed = sum(row[1] >= (1 - request.gap) * row[2] for row in rows)
        tick = track(first, len(x), f"({closed} closed)") if track else lambda _done: None
        size = len(x[part])
        progress = partial(_scaled, tick, size)
        found = robust_radius(net, x[part], y[part], **asdict(request), progress=progress)
        if INTERRUPTED in found.method:
            raise KeyboardInterrupt
        sides = zip(found.certified.tolist(), found.attacked.tolist(), found.method, strict=True)
        rows += [[first + i, *side, found.seconds] for i, side in enumerate(sides)]
        assert found.witness is not None
        witnesses.append(found.witness.numpy())
        shares.append([getattr(found, name) * size for name in SHARES])
        _write(out, key, rows, witnesses, shares)
    certified, attacked = (torch.tensor([row[i] for row in rows], dtype=torch.float64) for i in (1, 2))
    zero, blind = (sum(share[i] for share in shares) / max(1, len(rows)) for i in (0, 1))
    method, witness = tuple(row[3] for row in rows), torch.as_tensor(np.concatenate(witnesses))
    seconds = sum(row[4] for row in rows) / max(1, len(rows))
    return RadiusBracket(certified, attacked, method, witness, (), zero, blind, seconds)


def _scaled(tick: Progress, size: int, done: float) -> None:
    tick(size * done)


def _key(net: TwoLayerNet, x: Tensor, y: Tensor, request: Request) -> str:
    """A hash of everything the brackets depend on."""
    digest = hashlib.sha256(f"{version('featureprism')} {request} {net.activation}".encode())
    for tensor in (*net.parameters(), x, y):
        digest.update(tensor.detach().numpy().tobytes())
    return digest.hexdigest()[:16]


def _resume(out: Path, key: str) -> tuple[list[list], list[np.ndarray], list[list[float]]]:
    """Rows, witnesses and shares of the batches already done."""
    if not (out / "radius.json").exists():
        return [], [], []
    about = json.loads((out / "radius.json").read_text())
    if about["key"] != key:
        raise ValueError(
            f"{out} holds brackets of another network, other points or another request. Choose another --out."
        )
    with (out / "brackets.csv").open(newline="") as file:
        table = list(csv.DictReader(file))[: about["points"]]
    rows = [
        [int(r["index"]), float(r["certified"]), float(r["attacked"]), r["method"], float(r["seconds"])]
        for r in table
    ]
    with np.load(out / "witnesses.npz") as file:
        return rows, [file["delta"][: len(rows)]], about["shares"]


def _write(
    out: Path, key: str, rows: list[list], witnesses: list[np.ndarray], shares: list[list[float]]
) -> None:
    """Replace each file in one motion; radius.json last, as it says how many points the others hold."""
    with (out / "brackets.csv.partial").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    with (out / "witnesses.npz.partial").open("wb") as file:
        np.savez(file, delta=np.concatenate(witnesses))
    (out / "radius.json.partial").write_text(json.dumps({"key": key, "points": len(rows), "shares": shares}))
    for name in ("brackets.csv", "witnesses.npz", "radius.json"):
        (out / f"{name}.partial").replace(out / name)
