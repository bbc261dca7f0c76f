"""A person's own model and points: brackets as they close, the points nearest to breaking, and a card for every strong neuron."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.certificates import bracket_classifier, opened
from featureprism.certificates.classes import Effort
from featureprism.geometry import row_norms, unit_rows
from featureprism.networks import ScoreNet, TwoLayerNet
from featureprism.networks.reading import Classifier, as_points, input_dim
from featureprism.points import read_points
from featureprism.records import RadiusBracket, Row

MOST_POINTS = 200  # that are bracketed
BATCH = 8  # between two answers
EFFORT = Effort(gap=0.02, seconds_per_point=0.5)
CARDS = 12


@dataclass(frozen=True, eq=False)
class Own:
    """A model that was read, points as rows, and their classes as positions among the model's."""

    model: Classifier
    x: Float[Tensor, "n d"]
    own: Int[Tensor, " n"]

    @property
    def names(self) -> list[str]:
        """What the classes are called."""
        classes = self.model.classes
        return [str(c) for c in (range(self.model.num_classes) if classes is None else classes.tolist())]


def read_own(model: Path, data: Path) -> Own:
    """Both files through the safe loaders; whatever is wrong with them is one ValueError."""
    found = opened(model)
    points, labels = read_points(data)
    if points.shape[1] != (dim := input_dim(found.net)):
        raise ValueError(f"{data.name} has points of dimension {points.shape[1]}, the model takes {dim}.")
    return Own(found, as_points(points), found.indices(labels, len(points)))


def story(own: Own, effort: Effort = EFFORT) -> Iterator[Row]:
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
        found = bracket_classifier(own.model, own.x[part], own.own[part], effort, targets=own.x)
        yield {"kind": "brackets", "rows": _rows(found, first, own.names)}


def _rows(found: RadiusBracket, first: int, names: list[str]) -> list[Row]:
    assert found.label is not None
    assert found.predicted is not None
    assert found.rival is not None
    return [
        {
            "point": first + i,
            "label": names[int(found.label[i])],
            "predicted": names[int(found.predicted[i])],
            "rival": names[int(found.rival[i])],
            "certified": float(found.certified[i]),
            "attacked": float(found.attacked[i]),
            "method": found.method[i],
        }
        for i in range(len(found))
    ]


@torch.no_grad()
def cards(own: Own) -> list[Row]:
    """The neurons that move the scores most: what they vote for, how often they fire, and which class they look at.

    Strength is ‖w_j‖ times the spread of its votes; empty for models without one hidden layer.
    """
    net: Any = own.model.net
    net = ScoreNet.of(net) if isinstance(net, TwoLayerNet) else net
    if not isinstance(net, ScoreNet):
        return []
    votes = net.V - net.V.mean(dim=1, keepdim=True)
    strength = row_norms(net.W) * row_norms(votes)
    z = own.x.to(net.W.dtype) @ net.W.T + net.b
    present = own.own.unique()
    means = torch.stack([own.x[own.own == c].mean(dim=0) for c in present]) - own.x.mean(dim=0)
    looks = unit_rows(net.W.double()) @ unit_rows(means).T
    fires = torch.stack([(z[own.own == c] > 0).double().mean(dim=0) for c in present], dim=1)
    return [
        {
            "neuron": j,
            "strength": float(strength[j]),
            "votes": [round(v, 4) for v in (votes[j] / votes[j].abs().max().clamp_min(1e-30)).tolist()],
            "classes": [own.names[int(c)] for c in present],
            "fires": [round(v, 3) for v in fires[j].tolist()],
            "looks": [round(v, 3) for v in looks[j].tolist()],
        }
        for j in strength.argsort(descending=True)[:CARDS].tolist()
    ]
