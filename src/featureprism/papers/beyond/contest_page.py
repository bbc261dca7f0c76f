"""The tables of the contest as a page of the documentation: who wins where, and by how much.

Written by `python -m featureprism.papers.beyond.contest_page RUNS > docs/contest.md`, RUNS the folder of a run.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from featureprism import __version__
from featureprism.lab import Rows
from featureprism.lab.verdict import mean_interval
from featureprism.papers.beyond.contest import CONTEST, FIELDS

SIZES = ("data", "classes", "train_points", "test_points")  # by which a scale is known

COLUMNS = (
    ("accuracy", 100, 1),
    ("certified_radius", 1, 3),
    ("attacked_radius", 1, 3),
    ("train_seconds", 1, 2),
)
INTRODUCTION = """\
# The contest

Eight kinds of heads on the same splits: logistic regression, a ReLU network, the same trained with noise and on attacks, 1-nearest
neighbour, PReLUHead, DecoupledHead and GaussianHead (one covariance, and one for each class). CIFAR-10 embeddings
(EfficientNet-Lite0 features, reduced by PCA and so centred; two classes are 0 to 4 against 5 to 9), MNIST pixels and the digits of
scikit-learn have rows of norm 1; the tables of scikit-learn are standardised.
This page is written by

    featureprism reproduce beyond/contest --scale {scale} --seeds {num} --seed {first} --out runs
    python -m featureprism.papers.beyond.contest_page runs

here with version {version} on seeds {seeds}. Every head but the neighbour comes
in two strengths of one knob of its own; the stronger one plays unless it costs more than a point of validation accuracy. All networks
have as many neurons for each class, gradient steps and points in a batch (`DecoupledHead`: one neuron for each sub-class that it
finds). A seed is a split; numbers are means over splits with 95 % intervals. Accuracies are those on up to 2000 test points. Radii are
medians over some of these, in the units of the data, misclassified points counting as 0: what is *proven* and what an attack reaches
(*attacked*). Fit is CPU time of the head that plays, in seconds.

Heads of CIFAR-10 train on 5000 embeddings at the scale `quick` and on 50 000 at `standard`. Ten classes alone are a sweep, at
`standard` two and a half CPU minutes a split: `featureprism sweep ten.toml --out ten --workers 1 --data FOLDER` (in one process it
shows its progress) with

```toml
item = "beyond/contest"
scale = "standard"
seeds = 1
[where]
data = "cifar10 embeddings"
classes = 10
```
"""
ORDER = (
    "Accurate heads are those within 2 points and a standard error of the best accuracy on validation points, split by split. The lead"
    " of our largest proven radius a over that of the others b is (a - b)/(a + b): -1 where none of ours is accurate enough, 1 where"
    " none of the others is. Heads are named with the number of splits in which they were first of their side: the best of four of ours"
    " and of five others by the radii of the test points themselves, so that both sides look a little better than one head would."
)


def contest_page(rows: Rows) -> str:
    """Who wins where in one table, then every number: one table for each data set and number of classes."""
    heads, fields = rows.of("head"), rows.of("ahead").groups("data", "classes")
    lines = [_introduction(heads), *_standings(fields), ORDER, ""]
    for (data, classes), splits in heads.groups("data", "classes").items():
        lines += [
            f"## {data}, {classes} classes",
            "",
            f"{splits.rows[0]['train_points']} points to train on, {splits.rows[0]['test_points']} test points with radii"
            f" (fewer where there are not as many), {len(splits.distinct('seed'))} splits. {_first(splits)}",
            "",
            "| head | accuracy, % | proven | attacked | fit, s |",
            "|---|---|---|---|---|",
        ]
        for name, part in splits.groups("head").items():
            lines.append(f"| {name} | {' | '.join(_cell(part, *column) for column in COLUMNS)} |")
        lines.append("")
    if missing := [f"{data} ({classes})" for data, classes in FIELDS if (data, classes) not in fields]:
        lines.append(f"Not measured: {', '.join(missing)}.")
    return "\n".join(lines).rstrip() + "\n"


def _introduction(heads: Rows) -> str:
    seeds = sorted(heads.distinct("seed"))
    listed = ", ".join(map(str, seeds))
    return INTRODUCTION.format(
        scale=_scale(heads), num=len(seeds), first=seeds[0], seeds=listed, version=__version__
    )


def _scale(heads: Rows) -> str:
    """The scale whose settings have the sizes of these rows."""
    sizes = tuple(heads.rows[0][name] for name in SIZES)
    known = {
        tuple(getattr(s, name) for name in SIZES): scale
        for scale, settings in CONTEST.scales.items()
        for s in settings
    }
    return known.get(sizes, "quick")


def _standings(fields: dict[tuple[str, int], Rows]) -> list[str]:
    lines = [
        "## Who wins where",
        "",
        "| data | classes | ours | others | lead, proven | attacked | largest proven radius |",
        "|---|---|---|---|---|---|---|",
    ]
    for (data, classes), splits in fields.items():
        ours, theirs = (_names(splits.distinct(side), splits, side) for side in ("ours", "theirs"))
        leads = [_cell(splits, f"{side}_lead", 1, 2) for side in ("proven", "attacked")]
        lines.append(f"| {data} | {classes} | {ours} | {theirs} | {' | '.join(leads)} | {_winner(splits)} |")
    return [*lines, ""]


def _names(names: list[str], splits: Rows, side: str) -> str:
    times = Counter(row[side] for row in splits)
    return ", ".join(f"{name} ({times[name]})" for name in sorted(names, key=lambda name: -times[name]))


def _winner(splits: Rows) -> str:
    """Which side the splits agree on."""
    low, high = mean_interval(splits.column("proven_lead"))
    return "ours" if low > 0 else "the others'" if high < 0 else "undecided"


def _first(splits: Rows) -> str:
    """Who is most accurate, and who holds farthest, whatever the accuracy."""
    best = {
        column: max(splits.groups("head").items(), key=lambda item: item[1].column(column).mean())[0]
        for column in ("accuracy", "certified_radius", "attacked_radius")
    }
    return (
        f"Most accurate: {best['accuracy']}. Largest radius, whatever the accuracy: {best['certified_radius']} (proven),"
        f" {best['attacked_radius']} (attacked)."
    )


def _cell(splits: Rows, column: str, scale: float, digits: int) -> str:
    """Mean ± half of the interval over splits; the mean alone of a single split."""
    values = scale * splits.column(column)
    mean = f"{np.mean(values):.{digits}f}"
    if len(values) < 2:
        return mean
    low, high = mean_interval(values)
    return f"{mean} ± {(high - low) / 2:.{digits}f}"


if __name__ == "__main__":
    lines = (Path(sys.argv[1]) / CONTEST.id / "rows.jsonl").read_text("utf-8").splitlines()
    print(contest_page(Rows.gather(map(json.loads, lines))), end="")
