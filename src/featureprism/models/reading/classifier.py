"""A model that was read: scores of points, and the labels they are for."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn

from featureprism.checker.proofs import Source
from featureprism.labels import class_positions


class NotANetwork(ValueError):  # noqa: N818
    """A model that computes something else than a network does; it can still be called."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """`net` gives points (n, d) scores (n, k) in float64; the largest wins. Or one output, whose sign decides between two classes.

    `classes` are the labels in the order of the scores, None where the model does not know them. `reason` says why the network could
    not be read as a chain of layers, so that only attacks can measure it; it is empty for a network that was read. `origin` says what
    the network was read from, and by whom.
    """

    net: nn.Module
    classes: np.ndarray | None = None
    reason: str = ""
    origin: Source = field(default_factory=Source)

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise ValueError(f"A classifier needs at least two classes, got {self.num_classes}.")
        if self.classes is None:
            return
        classes = self.classes
        if classes.ndim != 1 or len(classes) != self.num_classes:
            raise ValueError(
                f"The model has {self.num_classes} scores, classes name {classes.size} of shape {classes.shape}."
            )
        if len(set(classes.tolist())) < len(classes):
            raise ValueError(f"classes must name every class once, got {classes.tolist()[:20]}.")

    @property
    def num_classes(self) -> int:
        """k; a network with one output has two classes, told apart by its sign."""
        return int(getattr(self.net, "num_classes", 2))

    def indices(self, y: Any, num_points: int | None = None) -> Int64[Tensor, " n"]:
        """Labels as positions of the scores; refuses labels that the model does not have."""
        positions = class_positions(y, self.classes, self.num_classes)
        if num_points is not None and len(positions) != num_points:
            raise ValueError(f"Need one label per point: {num_points} points, {len(positions)} labels.")
        return torch.from_numpy(positions)
