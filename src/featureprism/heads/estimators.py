"""Robust heads as scikit-learn estimators: PReLUHead and DecoupledHead."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from featureprism.geometry import unit_rows
from featureprism.heads.descent import Neurons, Perturb, Recipe, train
from featureprism.heads.files import load_arrays, save_arrays, write_onnx
from featureprism.heads.network import HeadNet
from featureprism.heads.radius import head_radius
from featureprism.heads.subclasses import Subclasses, classes_alone, discovered_subclasses, given_subclasses
from featureprism.records import Progress, RadiusBracket, silent

LARGEST_SEED = 2**31 - 1


class Head(ClassifierMixin, BaseEstimator):
    """What both heads share; abstract.

    Points are centred at their mean m and divided by their root-mean-square distance s from it before training. Both are absorbed
    into the network, ⟨w, (x - m)/s⟩ = ⟨w/s, x⟩ - ⟨w, m⟩/s, so that shifting or scaling the data shifts or scales the radii with it.
    """

    net_: HeadNet
    classes_: np.ndarray
    n_features_in_: int

    # fields of the subclasses, named here for the type checker
    p: float
    width: int
    init_scale: float
    epochs: int
    batch_size: int
    step_size: float
    weight_decay: float
    random_state: Any

    def _subclasses(self, x: Tensor, y: Tensor, num_classes: int, fine: Any, seed: int) -> Subclasses:
        raise NotImplementedError

    def _start(self, found: Subclasses, neurons: Neurons, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def _recipe(self) -> Recipe:
        return Recipe(self.p, self.epochs, self.batch_size, self.step_size, self.weight_decay)

    def _perturb(self, scale: float) -> Perturb | None:
        return None

    def _check(self) -> None:
        if not self.p >= 1:
            raise ValueError(f"The power p must be at least 1, got {self.p}.")
        for name in ("width", "epochs", "batch_size", "step_size", "init_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}.")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay must be at least 0, got {self.weight_decay}.")

    def _fit(self, X: Any, y: Any, fine: Any, progress: Progress) -> None:
        self._check()
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        self.classes_, indices = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"A head needs at least two classes, got one class: {self.classes_[0]!r}.")
        centre = X.mean(axis=0)
        scale = float(np.sqrt(((X - centre) ** 2).sum(axis=1).mean()))
        if not scale > 0:
            raise ValueError(f"All {len(X)} points are the same: constant features tell no classes apart.")
        x = torch.as_tensor(((X - centre) / scale).astype(np.float32))
        seed = int(check_random_state(self.random_state).randint(LARGEST_SEED))
        found = self._subclasses(x, torch.as_tensor(indices), len(self.classes_), fine, seed)
        subclass = torch.arange(len(found.parent)).repeat_interleave(self.width)
        neurons = Neurons(subclass, found.parent, len(self.classes_))
        generator = torch.Generator().manual_seed(seed)
        W = train(
            self._start(found, neurons, generator),
            neurons,
            x,
            found.label,
            self._recipe(),
            generator=generator,
            perturb=self._perturb(scale),
            progress=progress,
        )
        self.net_ = _absorbed(W, neurons, torch.as_tensor(centre), scale, self.p)

    def _points(self, X: Any) -> Tensor:
        """Checked points as a tensor of its own: torch warns of arrays that it may not write to."""
        check_is_fitted(self)
        return torch.tensor(validate_data(self, X, dtype=np.float64, order="C", reset=False))

    def scores(self, X: Any) -> Tensor:
        """The score of every class, as a tensor (n, C)."""
        x = self._points(X)
        with torch.no_grad():
            return self.net_(x)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, C), or for two classes the second score minus the first (n,)."""
        scores = self.scores(X).numpy()
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Softmax of the scores."""
        return self.scores(X).softmax(dim=1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest score."""
        winners = self.scores(X).argmax(dim=1).numpy()
        return self.classes_[winners]

    def robust_radius(self, X: Any, y: Any, *, progress: Progress = silent, **effort: Any) -> RadiusBracket:
        """Per point the proven and the attacked ℓ2 distance to the next decision for another class.

        Radii are in the units of X. `effort`: gap, seconds_per_point, max_cells of `certificates.robust_radius`.
        """
        x, indices = self._points(X), self.class_indices(y)
        if len(indices) != len(x):
            raise ValueError(f"Need one label per point: {len(x)} points, {len(indices)} labels.")
        return head_radius(self.net_, x, indices, progress=progress, **effort)

    def class_indices(self, y: Any) -> Tensor:
        """Labels as positions in `classes_`; refuses labels that were not seen in fit."""
        y = np.asarray(y).reshape(-1)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"Labels {unknown[:5].tolist()} were not seen in fit; the head knows {self.classes_[:20].tolist()}."
            )
        return torch.as_tensor(np.searchsorted(self.classes_, y))

    def to_torch(self) -> HeadNet:
        """The fitted head as a torch module: points (n, d) to scores (n, C), in float64."""
        check_is_fitted(self)
        return self.net_

    def save(self, path: Path | str) -> None:
        """Write an .npz file that `load_head` reads; of two classes, `load_net` and `featureprism radius` read it too."""
        check_is_fitted(self)
        parameters = {k: v for k, v in self.get_params().items() if k != "random_state"}
        save_arrays(Path(path), self.net_, self.classes_, type(self).__name__, parameters)

    def to_onnx(self, path: Path | str) -> None:
        """Write an ONNX model x ↦ (label index, probabilities, scores); needs the extra `featureprism[onnx]`."""
        check_is_fitted(self)
        write_onnx(self.net_, Path(path))


def _absorbed(W: Tensor, neurons: Neurons, centre: Tensor, scale: float, p: float) -> HeadNet:
    """‖w_j‖ [⟨w_j/‖w_j‖, (x - m)/s⟩]₊^p as a function of x, in float64."""
    W = W.double()
    U = unit_rows(W) / scale
    norms = torch.linalg.vector_norm(W, dim=1)
    return HeadNet(U, -U @ centre, norms, neurons.owner, neurons.num_classes, p)


class PReLUHead(Head):
    """A two-layer pReLU network f_c(x) = Σ_j ‖w_j‖ [⟨w_j, x⟩/‖w_j‖]₊^p, `width` neurons for each class; p = 1 is a ReLU head.

    Neurons start at norm `init_scale`, in random directions; cross-entropy, Adam. With p > 2 neurons specialise on clusters of a
    class instead of averaging over them, which moves the decision boundary away from the points. Source: gmm-flow, eq. (5).
    """

    def __init__(
        self,
        p: float = 3.0,
        width: int = 100,
        init_scale: float = 1.0,
        *,
        epochs: int = 6,
        batch_size: int = 256,
        step_size: float = 0.01,
        weight_decay: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.p = p
        self.width = width
        self.init_scale = init_scale
        self.epochs = epochs
        self.batch_size = batch_size
        self.step_size = step_size
        self.weight_decay = weight_decay
        self.random_state = random_state

    def _subclasses(self, x: Tensor, y: Tensor, num_classes: int, fine: Any, seed: int) -> Subclasses:
        return classes_alone(x, y, num_classes)

    def _start(self, found: Subclasses, neurons: Neurons, generator: torch.Generator) -> Tensor:
        shape = len(neurons.subclass), found.centre.shape[1]
        return self.init_scale * torch.randn(shape, generator=generator) / shape[1] ** 0.5

    def fit(self, X: Any, y: Any, *, progress: Progress = silent) -> "PReLUHead":
        """Train the head on points X (n, d) and labels y (n,)."""
        self._fit(X, y, None, progress)
        return self


class DecoupledHead(Head):
    """A pReLU network that also learns labels finer than the task: `width` neurons for each sub-class, started at its mean.

    loss = (1 - fine_weight) CE(class scores) + fine_weight CE(sub-class scores); a class scores the sum of its sub-classes, so
    margins stay differences of convex functions. `labels`: "given" takes `fine_labels` in fit, "discovered" finds
    `num_subclasses` clusters of each class by k-means. Source: feature-averaging, Section 4.2 (finer labels decouple features).
    """

    def __init__(
        self,
        labels: str = "discovered",
        num_subclasses: int | None = None,
        p: float = 3.0,
        width: int = 1,
        init_scale: float = 0.1,
        *,
        fine_weight: float = 0.3,
        epochs: int = 6,
        batch_size: int = 256,
        step_size: float = 0.01,
        weight_decay: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.labels = labels
        self.num_subclasses = num_subclasses
        self.p = p
        self.width = width
        self.init_scale = init_scale
        self.fine_weight = fine_weight
        self.epochs = epochs
        self.batch_size = batch_size
        self.step_size = step_size
        self.weight_decay = weight_decay
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        if self.labels not in ("given", "discovered"):
            raise ValueError(f"labels must be 'given' or 'discovered', got {self.labels!r}.")
        if not 0 <= self.fine_weight <= 1:
            raise ValueError(f"fine_weight must be between 0 and 1, got {self.fine_weight}.")
        if self.num_subclasses is not None and self.num_subclasses < 1:
            raise ValueError(f"num_subclasses must be at least 1, got {self.num_subclasses}.")

    def _recipe(self) -> Recipe:
        return Recipe(
            self.p, self.epochs, self.batch_size, self.step_size, self.weight_decay, self.fine_weight
        )

    def _subclasses(self, x: Tensor, y: Tensor, num_classes: int, fine: Any, seed: int) -> Subclasses:
        if self.labels == "discovered":
            if fine is not None:
                raise ValueError(
                    "fine_labels came with labels='discovered'; use labels='given' to learn them."
                )
            return discovered_subclasses(x, y, num_classes, self.num_subclasses, seed)
        if fine is None:
            raise ValueError("labels='given' needs fit(X, y, fine_labels=...); or use labels='discovered'.")
        return given_subclasses(x, y, num_classes, np.asarray(fine))

    def _start(self, found: Subclasses, neurons: Neurons, generator: torch.Generator) -> Tensor:
        centres = found.centre[neurons.subclass]
        noise = torch.randn(centres.shape, generator=generator) / centres.shape[1] ** 0.5
        return centres + self.init_scale * noise

    def fit(self, X: Any, y: Any, fine_labels: Any = None, *, progress: Progress = silent) -> "DecoupledHead":
        """Train the head on points X (n, d), labels y (n,) and, with labels="given", finer labels (n,)."""
        self._fit(X, y, fine_labels, progress)
        return self


def load_head(path: Path | str) -> PReLUHead | DecoupledHead:
    """A fitted head from a file that `save` wrote."""
    net, classes, kind, parameters = load_arrays(Path(path))
    head = {"PReLUHead": PReLUHead, "DecoupledHead": DecoupledHead}[kind]()
    head.set_params(**{k: v for k, v in parameters.items() if k in head.get_params()})
    head.net_, head.classes_, head.n_features_in_ = net, classes, net.W.shape[1]
    return head
