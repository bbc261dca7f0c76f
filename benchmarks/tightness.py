"""How tight and how dear brackets are on networks people bring: gaps, shares that are verified, CPU seconds a point, and peers.

`python -m benchmarks tightness --points 8` prints a line for each network; `--docs` writes the table of docs/tightness.md again.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tight_networks import (
    Case,
    directions,
    head,
    mixture,
    mnist_layers,
    mnist_mlp,
    random_networks,
)
from benchmarks.tight_peers import autoattack_says, foolbox_says, lirpa_says
from benchmarks.timing import Ratio
from featureprism import Budget, RadiusBracket, __version__, robust_radius
from featureprism.commands.common import DATA
from featureprism.heads import DecoupledHead, PReLUHead
from featureprism.threads import one_thread

POWERS = (1.1, 1.5, 1.9, 2.0, 2.5, 3.0, 4.2, 6.0, 10.0)
SMALL = ((8, 4), (12, 8), (20, 10))  # neurons, dimensions
PAGE = Path(__file__).parents[1] / "docs" / "tightness.md"
MARKS = "<!-- the table begins -->\n", "<!-- the table ends -->\n"
NEARER = 0.998  # share of a witness below which brute force looks for a shorter one
RAYS, RADII = 4096, 100


@dataclass(frozen=True)
class Row:
    """A network, what is asked of it, and bounds: of the median gap, or of the verified share at one radius, and of seconds a point."""

    name: str
    make: Callable[[int], list[Case] | None]
    tight: float
    fast: float
    norm: float = 2
    branches: int = 60
    eps: float | None = None
    bounds: tuple[float, float] | None = None
    more: float = 1  # times as many points
    peers: bool = False


@dataclass(frozen=True)
class Measured:
    """What a row of the table says."""

    row: Row
    points: int
    gap: float
    worst: float
    verified: (
        float  # share of the points that the attack leaves standing at the radius, NaN where none is asked
    )
    standing: float
    seconds: float
    peers: tuple[str, ...]

    @property
    def value(self) -> float:
        """The number that history keeps."""
        return self.gap if self.row.eps is None else self.verified

    @property
    def good(self) -> bool:
        """Whether both bounds hold."""
        row = self.row
        return self.seconds <= row.fast and (
            self.gap <= row.tight if row.eps is None else self.verified >= row.tight
        )


TWO = (100, 100)
ROWS = (
    Row("MLP 784-100-10 on MNIST, ℓ2", mnist_mlp, 0.01, 0.25, peers=True),
    Row("MLP 784-100-10 on MNIST, ℓ2 in [0, 1]", mnist_mlp, 0.01, 1.0, bounds=(0.0, 1.0), peers=True),
    Row("MLP 784-100-10 on MNIST, ℓ∞", mnist_mlp, 0.03, 1.0, inf, 300, peers=True),
    Row(
        "784-1024-10 on MNIST, holds at ℓ2 0.3",
        partial(mnist_layers, (1024,)),
        0.85,
        3.0,
        eps=0.3,
        more=10,
        peers=True,
    ),
    Row("784-100-100-10 on MNIST, ℓ2", partial(mnist_layers, TWO), 0.25, 5.0, peers=True),
    Row("784-100-100-10 on MNIST, ℓ∞", partial(mnist_layers, TWO), 0.25, 5.0, inf, peers=True),
    Row(
        "784-100-100-10, holds at ℓ2 1 in [0, 1], where five steps of ascent do not flip",
        partial(mnist_layers, TWO, standing=1.0),
        0.6,
        10.0,
        eps=1.0,
        bounds=(0.0, 1.0),
        peers=True,
    ),
    Row(
        "784-100-100-10 trained against ℓ2 0.5, holds at 1 in [0, 1]",
        partial(mnist_layers, TWO, eps=0.5),
        0.6,
        10.0,
        eps=1.0,
        bounds=(0.0, 1.0),
        more=2.5,
    ),
    Row("784-100-100-100-10 on MNIST, ℓ2", partial(mnist_layers, (100, 100, 100)), 1.0, inf, more=0.15),
    Row("PReLUHead, ten classes, CIFAR-10 embeddings", partial(head, PReLUHead), 0.01, 1.0),
    Row("DecoupledHead, ten classes, CIFAR-10 embeddings", partial(head, DecoupledHead), 0.03, 1.0),
    Row("pReLU p = 3, width 200, D = 2000", mixture, 0.01, 0.25),
    *(
        Row(f"random networks, p = {p:g}", lambda n, p=p: random_networks(p, n, SMALL), 0.02, 0.5)
        for p in POWERS
    ),
)


@one_thread()
def _brackets(row: Row, cases: list[Case]) -> tuple[list[RadiusBracket], float]:
    """The brackets of a row, limited in branches alone, and their CPU seconds a point."""
    began = time.process_time()
    options: dict[str, Any] = {"budget": Budget(branches=row.branches)}
    asked = {"norm": row.norm, "eps": row.eps, "bounds": row.bounds}
    brackets = [
        model.robust_radius(x, y, **options)
        if isinstance(model, PReLUHead | DecoupledHead)
        else robust_radius(model, x, y, **asked, **options)
        for model, x, y in cases
    ]
    return brackets, (time.process_time() - began) / sum(len(b) for b in brackets)


def measured(row: Row, cases: list[Case]) -> Measured:
    """One row of the table."""
    brackets, seconds = _brackets(row, cases)
    attacked, certified = (
        np.concatenate([getattr(b, n) for b in brackets]) for n in ("attacked", "certified")
    )
    peers: tuple[str, ...] = ()
    if row.peers:
        (model, x, _), bracket = cases[0], brackets[0]
        said = (
            foolbox_says(model, x, bracket, row.norm, row.bounds) if row.eps is None else "",
            autoattack_says(model, x, bracket, row.norm, row.eps, row.bounds),
            lirpa_says(model, x, bracket, row.norm, row.eps),
        )
        peers = tuple(filter(None, said))
    if row.eps is not None:
        stands = attacked > row.eps
        share = float((certified[stands] >= row.eps).mean()) if stands.any() else nan
        return Measured(row, len(attacked), nan, nan, share, float(stands.mean()), seconds, peers)
    known = (attacked > 0) & np.isfinite(attacked)
    gap = 1 - certified[known] / attacked[known]
    return Measured(row, len(gap), float(np.median(gap)), float(gap.max()), nan, nan, seconds, peers)


def attack_in_few_dimensions(dim: int, num_points: int) -> tuple[float, int]:
    """Share of points of random ReLU networks where a dense fan finds no flip shorter than 99.8 % of the witness, and how many."""
    exact = total = 0
    for net, x, y in random_networks(1.0, num_points, ((6, dim), (12, dim), (20, dim))):
        bracket = robust_radius(net, x, y, budget=Budget(branches=0))
        fan = directions(dim, RAYS * (dim - 1))
        for point, label, radius in zip(x, y, bracket.attacked.tolist(), strict=True):
            if not isfinite(radius) or radius == 0:
                continue
            steps = NEARER * radius * torch.arange(1, RADII + 1).double() / RADII
            with torch.no_grad():
                shorter = any(bool((label * net(point + r * fan) <= 0).any()) for r in steps)
            exact, total = exact + (not shorter), total + 1
    return exact / max(1, total), total


def told(found: Measured) -> Ratio:
    """A line of the benchmark's output."""
    row = found.row
    if row.eps is None:
        what = f"median gap {found.gap:.2%} (at most {row.tight:.0%}), worst {found.worst:.1%}"
    else:
        what = (
            f"verified {found.verified:.0%} of the {found.standing:.0%} that stand (at least {row.tight:.0%})"
        )
    limits = f"(at most {row.fast:g}), {found.points} points, {row.branches} branches"
    peers = "".join(f"; {one}" for one in found.peers)
    return Ratio(
        f"{'ok  ' if found.good else 'MISS'} {row.name}: {what}, {found.seconds:.2f} CPU s a point {limits}{peers}",
        f"tightness: {row.name}",
        found.value,
    )


def ratios(points: int = 8, *, docs: bool = False) -> Iterator[str]:
    """One line for each row."""
    table, few = [], []
    for row in ROWS:
        cases = row.make(max(1, round(row.more * points)))
        if cases is None:
            yield f"     {row.name}: data not found; name its folder in {DATA}"
            continue
        table.append(measured(row, cases))
        if docs:
            _write(table, few)  # again after every row: an interrupt keeps what was measured
        yield told(table[-1])
    for dim in (2, 3):
        share, count = attack_in_few_dimensions(dim, 4 * points)
        few.append(
            f"- Random ReLU networks in {dim} dimensions: no shorter flip on {share:.1%} of {count} points."
        )
        mark = "ok  " if share >= 0.995 else "MISS"
        text = f"{mark} attack in {dim} dimensions: within 0.2 % on {share:.1%} of {count} points (at least 99.5 %)"
        yield Ratio(text, f"tightness: attack in {dim} dimensions", share)
    if docs:
        _write(table, few)
        yield f"     {PAGE.name} has the table"


def _write(table: list[Measured], few: list[str]) -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    lines = [
        "| network | points | branches | median gap | worst gap | verified of what stands | CPU s a point | peers |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for m in table:
        gaps = ("", "") if m.row.eps is not None else (f"{m.gap:.2%}", f"{m.worst:.1%}")
        share = "" if m.row.eps is None else f"{m.verified:.0%} (stand: {m.standing:.0%})"
        cells = [
            m.row.name,
            f"{m.points}",
            f"{m.row.branches}",
            *gaps,
            share,
            f"{m.seconds:.2f}",
            "; ".join(m.peers),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    others = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "scikit-learn"))
    about = f"Seeds from 0 on; featureprism {__version__}, {others}."
    text = "\n".join([*lines, "", *few, "", about, ""])
    PAGE.write_text(before + MARKS[0] + text + MARKS[1] + after, encoding="utf-8")
