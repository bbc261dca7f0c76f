import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA, KernelPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC

from featureprism.heads import DecoupledHead, PReLUHead
from featureprism.models import read_model
from featureprism.models.scores import LayeredScores, LinearScores, ScoreNet


def points(num_classes):
    generator = np.random.default_rng(0)
    y = np.arange(60) % num_classes
    return 3 + generator.normal(size=(60, 4)) * [1, 10, 0.1, 3] + y[:, None] * [1, 5, 0.1, 0], y


def fitted(model, y=None, num_classes=3):
    X, positions = points(num_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some stop early
        return model.fit(X, positions if y is None else np.asarray(y)[positions]), X


def mlp(*hidden, activation="relu"):
    return MLPClassifier(hidden, activation=activation, max_iter=20, random_state=0)


MODELS = {
    "logistic": (LogisticRegression(), LinearScores),
    "svc": (LinearSVC(), LinearScores),
    "svc without intercept": (LinearSVC(fit_intercept=False), LinearScores),
    "ridge": (RidgeClassifier(), LinearScores),
    "sgd": (SGDClassifier(random_state=0), LinearScores),
    "perceptron": (Perceptron(random_state=0), LinearScores),
    "discriminant": (LinearDiscriminantAnalysis(), LinearScores),
    "search": (GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), LinearScores),
    "standard": (make_pipeline(StandardScaler(), LogisticRegression()), LinearScores),
    "centred": (make_pipeline(StandardScaler(with_std=False), RidgeClassifier()), LinearScores),
    "scaled": (make_pipeline(StandardScaler(with_mean=False), RidgeClassifier()), LinearScores),
    "min-max": (make_pipeline(MinMaxScaler((-1, 2)), "passthrough", RidgeClassifier()), LinearScores),
    "max-abs": (make_pipeline(MaxAbsScaler(), RidgeClassifier()), LinearScores),
    "robust": (make_pipeline(RobustScaler(), RidgeClassifier()), LinearScores),
    "pca": (make_pipeline(PCA(2), RidgeClassifier()), LinearScores),
    "whitened": (make_pipeline(StandardScaler(), PCA(3, whiten=True), RidgeClassifier()), LinearScores),
    "clipped": (make_pipeline(MinMaxScaler(clip=True), RidgeClassifier()), ScoreNet),
    "svd": (make_pipeline(MinMaxScaler(), TruncatedSVD(3), RidgeClassifier()), LinearScores),
    "nested": (make_pipeline(make_pipeline(StandardScaler(), PCA(3)), RidgeClassifier()), LinearScores),
}
NETWORKS = {
    "relu": (mlp(7), ScoreNet),
    "tanh": (mlp(7, activation="tanh"), ScoreNet),
    "logistic": (mlp(7, activation="logistic"), ScoreNet),
    "identity": (mlp(7, 5, activation="identity"), LinearScores),
    "two layers": (mlp(7, 5), LayeredScores),
    "two logistic layers": (mlp(7, 5, activation="logistic"), LayeredScores),
    "pipeline": (make_pipeline(StandardScaler(), PCA(3, whiten=True), mlp(7)), ScoreNet),
}


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_linear_models_and_pipelines_give_their_decision_function(name, num_classes):
    model, X = fitted(MODELS[name][0], num_classes=num_classes)
    found = read_model(model, probe=X)
    assert isinstance(found.net, MODELS[name][1])
    assert found.classes.tolist() == list(range(num_classes))
    scores = found.net(torch.as_tensor(X)).numpy()
    own = model.decision_function(X)
    np.testing.assert_allclose(
        scores[:, 1] - scores[:, 0] if num_classes == 2 else scores, own, atol=1e-9, rtol=1e-9
    )


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_perceptrons_give_their_probabilities(name, num_classes):
    model, X = fitted(NETWORKS[name][0], num_classes=num_classes)
    found = read_model(model, probe=X)
    assert isinstance(found.net, NETWORKS[name][1])
    probabilities = found.net(torch.as_tensor(X)).softmax(dim=1).numpy()
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("head", [PReLUHead(p=1.0), PReLUHead(p=3.0), DecoupledHead()], ids=str)
def test_heads_alone_and_in_a_pipeline(head):
    head.set_params(random_state=0)
    model, X = fitted(make_pipeline(StandardScaler(), PCA(3), head), y=["cat", "dog", "eel"])
    for part, inputs in ((model, X), (model[-1], model[:-1].transform(X))):
        found = read_model(part, probe=inputs)
        assert isinstance(found.net, ScoreNet)
        assert found.classes.tolist() == ["cat", "dog", "eel"]
        np.testing.assert_allclose(
            found.net(torch.as_tensor(inputs)).numpy(), part.decision_function(inputs), atol=1e-9
        )
    alone = read_model(model[-1].to_torch())
    torch.testing.assert_close(alone.net(torch.as_tensor(inputs)), found.net(torch.as_tensor(inputs)))
    assert alone.classes is None


@pytest.mark.parametrize("labels", [["a", "b", "c"], [10, 20, 30], [-1.0, 0.0, 2.0]], ids=str)
@pytest.mark.parametrize("model", [LogisticRegression(), mlp(5)], ids=["logistic", "mlp"])
def test_labels_are_the_models_own(model, labels):
    model, X = fitted(model, labels)
    found = read_model(model)
    predicted = model.predict(X)
    assert found.net(torch.as_tensor(X)).argmax(dim=1).tolist() == found.indices(predicted).tolist()


def test_true_and_false():
    model, X = fitted(LogisticRegression(), [False, True], num_classes=2)
    assert read_model(model).indices(model.predict(X)).tolist() == model.predict(X).astype(int).tolist()


def test_tables_and_sparse_weights():
    X, y = points(3)
    table = pd.DataFrame(X, columns=list("abcd"))
    model = LogisticRegression(max_iter=2000).fit(table, y).sparsify()
    found = read_model(model, probe=table)
    np.testing.assert_allclose(
        found.net(torch.as_tensor(X)).numpy(), model.decision_function(table), atol=1e-9
    )


class Contrary(LogisticRegression):
    def predict(self, X):
        return self.classes_[0] + 0 * super().predict(X)


def test_an_estimator_that_was_misread_is_refused():
    model, X = fitted(Contrary())
    with pytest.raises(ValueError, match="not read rightly"):
        read_model(model, probe=X)


def multilabel(model):
    X, y = points(3)
    return model.fit(X, np.eye(3, dtype=int)[y])


REFUSED = {
    "not fitted": (lambda: LogisticRegression(), "LogisticRegression is not fitted"),
    "perceptron not fitted": (lambda: MLPClassifier(), "MLPClassifier is not fitted"),
    "head not fitted": (lambda: PReLUHead(), "PReLUHead is not fitted"),
    "search not fitted": (lambda: GridSearchCV(LogisticRegression(), {}), "GridSearchCV is not fitted"),
    "pipeline not fitted": (
        lambda: make_pipeline(StandardScaler(), RidgeClassifier()),
        "StandardScaler is not fitted",
    ),
    "forest": (lambda: RandomForestClassifier(), "RandomForestClassifier cannot be read"),
    "regression": (lambda: LinearRegression(), "LinearRegression cannot be read"),
    "step": (
        lambda: fitted(make_pipeline(Normalizer(), RidgeClassifier()))[0],
        r"'normalizer' \(Normalizer\)",
    ),
    "kernel": (lambda: fitted(make_pipeline(KernelPCA(2), RidgeClassifier()))[0], "KernelPCA"),
    "no classifier": (lambda: fitted(make_pipeline(StandardScaler(), PCA(2)))[0], "PCA cannot be read"),
    "empty": (lambda: Pipeline([]), "no steps"),
    "several labels": (
        lambda: multilabel(mlp(5).set_params(early_stopping=False, max_iter=300)),
        "several labels",
    ),
    "several labels, ridge": (lambda: multilabel(RidgeClassifier()), "several labels"),
    "dimension": (lambda: LogisticRegression().fit(points(3)[0][:, :2], points(3)[1]), "coordinates"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_by_name(name):
    make, told = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make()
    with pytest.raises(ValueError, match=told) as caught:
        read_model(model, probe=points(3)[0])
    assert "\n" not in str(caught.value)


def test_classes_cannot_be_renamed():
    model, _ = fitted(LogisticRegression(), ["a", "b", "c"])
    assert read_model(model, ["a", "b", "c"]).classes.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="not"):
        read_model(model, ["c", "b", "a"])
