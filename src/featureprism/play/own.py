"""A person's own model and points: brackets as they close, the points nearest to breaking, and a card for every strong neuron."""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism._files import as_json
from featureprism._inputs import as_points
from featureprism._points import read_points
from featureprism._threads import one_thread_for_good
from featureprism.audit.anatomy import subject
from featureprism.audit.cards import cards_of
from featureprism.brackets import RadiusBracket
from featureprism.lab.rows import Row
from featureprism.models import Model, read_model
from featureprism.verify import Budget, Query
from featureprism.verify.driver import bracket_points

MOST_POINTS = 200  # that are bracketed
BATCH = 8  # between two answers
QUERY = Query(gap=0.02)
BUDGET = Budget(seconds=0.5 * BATCH)  # of each batch
CARDS = 12
MOST_PIXELS = 32  # along a side of a picture


@dataclass(frozen=True, eq=False)
class Own:
    """A model that was read, points as rows, and their classes as positions among the model's."""

    model: Model
    x: Float[Tensor, "n d"]
    own: Int[Tensor, " n"]

    @property
    def names(self) -> list[str]:
        """What the classes are called."""
        classes = self.model.classes
        return [str(c) for c in (range(self.model.num_classes) if classes is None else classes.tolist())]


def read_own(model: Path, data: Path) -> Own:
    """Both files through the safe loaders; whatever is wrong with them is one ValueError."""
    found = read_model(model)
    points, labels = read_points(data)
    if points.shape[1] != (dim := found.dim):
        raise ValueError(f"{data.name} has points of dimension {points.shape[1]}, the model takes {dim}.")
    return Own(found, as_points(points), found.indices(labels, len(points)))


def story(own: Own, budget: Budget = BUDGET) -> Iterator[Row]:
    """What was read, the cards, then brackets batch by batch."""
    yield {
        "kind": "opening",
        "points": len(own.x),
        "bracketed": min(len(own.x), MOST_POINTS),
        "dim": own.x.shape[1],
        "classes": own.names,
        "reason": own.model.reason,
    }
    yield {"kind": "cards", "cards": cards(own)}
    for first in range(0, min(len(own.x), MOST_POINTS), BATCH):
        part = slice(first, min(first + BATCH, MOST_POINTS))
        found = bracket_points(own.model, own.x[part], own.own[part], QUERY, budget)
        yield {"kind": "brackets", "rows": _rows(found, first, own.names)}
        if side := _side(own.x.shape[1]):
            yield {"kind": "pictures", "side": side, "pictures": _pictures(found, own.x[part], first)}


def _side(dim: int) -> int:
    """The side of a square picture with so many pixels; 0 where there is none that could be drawn."""
    side = math.isqrt(dim)
    return side if side * side == dim and 4 <= side <= MOST_PIXELS else 0


def _pictures(found: RadiusBracket, x: Float[Tensor, "n d"], first: int) -> list[Row]:
    """Points and the perturbations that flip them, as rows of pixels."""
    if found.witness is None:
        return []
    return [
        {
            "point": first + i,
            "x": torch.round(x[i], decimals=3).tolist(),
            "delta": np.round(found.witness[i], 3).tolist(),
        }
        for i in range(len(found))
        if 0 < found.attacked[i] < math.inf
    ]


def _rows(found: RadiusBracket, first: int, names: list[str]) -> list[Row]:
    assert found.label is not None
    assert found.predicted is not None
    assert found.target is not None
    return [
        {
            "point": first + i,
            "label": names[int(found.label[i])],
            "predicted": names[int(found.predicted[i])],
            "rival": names[int(found.target[i])],
            "certified": float(found.certified[i]),
            "attacked": float(found.attacked[i]),
            "method": found.method[i],
        }
        for i in range(len(found))
    ]


def cards(own: Own) -> list[Row]:
    """The cards of `explain` for the neurons or groups with the largest shares of the margin; none for models without one hidden layer.

    Each has the names of the sub-classes that its cosines are with: the class, and a number where a class has several.
    """
    positions, classes = own.own.numpy(), own.model.classes
    if len(own.own.unique()) < 2:
        return []
    of = subject(own.model, own.x, positions if classes is None else classes[positions])
    if of.neurons is None:
        return []
    parents = of.parent.tolist()
    names = [
        f"{own.names[c]}·{parents[:s].count(c) + 1}" if parents.count(c) > 1 else own.names[c]
        for s, c in enumerate(parents)
    ]
    return [card.as_row() | {"names": names} for card in cards_of(of, most=CARDS)]


def main(model: str, data: str) -> None:
    """Print the story of two files as lines of JSON; what is wrong is one last line, {"error": a sentence}."""
    one_thread_for_good()
    try:
        for row in story(read_own(Path(model), Path(data))):
            print(as_json(row), flush=True)
    except (ValueError, OSError, RuntimeError, ImportError, MemoryError) as error:
        print(as_json({"error": str(error) or type(error).__name__}))


if __name__ == "__main__":
    main(*sys.argv[1:])
