"""scikit-learn estimators and pipelines as networks: every affine step is folded, so that the network takes the pipeline's input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from featureprism.models.model import Model, as_model
from featureprism.models.reading import graph
from featureprism.models.reading.graph import Value
from featureprism.models.reading.lowering import as_network, dense_layers
from featureprism.models.scores import LinearScores, QuadraticScores, ScoreNet

STEPS = "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, TruncatedSVD"
MODELS = (
    "linear classifiers (LogisticRegression, LinearSVC, RidgeClassifier, SGDClassifier, ...), MLPClassifier and "
    "this library's heads"
)


def read_estimator(model: Any) -> tuple[Model, np.ndarray]:
    """The network and the classes of a fitted estimator; ValueError names what is not known."""
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline

    if isinstance(model, BaseSearchCV):
        _refuse_unfitted(model, "best_estimator_")
        return read_estimator(model.best_estimator_)
    steps, last = [], model
    while isinstance(last, Pipeline):
        if not last.steps:
            raise ValueError("The Pipeline has no steps.")
        steps += last.steps[:-1]
        last = last.steps[-1][1]
    if isinstance(last, BaseSearchCV):
        _refuse_unfitted(last, "best_estimator_")
        return read_estimator(Pipeline([*steps, ("best", last.best_estimator_)]))
    dim = _num_features([step for _, step in steps])
    scores = _scores(last)
    value = graph.start((1, dim or _num_features([last])))
    for name, step in steps:
        value = _transformed(value, step, name)
    return scores(value), np.asarray(last.classes_)


def _scores(model: Any) -> Callable[[Value], Model]:
    """What the last step makes of its input."""
    from sklearn.linear_model._base import LinearClassifierMixin
    from sklearn.neural_network import MLPClassifier

    if hasattr(model, "to_torch"):
        _refuse_unfitted(model, "classes_")
        return lambda value: _after_steps(value, model.to_torch())
    if isinstance(model, LinearClassifierMixin):
        _refuse_unfitted(model, "coef_")
        return lambda value: _linear(value, model)
    if isinstance(model, MLPClassifier):
        _refuse_unfitted(model, "coefs_")
        return lambda value: _perceptron(value, model)
    raise ValueError(
        f"A {type(model).__name__} cannot be read as a network; known are {MODELS}, alone or in a Pipeline."
    )


def _num_features(steps: list[Any]) -> int:
    """How many inputs the first step takes that does anything; 0 where there is none."""
    for step in steps:
        inner = getattr(step, "steps", None)
        if inner is not None:
            return _num_features([part for _, part in inner] + steps[steps.index(step) + 1 :])
        if (found := getattr(step, "n_features_in_", None)) is not None:
            return int(found)
        if step is not None and not isinstance(step, str):
            raise ValueError(f"The {type(step).__name__} is not fitted; call fit(X, y) first.")
    return 0


def _refuse_unfitted(model: Any, attribute: str) -> None:
    if not hasattr(model, attribute):
        raise ValueError(f"The {type(model).__name__} is not fitted; call fit(X, y) first.")


def _array(values: Any) -> np.ndarray:
    dense = values.toarray() if hasattr(values, "toarray") else values
    return np.array(dense, dtype=np.float64)


def _refuse_multilabel(model: Any) -> None:
    kind = getattr(getattr(model, "_label_binarizer", None), "y_type_", "")
    if kind.startswith("multilabel"):
        raise ValueError(
            f"The {type(model).__name__} gives every point several labels; one label per point is wanted."
        )


def _linear(value: Value, model: Any) -> Model:
    _refuse_multilabel(model)
    V, c = _array(model.coef_), _array(model.intercept_).reshape(-1)
    return as_network(graph.dense(value, V.reshape(-1, V.shape[-1]), c).node)


def _perceptron(value: Value, model: Any) -> Model:
    _refuse_multilabel(model)
    known: dict[str, Callable[[Value], Value]] = {
        "identity": lambda z: z,
        "relu": graph.relu,
        "tanh": graph.tanh,
        "logistic": lambda z: graph.tail(z, "Sigmoid"),
    }
    if model.activation not in known:
        raise ValueError(
            f"The activation {model.activation!r} of an MLPClassifier is not known; choose one of {', '.join(known)}."
        )
    for i, (V, c) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        value = graph.dense(known[model.activation](value) if i else value, _array(V).T, _array(c))
    return as_network(value.node)


def _after_steps(value: Value, net: nn.Module) -> Model:
    """The network of a head after affine steps."""
    if isinstance(net, QuadraticScores):
        (W,), (b,), _ = dense_layers(value.node)
        found = as_model(net.double().after(torch.from_numpy(W), torch.from_numpy(b)))
        assert found is not None
        return found
    if isinstance(net, LinearScores):
        return as_network(graph.dense(value, net.V, net.c).node)
    assert isinstance(net, ScoreNet)
    hidden = graph.activated(graph.dense(value, net.W, net.b), net.activation)
    return as_network(graph.dense(hidden, net.V.T, net.c).node)


def _transformed(value: Value, step: Any, name: str) -> Value:
    """A step of a pipeline before the last."""
    from sklearn import decomposition, preprocessing
    from sklearn.pipeline import Pipeline

    if step is None or step == "passthrough":
        return value
    if isinstance(step, Pipeline):
        for inner, part in step.steps:
            value = _transformed(value, part, f"{name}/{inner}")
        return value
    known: dict[type, tuple[str, Callable[[Value, Any], Value]]] = {
        preprocessing.StandardScaler: (
            "scale_",
            lambda z, s: _scaled(z, s.mean_ if s.with_mean else None, s.scale_),
        ),
        preprocessing.MinMaxScaler: ("scale_", _to_range),
        preprocessing.MaxAbsScaler: ("scale_", lambda z, s: _scaled(z, None, s.scale_)),
        preprocessing.RobustScaler: ("scale_", lambda z, s: _scaled(z, s.center_, s.scale_)),
        decomposition.PCA: ("components_", _principal),
        decomposition.TruncatedSVD: ("components_", lambda z, s: graph.dense(z, _array(s.components_))),
    }
    if type(step) not in known:
        raise ValueError(
            f"The step {name!r} ({type(step).__name__}) of the Pipeline is not known; known are {STEPS}."
        )
    attribute, fold = known[type(step)]
    _refuse_unfitted(step, attribute)
    return fold(value, step)


def _scaled(value: Value, centre: np.ndarray | None, scale: np.ndarray | None) -> Value:
    value = value if centre is None else graph.scale(value, 1.0, -_array(centre))
    return value if scale is None else graph.scale(value, 1 / _array(scale))


def _to_range(value: Value, step: Any) -> Value:
    value = graph.scale(value, _array(step.scale_), _array(step.min_))
    return graph.clip(value, *step.feature_range) if getattr(step, "clip", False) else value


def _principal(value: Value, step: Any) -> Value:
    """(x - mean) Cᵀ, whitened by 1/√variance with the library's own floor."""
    value = graph.dense(graph.scale(value, 1.0, -_array(step.mean_)), _array(step.components_))
    if not step.whiten:
        return value
    spread = np.sqrt(np.asarray(step.explained_variance_))
    return graph.scale(value, 1 / _array(np.maximum(spread, np.finfo(spread.dtype).eps)))
