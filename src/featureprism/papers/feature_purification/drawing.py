"""Small drawings that several items share; matplotlib is imported when something is drawn."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featureprism.lab import Rows

STAGES = {
    "clean": "clean training",
    "control": "as many extra clean steps",
    "adversarial": "adversarial training",
    "pure": "pure network",
}


def mean(rows: Rows, key: str) -> float:
    """Mean of a value over the rows that have it."""
    values = rows.column(key)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else math.nan


def bars(axes: Any, names: Sequence[str], groups: Mapping[str, Sequence[float]], xlabel: str) -> None:
    """Horizontal bars, one group of colours for each name, names on the left."""
    from featureprism.lab.style import COLOURS

    height = 0.8 / len(groups)
    for index, (label, values) in enumerate(groups.items()):
        axes.barh(
            [i + (index - (len(groups) - 1) / 2) * height for i in range(len(names))],
            list(values),
            height=height * 0.9,
            color=COLOURS[index],
            label=label if len(groups) > 1 else None,
        )
    axes.set_yticks(range(len(names)), list(names), fontsize=8)
    axes.set(xlabel=xlabel)
    axes.set_ylim(len(names) - 0.4, -0.6)
    if len(groups) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def stage_bars(rows: Rows, stages: Sequence[str], keys: Mapping[str, str], xlabel: str) -> Any:
    """One panel of bars: mean values of the networks of every stage, by the text that stands for a key."""
    from featureprism.lab.style import panels

    figure, (axes,) = panels(1, width=6.4, height=1.2 + 0.45 * len(stages))
    values = {
        text: [mean(rows.of("network", stage=stage), key) for stage in stages] for text, key in keys.items()
    }
    bars(axes, [STAGES.get(stage, stage) for stage in stages], values, xlabel)
    return figure
