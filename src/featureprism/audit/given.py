"""The head that someone brings, asked like ours."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism._progress import Progress, no_progress
from featureprism.audit.read import Embeddings
from featureprism.brackets import RadiusBracket
from featureprism.checker.arrays import read_arrays
from featureprism.heads import load_head
from featureprism.models import Model, read_model
from featureprism.models.scores import ScoreNet
from featureprism.networks import TwoLayerNet
from featureprism.verify import Budget, Query
from featureprism.verify.driver import bracket_points


class GivenHead:
    """Someone's network, with one output (two classes) or a score for each; labels are those of the task: ±1, or 0, 1, …

    `order[i]` is the position among the scores of the task's class i.
    """

    def __init__(self, model: Model, order: np.ndarray | None = None) -> None:
        self.model, self.net, self.num_classes = model, model.net, model.num_classes
        self.order = np.arange(self.num_classes) if order is None else order

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The label of every point."""
        with torch.no_grad():
            index = self.model.scores(torch.as_tensor(X).double()).argmax(dim=1)
        position = np.argsort(self.order)[index.numpy()]
        return 2 * position - 1 if self.num_classes == 2 else position

    def robust_radius(
        self, X: np.ndarray, y: np.ndarray, budget: Budget | None = None, progress: Progress = no_progress
    ) -> RadiusBracket:
        """The bracket of every point."""
        x, budget = torch.as_tensor(X).double(), budget or Budget(branches=1)
        return bracket_points(self.model, x, self.positions(y), Query(), budget, progress=progress)

    def positions(self, y: np.ndarray) -> Tensor:
        """Labels of the task as positions among the scores."""
        return torch.as_tensor(self.order[(y > 0).astype(int) if self.num_classes == 2 else y])

    def neurons(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """W, the strength and the class of each neuron; None where there is no single hidden layer."""
        if isinstance(self.net, TwoLayerNet):
            a = self.net.a.detach()
            return self.net.W.detach(), a.abs(), (a > 0).long()
        if not isinstance(self.net, ScoreNet):
            return None
        votes = self.net.V.detach()[:, torch.as_tensor(self.order)]
        strength, owner = (votes - votes.mean(dim=1, keepdim=True)).max(dim=1)
        return self.net.W.detach(), strength, owner


def read_head(path: Path, data: Embeddings) -> Any:
    """A saved head, or what `read_model` reads: an .onnx file or a network in an .npz file.

    A network with one output says the second class where it is positive; scores without names are in the order of the classes.
    """
    dim, names = data.task.x.shape[1], data.classes.tolist()
    if path.suffix.lower() == ".npz" and {"kind", "parameters"} <= read_arrays(path).keys():
        head = load_head(path)
        if not np.array_equal(head.classes_, data.classes):
            raise ValueError(f"{path} knows the classes {head.classes_.tolist()}, the data has {names}.")
        head.classes_ = np.unique(data.task.y)
        dimension = head.n_features_in_
    else:
        model = read_model(path)
        if model.num_classes != len(names):
            kind = "two classes" if model.num_classes == 2 else f"{model.num_classes} classes"
            raise ValueError(f"{path} is a network of {kind}, the data has {len(names)}.")
        head, dimension = GivenHead(model, _order(model, names, path)), model.dim
    if dimension != dim:
        raise ValueError(f"{path} takes points of dimension {dimension}, the data has {dim}.")
    return head


def _order(model: Model, names: list[Any], path: Path) -> np.ndarray:
    """The position of each class of the data among the scores."""
    known = list(range(len(names))) if model.classes is None else model.classes.tolist()
    if set(known) == set(names):
        return np.array([known.index(name) for name in names])
    if known == list(range(len(names))):  # a model that only counts its classes
        return np.arange(len(names))
    raise ValueError(f"{path} knows the classes {known}, the data has {names}.")
