"""Networks and properties that nobody here made: VNN-COMP 2021, SDP-CROWN, and the pReLU networks of Min & Vidal.

`python -m benchmarks outside` runs what is not in benchmarks/outside.jsonl yet and prints the tables; `--docs` writes them into
docs/bars.md. The files are looked for in the folder outside of FEATUREPRISM_DATA. Every answer is one line of the results, written at
once, so that a run that was stopped goes on from there. Seconds are CPU seconds of one thread.
"""

import csv
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

import featureprism as fp

RESULTS = Path(__file__).parent / "outside.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "bars.md"
BEGIN, END = "<!-- the tables begin -->", "<!-- the tables end -->"
SECONDS = 120.0  # of a property
OF_POINT = 30.0  # of a point of SDP-CROWN's networks
AT_ONCE = 5  # points of a call
MEAN, SCALE = np.array([125.3, 123.0, 113.9]) / 255, 0.225  # of SDP-CROWN's inputs
NAMES = {
    "mnist_mlp": "SDP-CROWN's MNIST MLP 784-100-100-10, ℓ2 1.0",
    "cifar10_convsmall": "SDP-CROWN's CIFAR-10 ConvSmall, ℓ2 24/255",
    "prelu p1": "Min & Vidal's MNIST network p = 1, 784-500-10, ℓ∞ 0.1 in [0, 1]",
}

Row = dict[str, Any]
Model = tuple[nn.Module, np.ndarray, np.ndarray]


def folder() -> Path:
    """Where the files are."""
    path = Path(os.environ.get("FEATUREPRISM_DATA", "data")) / "outside"
    if not path.is_dir():
        raise ValueError(
            f"{path} is missing; FEATUREPRISM_DATA must name a folder that has the folder outside."
        )
    return path


def tasks() -> Iterator[tuple[str, str, Callable[[], Row]]]:
    """(part, name, what to do), cheap parts first."""
    for row in _instances():
        yield row["benchmark"], f"{row['network']} {row['property']}", lambda row=row: _property(row)
    for part, (count, model, eps, norm, bounds) in POINTS.items():
        ends = [map(int, row["name"].split("-")) for row in results() if row["part"] == part]
        first = 1 + max((last for _, last in ends), default=-1)
        for start in range(first, count, AT_ONCE):
            index = range(start, min(count, start + AT_ONCE))
            yield part, f"{start}-{index[-1]}", lambda a=(index, model, eps, norm, bounds): _points(*a)


def run(parts: list[str]) -> None:
    """Do what is not done yet."""
    done = {(row["part"], row["name"]) for row in results()}
    for part, name, work in tasks():
        if (part, name) in done or (parts and part not in parts):
            continue
        began = time.process_time()
        row = {"part": part, "name": name} | work() | {"seconds": round(time.process_time() - began, 2)}
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


def results() -> list[Row]:
    """All rows so far."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def _instances() -> list[dict[str, str]]:
    with (folder() / "vnncomp" / "instances.csv").open() as file:
        return sorted(
            csv.DictReader(file), key=lambda row: (row["benchmark"], row["network"], row["property"])
        )


def _property(row: dict[str, str]) -> Row:
    here = folder() / "vnncomp" / row["benchmark"]
    model, prop = (
        path if (path := here / row[name]).exists() else here / f"{row[name]}.gz"
        for name in ("network", "property")
    )
    found = fp.verify_property(model, prop, budget=fp.Budget(seconds=SECONDS))
    return {
        "answer": found.answer,
        "competition": row["answer"],
        "tools": int(row["num_tools"]),
        "parts": found.num_leaves,
    }


def _points(index: range, model: Callable[[], Model], eps: float, norm: Any, bounds: Any) -> Row:
    """Some points in one call; `seconds` of the row are those of all of them."""
    net, x, y = model()
    at = list(index)
    bracket = fp.robust_radius(
        net, x[at], y[at], norm=norm, eps=eps, bounds=bounds, budget=fp.Budget(seconds=OF_POINT * len(at))
    )
    answers = np.where(
        bracket.attacked <= eps, "violated", np.where(bracket.certified >= eps, "holds", "unknown")
    )
    return {"answers": np.where(bracket.attacked == 0, "misclassified", answers).tolist()}


def mnist_mlp() -> Model:
    points = np.load(folder() / "sdp_crown" / "mnist_points.npz")
    net = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    return _loaded(net, "mnist_mlp"), points["x"].reshape(len(points["x"]), -1), points["y"]


def convsmall() -> Model:
    """Points that are classified correctly; inputs are divided by 0.225."""
    points = np.load(folder() / "sdp_crown" / "cifar_points.npz")
    convolutions = nn.Conv2d(3, 16, 4, 2), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU()
    net = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(1152, 100), nn.ReLU(), nn.Linear(100, 10))
    net = _loaded(net, "cifar10_convsmall")
    x = ((points["x"] - MEAN) / SCALE).transpose(0, 3, 1, 2)
    right = net(torch.from_numpy(x).float()).argmax(dim=1).numpy() == points["y"]
    return net, x[right], points["y"][right]


def _loaded(net: nn.Module, name: str) -> nn.Module:
    weights = np.load(folder() / "sdp_crown" / f"{name}.npz")
    arrays = [torch.from_numpy(weights[key]) for key in weights.files]
    net.load_state_dict(dict(zip(net.state_dict(), arrays, strict=True)))
    return net


def prelu() -> Model:
    """The p = 1 network of Min & Vidal, on the same MNIST points."""
    points = np.load(folder() / "sdp_crown" / "mnist_points.npz")
    w = np.load(folder() / "prelu_icml24" / "p1.npz")
    net = nn.Sequential(nn.Linear(784, len(w["W"])), nn.ReLU(), nn.Linear(len(w["W"]), 10)).double()
    arrays = (w["W"], -w["W"] @ w["center"].reshape(-1), w["V"], w["c"])
    values = [torch.from_numpy(np.asarray(v, dtype=float)) for v in arrays]
    net.load_state_dict(dict(zip(net.state_dict(), values, strict=True)))
    return net, points["x"].reshape(len(points["x"]), -1), points["y"]


POINTS = {  # how many points, the model, eps, norm, bounds
    "mnist_mlp": (200, mnist_mlp, 1.0, 2, None),
    "prelu p1": (20, prelu, 0.1, math.inf, (0.0, 1.0)),
    "cifar10_convsmall": (40, convsmall, 24 / 255 / SCALE, 2, None),
}
OF_POINTS = "| network, radius | correctly classified points | proven | flipped | open | CPU s a point |"
OF_PROPERTIES = (
    "| VNN-COMP 2021 | instances | holds | violated | unknown | decided, of those that a tool decided "
    "| contradictions | CPU s, median and largest |"
)


def tables() -> list[str]:
    """What was found, in Markdown."""
    rows = results()
    lines = [OF_PROPERTIES, "|---|---|---|---|---|---|---|---|"]
    for name, word in (
        ("acasxu, properties 1-4 of nine networks", "ACASXU"),
        ("mnistfc 256x2", "256x2"),
        ("mnistfc 256x4", "256x4"),
    ):
        found = [row for row in rows if "answer" in row and word in row["name"]]
        if found:
            known = [row for row in found if row["competition"] != "unknown"]
            decided = [row for row in known if row["answer"] != "unknown"]
            wrong = sum(row["answer"] != row["competition"] for row in decided)
            seconds = [row["seconds"] for row in found]
            cells = [name, len(found), *_counts([row["answer"] for row in found])]
            cells += [f"{len(decided)} of {len(known)}", wrong, f"{median(seconds):.1f}, {max(seconds):.0f}"]
            lines.append(_line(cells))
    lines += ["", OF_POINTS, "|---|---|---|---|---|---|"]
    for part, name in NAMES.items():
        found = [row for row in rows if row["part"] == part]
        answers = [word for row in found for word in row["answers"] if word != "misclassified"]
        if answers:
            seconds = sum(row["seconds"] for row in found) / sum(len(row["answers"]) for row in found)
            lines.append(_line([name, len(answers), *_counts(answers), f"{seconds:.1f}"]))
    hard = [row for row in rows if row.get("answer") == "unknown"]
    if hard:
        words = ", ".join(
            f"{row['name']} ({row['competition']} for {row['tools']} of 6 tools)" for row in hard
        )
        lines += [
            "",
            f"Unknown with {SECONDS:.0f} CPU seconds, a part of which is kept for checking: {words}.",
        ]
    return lines


def _counts(answers: list[str]) -> list[int]:
    return [answers.count(word) for word in ("holds", "violated", "unknown")]


def _line(cells: list[Any]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def write_page() -> None:
    """Put the tables into the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(tables()) + "\n" + END + rest.split(END)[1])


def lines(*, docs: bool = False) -> Iterator[str]:
    """Run what is missing, then yield the lines of the tables."""
    with torch.no_grad():
        run([])
    if docs:
        write_page()
    yield from tables()
