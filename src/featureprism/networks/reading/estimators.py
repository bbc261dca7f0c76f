"""scikit-learn estimators and pipelines as networks: every affine step is folded, so that the network takes the pipeline's input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.networks.activations import ReLU
from featureprism.networks.reading.chain import Chain
from featureprism.networks.reading.ours import QuadraticEnd, head_chain

STEPS = "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, TruncatedSVD"
MODELS = (
    "linear classifiers (LogisticRegression, LinearSVC, RidgeClassifier, SGDClassifier, ...), MLPClassifier and "
    "this library's heads"
)


def read_estimator(model: Any) -> tuple[Chain | QuadraticEnd, np.ndarray]:
    """The scores and classes of a fitted estimator; ValueError names what is not known."""
    return _read(Chain(), model)


def _read(chain: Chain, model: Any) -> tuple[Chain | QuadraticEnd, np.ndarray]:
    from sklearn.linear_model._base import LinearClassifierMixin
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import Pipeline

    if isinstance(model, Pipeline):
        if not model.steps:
            raise ValueError("The Pipeline has no steps.")
        for name, step in model.steps[:-1]:
            chain = _transformed(chain, step, name)
        return _read(chain, model.steps[-1][1])
    if hasattr(model, "to_torch"):
        _refuse_unfitted(model, "classes_")
        return head_chain(chain, model.to_torch()), np.asarray(model.classes_)
    if isinstance(model, BaseSearchCV):
        _refuse_unfitted(model, "best_estimator_")
        return _read(chain, model.best_estimator_)
    if isinstance(model, LinearClassifierMixin):
        _refuse_unfitted(model, "coef_")
        return _linear(chain, model)
    if isinstance(model, MLPClassifier):
        _refuse_unfitted(model, "coefs_")
        return _perceptron(chain, model)
    raise ValueError(
        f"A {type(model).__name__} cannot be read as a network; known are {MODELS}, alone or in a Pipeline."
    )


def _refuse_unfitted(model: Any, attribute: str) -> None:
    if not hasattr(model, attribute):
        raise ValueError(f"The {type(model).__name__} is not fitted; call fit(X, y) first.")


def _tensor(values: Any) -> Tensor:
    dense = values.toarray() if hasattr(values, "toarray") else values
    return torch.as_tensor(np.array(dense, dtype=np.float64))


def _refuse_multilabel(model: Any) -> None:
    kind = getattr(getattr(model, "_label_binarizer", None), "y_type_", "")
    if kind.startswith("multilabel"):
        raise ValueError(
            f"The {type(model).__name__} gives every point several labels; one label per point is wanted."
        )


def _linear(chain: Chain, model: Any) -> tuple[Chain, np.ndarray]:
    _refuse_multilabel(model)
    V, c = _tensor(model.coef_), _tensor(model.intercept_).reshape(-1)
    V = V.reshape(-1, V.shape[-1])
    return chain.affine(V, c.expand(len(V))), np.asarray(model.classes_)


def _perceptron(chain: Chain, model: Any) -> tuple[Chain, np.ndarray]:
    _refuse_multilabel(model)
    for i, (V, c) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        chain = (_activated(chain, model.activation) if i else chain).affine(_tensor(V).T, _tensor(c))
    return chain, np.asarray(model.classes_)


def _activated(chain: Chain, name: str) -> Chain:
    known: dict[str, Callable[[Chain], Chain]] = {
        "identity": lambda z: z,
        "relu": lambda z: z.activate(ReLU()),
        "tanh": lambda z: z.end("Tanh"),
        "logistic": lambda z: z.end("Sigmoid"),
    }
    if name not in known:
        raise ValueError(
            f"The activation {name!r} of an MLPClassifier is not known; choose one of {', '.join(known)}."
        )
    return known[name](chain)


def _transformed(chain: Chain, step: Any, name: str) -> Chain:
    """An affine step of a pipeline."""
    from sklearn import decomposition, preprocessing
    from sklearn.pipeline import Pipeline

    if step is None or step == "passthrough":
        return chain
    if isinstance(step, Pipeline):
        for inner, part in step.steps:
            chain = _transformed(chain, part, f"{name}/{inner}")
        return chain
    known: dict[type, tuple[str, Callable[[Chain, Any], Chain]]] = {
        preprocessing.StandardScaler: (
            "scale_",
            lambda z, s: _scaled(z, s.mean_ if s.with_mean else None, s.scale_),
        ),
        preprocessing.MinMaxScaler: (
            "scale_",
            lambda z, s: z.scale(_tensor(s.scale_)).shift(_tensor(s.min_)),
        ),
        preprocessing.MaxAbsScaler: ("scale_", lambda z, s: _scaled(z, None, s.scale_)),
        preprocessing.RobustScaler: ("scale_", lambda z, s: _scaled(z, s.center_, s.scale_)),
        decomposition.PCA: ("components_", _principal),
        decomposition.TruncatedSVD: ("components_", lambda z, s: z.affine(_tensor(s.components_))),
    }
    if type(step) not in known:
        raise ValueError(
            f"The step {name!r} ({type(step).__name__}) of the Pipeline is not known; known are {STEPS}."
        )
    attribute, fold = known[type(step)]
    _refuse_unfitted(step, attribute)
    if getattr(step, "clip", False):
        raise ValueError(
            f"The step {name!r} ({type(step).__name__}) clips, which is no affine map; fit it with clip=False."
        )
    return fold(chain, step)


def _scaled(chain: Chain, centre: np.ndarray | None, scale: np.ndarray | None) -> Chain:
    chain = chain if centre is None else chain.shift(-_tensor(centre))
    return chain if scale is None else chain.scale(1 / _tensor(scale))


def _principal(chain: Chain, step: Any) -> Chain:
    """(x - mean) Cᵀ, whitened by 1/√variance with the library's own floor."""
    chain = chain.shift(-_tensor(step.mean_)).affine(_tensor(step.components_))
    if not step.whiten:
        return chain
    spread = np.sqrt(np.asarray(step.explained_variance_))
    return chain.scale(1 / _tensor(np.maximum(spread, np.finfo(spread.dtype).eps)))
