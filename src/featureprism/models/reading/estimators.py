"""scikit-learn estimators and pipelines as networks: every affine step is folded, so that the network takes the pipeline's input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from featureprism.models.model import Model, NotANetwork, as_model
from featureprism.models.reading import graph
from featureprism.models.reading.graph import Value
from featureprism.models.reading.lowering import as_network, dense_layers
from featureprism.models.scores import LinearScores, QuadraticScores, ScoreNet

STEPS = (
    "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, TruncatedSVD, SimpleImputer, ColumnTransformer and "
    "selections of features"
)
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


def affine_steps(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """W and b of everything before the last step of a Pipeline, (e, d) and (e,); NotANetwork where it is not affine."""
    steps = model.steps[:-1]
    value = graph.start((1, _num_features([step for _, step in steps])))
    for name, step in steps:
        value = _transformed(value, step, name)
    weights, biases, _ = dense_layers(value.node)
    if len(weights) != 1:
        raise NotANetwork("The steps before the last are not affine.")
    return weights[0], biases[0]


def _scores(model: Any) -> Callable[[Value], Model]:
    """What the last step makes of its input."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model._base import LinearClassifierMixin
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC

    if hasattr(model, "to_torch"):
        _refuse_unfitted(model, "classes_")
        return lambda value: _after_steps(value, model.to_torch())
    if isinstance(model, LinearClassifierMixin):
        _refuse_unfitted(model, "coef_")
        return lambda value: _linear(value, model)
    if isinstance(model, MLPClassifier):
        _refuse_unfitted(model, "coefs_")
        return lambda value: _perceptron(value, model)
    if isinstance(model, SVC) and model.kernel == "linear" and len(getattr(model, "classes_", ())) == 2:
        return lambda value: _linear(value, model)
    if isinstance(model, OneVsRestClassifier):
        _refuse_unfitted(model, "estimators_")
        return lambda value: _one_vs_rest(value, model)
    if isinstance(model, CalibratedClassifierCV) and len(getattr(model, "calibrated_classifiers_", ())) == 1:
        return lambda value: _calibrated(value, model)
    raise NotANetwork(
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
        "tanh": lambda z: graph.smooth(z, "tanh"),
        "logistic": lambda z: graph.tail(z, "Sigmoid"),
    }
    if model.activation not in known:
        raise ValueError(
            f"The activation {model.activation!r} of an MLPClassifier is not known; choose one of {', '.join(known)}."
        )
    for i, (V, c) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        value = graph.dense(known[model.activation](value) if i else value, _array(V).T, _array(c))
    return as_network(value.node)


def _one_vs_rest(value: Value, model: Any) -> Model:
    """One linear score for each class; of two classes the only one there is."""
    if model.multilabel_:
        raise ValueError(
            "The OneVsRestClassifier gives every point several labels; one label per point is wanted."
        )
    if not all(hasattr(part, "coef_") for part in model.estimators_):
        raise NotANetwork("A OneVsRestClassifier is read as a network where its estimators are linear.")
    V = np.concatenate([_array(part.coef_).reshape(1, -1) for part in model.estimators_])
    c = np.concatenate([_array(part.intercept_).reshape(1) for part in model.estimators_])
    if len({type(part).__name__ for part in model.estimators_}) > 1:
        raise NotANetwork("A OneVsRestClassifier is read as a network where its estimators are of one kind.")
    return as_network(graph.dense(value, V, c).node)


def _calibrated(value: Value, model: Any) -> Model:
    """One linear classifier of two classes and a sigmoid: p ≥ ½ where -(a f + b) ≥ 0."""
    (inner,) = model.calibrated_classifiers_
    base, (curve, *rest) = inner.estimator, inner.calibrators
    if rest or not hasattr(base, "coef_") or not hasattr(curve, "a_"):
        raise NotANetwork(
            "A CalibratedClassifierCV is read as a network for two classes, a linear classifier and method='sigmoid'."
        )
    V, c = _array(base.coef_).reshape(1, -1), _array(base.intercept_).reshape(1)
    return as_network(graph.dense(value, -curve.a_ * V, -(curve.a_ * c + curve.b_)).node)


def _selected(value: Value, positions: Any) -> Value:
    """Some of the features."""
    return graph.dense(value, np.eye(value.size)[np.asarray(positions)])


def _columns(value: Value, step: Any, name: str) -> Value:
    """A ColumnTransformer: every part on its own columns, side by side."""
    _refuse_unfitted(step, "transformers_")
    places, parts = step._transformer_to_input_indices, []
    for part, transformer, _ in step.transformers_:
        columns = list(places.get(part, []))
        if (isinstance(transformer, str) and transformer == "drop") or not columns:
            continue
        parts.append(_transformed(_selected(value, columns), transformer, f"{name}/{part}"))
    if not parts:
        raise ValueError(f"The step {name!r} of the Pipeline leaves no features.")
    return graph.concatenate(parts, axis=1)


def _imputed(value: Value, step: Any) -> Value:
    """Points have no missing values, so nothing is imputed; columns that were all missing are dropped."""
    known = np.flatnonzero(~np.isnan(np.asarray(step.statistics_, dtype=np.float64)))
    return value if len(known) == value.size else _selected(value, known)


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
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_selection import SelectorMixin
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline

    if step is None or step == "passthrough":
        return value
    if type(step) is preprocessing.FunctionTransformer and step.func is None:
        return value
    if isinstance(step, Pipeline):
        for inner, part in step.steps:
            value = _transformed(value, part, f"{name}/{inner}")
        return value
    if isinstance(step, ColumnTransformer):
        return _columns(value, step, name)
    if isinstance(step, SelectorMixin):
        return _selected(value, np.flatnonzero(np.asarray(step.get_support())))
    known: dict[type, tuple[str, Callable[[Value, Any], Value]]] = {
        SimpleImputer: ("statistics_", _imputed),
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
        raise NotANetwork(
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
