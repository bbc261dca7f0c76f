"""Robust heads as scikit-learn estimators: PReLUHead and DecoupledHead."""

from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from featureprism._progress import Progress, no_progress
from featureprism.heads.descent import Learned, Neurons, Perturb, Points, Recipe, train
from featureprism.heads.files import GAUSSIAN, KINDS, load_arrays, save_arrays, write_onnx
from featureprism.heads.gaussian import PARTS, GaussianHead
from featureprism.heads.network import HeadNet
from featureprism.heads.scaling import SCALINGS, fitted_scaling
from featureprism.heads.scored import ScoredHead
from featureprism.heads.subclasses import Subclasses, classes_alone, discovered_subclasses, given_subclasses
from featureprism.heads.targets import Targets, split, targets

LARGEST_SEED = 2**31 - 1


class Head(ScoredHead):
    """What both heads share; abstract.

    Points are centred at their mean m and divided by their spread s before training: one for all ("points", their root-mean-square
    distance from m), one for each feature ("features"), or ("auto") the second where the units of the features differ by much. A
    constant 1 behind them carries the bias. All is absorbed into the network, ⟨w, (x - m)/s⟩ + β = ⟨w/s, x⟩ + β - ⟨w, m/s⟩, so that
    radii are in the units of the points as they came. Up to `batch_size` points the order of the rows decides nothing, and k copies
    of a point are a point of sample_weight k.

    `epochs`: so many passes, whole or not; None: until the loss no longer falls by `tol`. `validation_fraction`: a share of the
    points whose loss is watched instead, and the best neurons are kept. `weight_decay` None: 1/(sum of weights), the ridge of
    logistic regression with C = 1. `class_weight`: None, "balanced" or a mapping, as everywhere in scikit-learn.
    """

    net_: HeadNet
    n_iter_: int  # gradient steps made
    ended_: str  # and why no more
    # fields of the subclasses, named here for the type checker
    p: float
    width: int
    init_scale: float
    epochs: float | None
    batch_size: int
    step_size: float
    weight_decay: float | None
    tol: float
    validation_fraction: float
    scaling: str
    fit_intercept: bool
    class_weight: Any
    random_state: Any

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _subclasses(self, task: Targets, x: Points, seed: int) -> Subclasses:
        raise NotImplementedError

    def _start(self, found: Subclasses, neurons: Neurons, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def _recipe(self, task: Targets) -> Recipe:
        decay = 1 / task.total if self.weight_decay is None else self.weight_decay
        return Recipe(self.p, self.epochs, self.batch_size, self.step_size, decay, tol=self.tol)

    def _perturb(self, scale: float) -> Perturb | None:
        return None

    def _check(self) -> None:
        if not isinstance(self.p, Real) or not self.p >= 1:
            raise ValueError(f"The power p must be at least 1, got {self.p}.")
        for name in ("width", "batch_size", "step_size", "init_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}.")
        if self.epochs is not None and not 0 < self.epochs < np.inf:
            raise ValueError(f"epochs must be positive, or None to stop by itself, got {self.epochs}.")
        for name in ("weight_decay", "tol"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be at least 0, got {value}.")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must be from 0 to below 1, got {self.validation_fraction}."
            )
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, got {self.scaling!r}.")

    def _fit(self, X: Any, y: Any, fine: Any, sample_weight: Any, progress: Progress) -> None:
        self._check()
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", accept_sparse="csr")
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        task = targets(X, y, fine, sample_weight, self.class_weight, self.batch_size)
        self.classes_ = task.classes
        scaling = fitted_scaling(task.X, task.weight, self.scaling, bool(self.fit_intercept))
        seed = int(check_random_state(self.random_state).randint(LARGEST_SEED))
        x = scaling.points(task.X, torch.float64 if task.is_whole else torch.float32)
        found = self._subclasses(task, x, seed)
        subclass = torch.arange(len(found.parent)).repeat_interleave(self.width)
        neurons = Neurons(subclass, found.parent, len(self.classes_))
        generator = torch.Generator().manual_seed(seed)
        W = self._start(found, neurons, generator).to(found.centre.dtype)
        learned = Learned(x, found.label, task.mean_weight(found.centre.dtype))
        seen, held = split(learned, task, self.validation_fraction, generator)
        trained = train(
            W,
            neurons,
            seen,
            self._recipe(task),
            generator=generator,
            held=held,
            perturb=self._perturb(float(scaling.scale.max())),
            progress=progress,
        )
        self.n_iter_, self.ended_ = trained.steps, trained.ended
        self.net_ = scaling.absorbed(trained.W, neurons, self.p)

    def save(self, path: Path | str) -> None:
        """Write an .npz file that `load_head` reads; of two classes, `load_net` and `featureprism radius` read it too."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        kind = next(base.__name__ for base in type(self).__mro__ if base.__name__ in KINDS)
        save_arrays(Path(path), self.net_, self.classes_, kind, self.get_params(), names)

    def to_onnx(self, path: Path | str) -> None:
        """Write an ONNX model x ↦ (label index, probabilities, scores); needs the extra `featureprism[onnx]`."""
        check_is_fitted(self)
        write_onnx(self.net_, Path(path))


class PReLUHead(Head):
    """A classifier of pReLU neurons for embeddings: f_c(x) = Σ_j ‖w_j‖ [⟨w_j, x⟩/‖w_j‖]₊^p, with neurons of its own for each class.

    With p > 2 neurons specialise on clusters of a class instead of averaging over them, which moves the decision boundary away from the
    points. Trained with cross-entropy by Adam; a scikit-learn estimator.

    Parameters
    ----------
    p : float
        Power of the neurons; 1 is a ReLU head.
    width : int
        Neurons of each class.
    init_scale : float
        Norm of the first weights, in random directions.
    epochs : float, optional
        Passes over the data; None trains until the loss no longer falls (`tol`), at most 1500 steps or 6 passes,
        whichever is more.
    batch_size : int
        Points of a step.
    step_size : float
        Learning rate of Adam.
    weight_decay : float, optional
        Ridge penalty; None is 1/n, that of logistic regression with C = 1.
    tol : float
        Training ends when the loss falls by less than this, in nats.
    validation_fraction : float
        Share of the points that is watched; the best head on it is kept.
    scaling : str
        "points" divides by one spread, "features" each feature by its own, "auto" chooses.
    fit_intercept : bool
        Whether scores have a bias.
    class_weight : None, "balanced" or mapping
        Weights of the classes.
    random_state : int, generator or None
        As in scikit-learn.

    References
    ----------
    gmm-flow, equation (5).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import featureprism as fp
    >>> X, y = load_iris(return_X_y=True)
    >>> head = fp.PReLUHead(p=3, width=10, epochs=20, random_state=0).fit(X, y)
    >>> bracket = head.robust_radius(X[:5], y[:5])
    >>> bool((bracket.certified <= bracket.attacked).all())
    True
    """

    def __init__(
        self,
        p: float = 3.0,
        width: int = 100,
        init_scale: float = 1.0,
        *,
        epochs: float | None = None,
        batch_size: int = 256,
        step_size: float = 0.01,
        weight_decay: float | None = None,
        tol: float = 1e-3,
        validation_fraction: float = 0.0,
        scaling: str = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self.p = p
        self.width = width
        self.init_scale = init_scale
        self.epochs = epochs
        self.batch_size = batch_size
        self.step_size = step_size
        self.weight_decay = weight_decay
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.random_state = random_state

    def _subclasses(self, task: Targets, x: Points, seed: int) -> Subclasses:
        return classes_alone(x, task.y, len(task.classes))

    def _start(self, found: Subclasses, neurons: Neurons, generator: torch.Generator) -> Tensor:
        shape = len(neurons.subclass), found.centre.shape[1]
        return self.init_scale * torch.randn(shape, generator=generator) / shape[1] ** 0.5

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, progress: Progress = no_progress
    ) -> "PReLUHead":
        """Train the head on points X (n, d), dense or sparse, and labels y (n,)."""
        self._fit(X, y, None, sample_weight, progress)
        return self


class DecoupledHead(Head):
    """A pReLU head that also learns labels finer than the task, so that the clusters of a class are kept apart.

    The loss is (1 - fine_weight) CE(class scores) + fine_weight CE(sub-class scores); a class scores the sum
    of its sub-classes. Neurons
    start at the means of the sub-classes.

    Parameters
    ----------
    labels : str
        "given" takes `fine_labels` in fit, "discovered" finds `num_subclasses` clusters of each class by k-means.
    num_subclasses : int, optional
        Clusters of each class where they are discovered.
    p : float
        Power of the neurons.
    width : int
        Neurons of each sub-class.
    init_scale : float
        Norm of the first weights.
    fine_weight : float
        Weight of the finer labels in the loss.
    epochs : float, optional
        Passes over the data; None trains until the loss no longer falls (`tol`), at most 1500 steps or 6 passes,
        whichever is more.
    batch_size : int
        Points of a step.
    step_size : float
        Learning rate of Adam.
    weight_decay : float, optional
        Ridge penalty; None is 1/n, that of logistic regression with C = 1.
    tol : float
        Training ends when the loss falls by less than this, in nats.
    validation_fraction : float
        Share of the points that is watched; the best head on it is kept.
    scaling : str
        "points" divides by one spread, "features" each feature by its own, "auto" chooses.
    fit_intercept : bool
        Whether scores have a bias.
    class_weight : None, "balanced" or mapping
        Weights of the classes.
    random_state : int, generator or None
        As in scikit-learn.

    References
    ----------
    feature-averaging, Section 4.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import featureprism as fp
    >>> X, y = load_iris(return_X_y=True)
    >>> head = fp.DecoupledHead(num_subclasses=2, epochs=60, random_state=0).fit(X, y)
    >>> head.score(X, y) > 0.9
    True
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
        epochs: float | None = None,
        batch_size: int = 256,
        step_size: float = 0.01,
        weight_decay: float | None = None,
        tol: float = 1e-3,
        validation_fraction: float = 0.0,
        scaling: str = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
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
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        if self.labels not in ("given", "discovered"):
            raise ValueError(f"labels must be 'given' or 'discovered', got {self.labels!r}.")
        if not 0 <= self.fine_weight <= 1:
            raise ValueError(f"fine_weight must be between 0 and 1, got {self.fine_weight}.")
        if self.num_subclasses is not None and self.num_subclasses < 1:
            raise ValueError(f"num_subclasses must be at least 1, got {self.num_subclasses}.")

    def _recipe(self, task: Targets) -> Recipe:
        return replace(super()._recipe(task), fine_weight=self.fine_weight)

    def _subclasses(self, task: Targets, x: Points, seed: int) -> Subclasses:
        num_classes = len(task.classes)
        if self.labels == "discovered":
            if task.fine is not None:
                raise ValueError(
                    "fine_labels came with labels='discovered'; use labels='given' to learn them."
                )
            counts = None if task.weight is None else torch.as_tensor(task.weight)
            return discovered_subclasses(x, task.y, num_classes, self.num_subclasses, seed, counts)
        if task.fine is None:
            raise ValueError("labels='given' needs fit(X, y, fine_labels=...); or use labels='discovered'.")
        return given_subclasses(x, task.y, num_classes, task.fine)

    def _start(self, found: Subclasses, neurons: Neurons, generator: torch.Generator) -> Tensor:
        centres = found.centre[neurons.subclass]
        noise = torch.randn(centres.shape, generator=generator) / centres.shape[1] ** 0.5
        return centres + self.init_scale * noise

    def fit(
        self,
        X: Any,
        y: Any,
        fine_labels: Any = None,
        sample_weight: Any = None,
        *,
        progress: Progress = no_progress,
    ) -> "DecoupledHead":
        """Train the head on points X (n, d), labels y (n,) and, with labels="given", finer labels (n,)."""
        self._fit(X, y, fine_labels, sample_weight, progress)
        return self


def load_head(path: Path | str) -> "PReLUHead | DecoupledHead | GaussianHead":
    """Read a fitted head that `save` wrote.

    Parameters
    ----------
    path : path
        An .npz file.

    Returns
    -------
    PReLUHead, DecoupledHead or GaussianHead
        With its labels, column names and parameters.

    Raises
    ------
    ValueError
        If the file does not hold a head.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> import featureprism as fp
    >>> X, y = load_iris(return_X_y=True)
    >>> head = fp.PReLUHead(width=5, epochs=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     head.save(Path(folder) / "head.npz")
    ...     again = fp.load_head(Path(folder) / "head.npz")
    >>> bool((again.predict(X) == head.predict(X)).all())
    True
    """
    saved = load_arrays(Path(path))
    kinds = {"PReLUHead": PReLUHead, "DecoupledHead": DecoupledHead, GAUSSIAN: GaussianHead}
    head = kinds[saved.kind]()
    head.set_params(**{k: v for k, v in saved.parameters.items() if k in head.get_params()})
    head.net_, head.classes_, head.n_features_in_ = (
        saved.net,
        saved.classes,
        saved.arrays["V" if saved.kind == GAUSSIAN else "W"].shape[1],
    )
    if isinstance(head, GaussianHead):
        head.means_, head.covariances_, head.priors_ = (saved.arrays[name] for name in PARTS)
    if saved.feature_names is not None:
        head.feature_names_in_ = saved.feature_names
    return head
