"""Models that are no networks: bounds against brute force, attacks against closed forms, and every classifier gets an answer."""

import sys

import numpy as np
import pandas
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import featureprism as fp
from featureprism import cli

X, Y = load_wine(return_X_y=True, as_frame=True)
X = (X - X.mean()) / X.std()
PART = slice(0, 178, 60)
TWO = Y < 2


def logistic():
    return LogisticRegression(max_iter=1000)


PROVEN = {
    "linear SVC of two classes": (SVC(kernel="linear"), 2),
    "calibrated": (CalibratedClassifierCV(LinearSVC(), ensemble=False), 2),
    "one against the rest": (OneVsRestClassifier(logistic()), 3),
    "selection": (make_pipeline(SelectKBest(k=5), logistic()), 3),
    "imputer": (make_pipeline(SimpleImputer(), logistic()), 3),
    "columns": (
        make_pipeline(
            ColumnTransformer([("a", StandardScaler(), ["hue"]), ("b", "passthrough", ["ash", "alcohol"])]),
            logistic(),
        ),
        3,
    ),
    "tree": (DecisionTreeClassifier(random_state=0), 3),
    "scaled tree": (make_pipeline(MinMaxScaler(), DecisionTreeClassifier(random_state=0)), 3),
    "nearest neighbour": (KNeighborsClassifier(1), 3),
    "extra trees": (ExtraTreesClassifier(5, random_state=0), 3),
    "histogram boosting": (HistGradientBoostingClassifier(max_iter=3), 3),
    "boosting": (GradientBoostingClassifier(n_estimators=5, random_state=0), 3),
    "boosted stumps": (AdaBoostClassifier(n_estimators=3, random_state=0), 3),
    "bagged trees": (BaggingClassifier(n_estimators=4, max_features=0.5, random_state=0), 3),
}
BOUNDED = {
    "forest": (RandomForestClassifier(5, random_state=0), 3),
    "extra trees": (ExtraTreesClassifier(5, random_state=0), 3),
    "boosting": (GradientBoostingClassifier(n_estimators=5, random_state=0), 3),
    "histogram boosting": (HistGradientBoostingClassifier(max_iter=3), 3),
    "boosted stumps": (AdaBoostClassifier(n_estimators=3, random_state=0), 3),
    "boosting of two classes": (GradientBoostingClassifier(n_estimators=5, random_state=0), 2),
    "neighbours": (KNeighborsClassifier(5), 3),
    "kernel machine": (SVC(), 3),
    "kernel machine of two classes": (make_pipeline(StandardScaler(), SVC()), 2),
}
ATTACKED = {
    "linear SVC of three classes": (SVC(kernel="linear"), 3),
    "naive Bayes": (GaussianNB(), 3),
    "vote": (VotingClassifier([("a", logistic()), ("b", RidgeClassifier())]), 3),
    "bagging": (BaggingClassifier(logistic(), n_estimators=2, random_state=0), 3),
    "polynomials": (make_pipeline(PolynomialFeatures(2), logistic()), 3),
    "normalised rows": (make_pipeline(Normalizer(), logistic()), 3),
    "quadratic": (QuadraticDiscriminantAnalysis(), 3),
}


def bracket_of(case, **query):
    model, num_classes = case
    points, labels = (X[TWO], Y[TWO]) if num_classes == 2 else (X, Y)
    model.fit(points, labels)
    part, right = points.iloc[PART], model.predict(points.iloc[PART])
    bracket = fp.robust_radius(model, part, right, **query)
    flipped = np.isfinite(bracket.attacked)
    assert flipped.any()
    return model, part, right, bracket


@pytest.mark.parametrize("name", PROVEN)
def test_what_is_a_network_or_a_tree_is_closed(name):
    _, _, _, bracket = bracket_of(PROVEN[name])
    assert (bracket.gap <= 0.01).all()


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_are_positive_and_below_what_random_changes_show(name, norm):
    model, part, labels, bracket = bracket_of(BOUNDED[name], norm=norm, unit="std", reference=X)
    assert (bracket.certified > 0).all()
    rng = np.random.default_rng(0)
    sigma = X.to_numpy().std(axis=0)
    for x, label, radius in zip(part.to_numpy(), labels, bracket.certified, strict=True):
        u = rng.normal(size=(400, x.size)) * (rng.random((400, x.size)) < 0.3)
        length = np.linalg.norm(u, ord=2 if norm == "l2" else np.inf, axis=1, keepdims=True)
        z = x + 0.999 * radius * sigma * u / np.maximum(length, 1e-9)
        assert (model.predict(pandas.DataFrame(z, columns=part.columns)) == label).all()


@pytest.mark.parametrize("name", ATTACKED)
def test_every_other_classifier_is_attacked_and_says_that_nothing_is_proven(name):
    _, part, _, bracket = bracket_of(ATTACKED[name])
    assert "not certified" in repr(bracket)
    assert "(proven)" not in repr(bracket)
    assert "Nothing is proven because" in str(bracket)
    assert bracket.witness.shape == part.shape


def test_the_attack_by_answers_comes_near_the_closed_form():
    model = logistic().fit(X.to_numpy(), Y)
    part = X.to_numpy()[::30]
    exact = fp.robust_radius(model, part, Y[::30])
    for function in (model.predict, model.predict_proba, lambda z: torch.as_tensor(model.predict_proba(z))):
        called = fp.robust_radius(function, part, Y[::30])
        assert (called.attacked >= exact.certified).all()
        assert (called.attacked <= 1.3 * exact.attacked).all()


def test_fixed_features_and_bounds_hold_for_functions():
    model = logistic().fit(X.to_numpy(), Y)
    x = X.to_numpy()[::60]
    bounds = (X.to_numpy().min(axis=0), X.to_numpy().max(axis=0))
    bracket = fp.robust_radius(model.predict, x, Y[::60], fixed=[0, 6], bounds=bounds)
    assert not bracket.witness[:, [0, 6]].any()
    moved = x + bracket.witness
    assert ((moved >= bounds[0] - 1e-9) & (moved <= bounds[1] + 1e-9)).all()


def test_a_tree_agrees_with_a_grid_in_the_plane():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    tree = DecisionTreeClassifier(random_state=0).fit(x, y)
    bracket = fp.robust_radius(tree, x[:6], tree.predict(x[:6]))
    grid = np.stack(np.meshgrid(*[np.linspace(-3, 3, 601)] * 2), axis=-1).reshape(-1, 2)
    answers = tree.predict(grid)
    for point, radius, label in zip(x[:6], bracket.certified, tree.predict(x[:6]), strict=True):
        nearest = np.linalg.norm(grid[answers != label] - point, axis=1).min()
        assert radius <= nearest + 1e-6
        assert radius >= nearest - 0.015


FORESTS = {
    "forest": RandomForestClassifier(6, max_depth=3, random_state=0),
    "votes that tie": RandomForestClassifier(4, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4, min_samples_leaf=3),
    "stumps": AdaBoostClassifier(n_estimators=6, random_state=0),
}


@pytest.mark.parametrize("norm", [2, np.inf])
@pytest.mark.parametrize("bounds", [None, (-1.2, 0.8)])
@pytest.mark.parametrize("name", FORESTS)
def test_a_forest_agrees_with_all_cells_of_the_plane(name, bounds, norm):
    rng = np.random.default_rng(2)
    x = rng.uniform(-1.1, 0.7, size=(60, 2))
    y = (x[:, 0] * x[:, 1] > 0).astype(int) + (x[:, 0] > 0.5)
    model, weights = FORESTS[name].fit(x, y), np.array([1.0, 3.0])
    label = model.predict(x[:5])
    bracket = fp.robust_radius(model, x[:5], label, norm=norm, bounds=bounds, weights=weights)
    side = [
        np.unique(np.clip(np.concatenate([np.linspace(-2, 2, 401), x[:, j]]), *(bounds or (-2, 2))))
        for j in (0, 1)
    ]
    grid = np.stack(np.meshgrid(*side), axis=-1).reshape(-1, 2)
    answers = model.predict(grid)
    flipped = np.isfinite(bracket.attacked)
    assert (model.predict(x[:5] + bracket.witness) != label)[flipped].all()
    for point, own, low, high in zip(x[:5], label, bracket.certified, bracket.attacked, strict=True):
        flipped = grid[answers != own]
        nearest = (
            np.linalg.norm((flipped - point) * weights, ord=norm, axis=1).min() if len(flipped) else np.inf
        )
        assert low <= nearest
        assert low >= 0.99 * high - 1e-5 or high == np.inf  # coordinates are rounded to float32


@pytest.mark.parametrize("library", ["xgboost.XGBClassifier", "lightgbm.LGBMClassifier"])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_boosting_of_other_libraries_is_read(library, num_classes):
    module, name = library.split(".")
    model = getattr(pytest.importorskip(module), name)(n_estimators=5, max_depth=3)
    points, labels = (X[TWO], Y[TWO]) if num_classes == 2 else (X, Y)
    model.fit(points.to_numpy(), labels)
    part = points.to_numpy()[::30]
    bracket = fp.robust_radius(model, part, model.predict(part))
    assert (bracket.gap <= 0.01).all()
    assert set(bracket.method) == {"search over the leaves"}


class Several(nn.Module):
    """Scores among other things."""

    def __init__(self, form):
        super().__init__()
        self.layer, self.form = nn.Linear(13, 3), form

    def forward(self, x):
        scores = self.layer(x)
        return {
            "logits": {"logits": scores, "h": x},
            "keys": {"out": scores, "h": x},
            "tuple": (scores, x),
            "one": (scores,),
        }[self.form]


@pytest.mark.parametrize(("form", "output"), [("logits", None), ("keys", "out"), ("tuple", 0), ("one", None)])
def test_modules_with_several_outputs_are_proven(form, output):
    torch.manual_seed(0)
    module = Several(form)
    x = X.to_numpy()[::60]
    labels = module.layer(torch.tensor(x).float()).argmax(dim=1)
    assert (fp.robust_radius(module, x, labels, output=output).gap <= 0.01).all()


@pytest.mark.parametrize(("form", "words"), [("keys", "output='out'"), ("tuple", "output=0")])
def test_modules_with_several_outputs_say_what_to_do(form, words):
    with pytest.raises(ValueError, match=words):
        fp.robust_radius(Several(form), X.to_numpy()[:1], [0])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda z: z[0, 0], "labels of shape"),
        (lambda _: 1 / 0, "does not take"),
        (lambda _: [1], "labels of shape"),
    ],
)
def test_functions_that_are_no_classifiers_are_refused(function, words):
    with pytest.raises(ValueError, match=words):
        fp.robust_radius(function, X.to_numpy()[:3], [0, 0, 0])


def recurrent(path):
    """A module whose ONNX file has an operator that is not known, for any number of points, or for one."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.out = nn.LSTM(1, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x):
            return self.out(self.steps(x.unsqueeze(2))[0][:, -1])

    torch.manual_seed(0)
    module = Recurrent()
    torch.onnx.export(module, (torch.zeros(1, 13),), str(path), dynamo=False, input_names=["x"])
    return module


@pytest.mark.filterwarnings("ignore")
def test_an_onnx_file_with_an_unknown_operator_is_run_and_attacked(tmp_path):
    pytest.importorskip("onnxruntime")
    part = X.iloc[::60]
    module = recurrent(tmp_path / "m.onnx")
    labels = module(torch.tensor(part.to_numpy(), dtype=torch.float32)).argmax(dim=1)
    bracket = fp.robust_radius(tmp_path / "m.onnx", part, labels)
    assert "LSTM" in str(bracket)
    assert (bracket.attacked > 0).all()
    at = torch.tensor(part.to_numpy() + bracket.witness, dtype=torch.float32)
    flipped = np.isfinite(bracket.attacked)
    assert flipped.any()
    assert (module(at).argmax(dim=1) != labels).numpy()[flipped].all()


@pytest.mark.filterwarnings("ignore")
def test_the_command_attacks_it_too(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    module, x = recurrent(tmp_path / "m.onnx"), X.to_numpy()[::60]
    np.savez(tmp_path / "data.npz", x=x, y=module(torch.tensor(x).float()).argmax(dim=1))
    files = [str(tmp_path / name) for name in ("m.onnx", "data.npz")]
    assert cli.main(["radius", *files, "--out", str(tmp_path / "radii"), "--report"]) == 0
    assert "the operator LSTM is not known" in capsys.readouterr().out
    assert (tmp_path / "radii" / "report.html").is_file()


@pytest.mark.filterwarnings("ignore")
def test_without_onnxruntime_it_says_what_to_install(tmp_path, monkeypatch):
    recurrent(tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match="pip install onnxruntime"):
        fp.robust_radius(tmp_path / "m.onnx", X.iloc[::60], Y[::60])


def test_a_label_that_a_function_should_have_given_is_known():
    part = X.to_numpy()[::60]
    bracket = fp.robust_radius(lambda z: np.where(z[:, 0] > 0, "a", "b"), part, ["a", "b", "c"])
    assert bracket.attacked[2] == 0
    with pytest.raises(ValueError, match="Unknown labels"):
        fp.robust_radius(lambda z: np.where(z[:, 0] > 0, "a", "b"), part, ["d", "d", "c"])
