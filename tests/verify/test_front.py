"""The front door: one bracket through every route, labels of all kinds, and an answer that prints, saves and loads."""

import math

import numpy as np
import pytest
import torch
from asking import asked, check_point
from torch import nn

import featureprism as fp
from featureprism.models.scores import ScoreNet
from featureprism.networks import ReLU, Tanh, TwoLayerNet
from featureprism.verify import Budget, Query
from featureprism.verify.query import as_norm

CELLS = {"branches": 40}


@pytest.fixture(scope="module")
def task():
    """A ten-class network whose weights are all float32 numbers, so that every format holds them exactly."""
    rng = np.random.default_rng(0)
    W, b, V, c = (
        rng.normal(size=s).astype(np.float32).astype(np.float64) for s in ((16, 8), 16, (16, 10), 10)
    )
    x = rng.normal(size=(6, 8))
    y = (np.maximum(x @ W.T + b, 0) @ V + c).argmax(axis=1)
    return W, b, V, c, x, y


@pytest.fixture(scope="module")
def direct(task):
    W, b, V, c, x, y = task
    net = ScoreNet(*(torch.from_numpy(a) for a in (W, V, b, c)), activation=ReLU())
    return asked(net, torch.from_numpy(x), y, branches=40).bracket


def in_torch(W, b, V, c, dtype):
    module = nn.Sequential(nn.Flatten(), nn.Linear(8, 16), nn.Dropout(), nn.ReLU(), nn.Linear(16, 10)).to(
        dtype
    )
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), (W, b, V.T, c), strict=True):
            parameter.copy_(torch.from_numpy(value))
    return module


def in_sklearn(W, b, V, c, x, y):
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier((16,), random_state=0)
    model.partial_fit(x, y, classes=np.arange(10))
    model.coefs_, model.intercepts_ = [W.T, V], [b, c]
    return model


def in_onnx(W, b, V, c, path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    arrays = {"W": W.T, "b": b, "V": V, "c": c}
    initial = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["z"]),
        helper.make_node("Relu", ["z"], ["r"]),
        helper.make_node("MatMul", ["r", "V"], ["s"]),
        helper.make_node("Add", ["s", "c"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["out"], axis=1),
    ]
    real = TensorProto.FLOAT
    points, out = (helper.make_tensor_value_info(n, real, ["n", d]) for n, d in (("x", 8), ("out", 10)))
    model = helper.make_model(
        helper.make_graph(nodes, "net", [points], [out], initial),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("route", ["float32 module", "float64 module", "sklearn", "onnx", "npz"])
def test_every_route_gives_the_same_bracket(route, task, direct, tmp_path):
    W, b, V, c, x, y = task
    if route == "npz":
        model = tmp_path / "model.npz"
        np.savez(model, W=W, b=b, V=V, c=c, activation="relu")
    elif route == "onnx":
        model = in_onnx(W, b, V, c, tmp_path / "model.onnx")
    elif route == "sklearn":
        model = in_sklearn(*task)
    else:
        model = in_torch(W, b, V, c, torch.float32 if route == "float32 module" else torch.float64)
    bracket = asked(model, x, y, **CELLS)
    torch.testing.assert_close(bracket.attacked, torch.from_numpy(direct.attacked), rtol=2e-7, atol=0)
    torch.testing.assert_close(bracket.certified, torch.from_numpy(direct.certified), rtol=1e-9, atol=0)


def glued(W, b, V, c, own, rival):
    """f_own - f_rival as people write it by hand: the output bias is one more neuron, without weights and always at 1."""
    a = np.append(V[:, own] - V[:, rival], c[own] - c[rival])
    arrays = np.vstack([W, np.zeros(W.shape[1])]), a, np.append(b, 1.0)
    return TwoLayerNet(*(torch.from_numpy(array) for array in arrays), activation=ReLU())


def test_a_loop_over_rivals_gives_the_same_bracket(task, direct):
    *weights, x, y = task
    points = [0, 5]  # of one class; the first is closed up to the gap, the other up to rounding
    assert y[0] == y[5]
    assert float(direct.gap[0]) > 1e-3 > 1e-6 > float(direct.gap[5])
    rivals = [rival for rival in range(10) if rival != y[0]]
    loop = [asked(glued(*weights, y[0], rival), x[points], [1, 1], **CELLS) for rival in rivals]
    for side in ("certified", "attacked"):
        least = torch.stack([getattr(bracket, side) for bracket in loop]).amin(dim=0)
        torch.testing.assert_close(least, torch.from_numpy(getattr(direct, side)[points]), rtol=2e-7, atol=0)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["no", "yes", "yes", "no"], ["no", "yes"]),
        ([0, 1, 1, 0], None),
        ([-1, 1, 1, -1], None),
        ([False, True, True, False], None),
        (torch.tensor([0, 1, 1, 0]), None),
    ],
)
def test_labels_as_people_write_them(y, classes):
    model = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
        model[0].bias.zero_()
    X = [[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    bracket = asked(model, X, y, classes=classes)
    assert bracket.attacked.tolist() == pytest.approx([0.6, 0.6, 0.8, 0.8], rel=1e-6)
    assert bracket.certified.tolist() == pytest.approx([0.6, 0.6, 0.8, 0.8], rel=1e-6)


def test_a_pipeline_has_its_radius_in_the_space_of_its_input():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, -1.0]
    y = np.where(X.mean(axis=0) @ [1.0, 0.1, 3.0] < X @ [1.0, 0.1, 3.0], "up", "down")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    bracket = asked(model, X, y)
    w = model[-1].coef_[0] / model[0].scale_
    truth = np.abs(model.decision_function(X)) / np.linalg.norm(w)
    right = model.predict(X) == y
    np.testing.assert_allclose(bracket.certified.numpy()[right], truth[right], rtol=1e-8)
    assert (bracket.attacked.numpy()[~right] == 0).all()
    assert set(bracket.to_frame()["target"]) == {"up", "down"}


def test_deeper_networks_get_the_attack_and_proofs():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    x = torch.randn(4, 4, dtype=torch.float64)
    with torch.no_grad():
        y = model(x).argmax(dim=1)
    bracket = asked(model, x, y)
    assert bool((bracket.certified > 0).all())
    assert {"deep"} <= set(bracket.method) <= {"deep", "balls", "crown", "norm product"}
    flipped = torch.isfinite(bracket.attacked)
    with torch.no_grad():
        scores = model(x + bracket.witness)[flipped]
    rows = torch.arange(len(scores))
    assert bool((scores[rows, y[flipped]] <= scores[rows, bracket.target[flipped]]).all())


def test_modules_that_cannot_be_read_are_attacked_and_say_why():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 2, 3), nn.ELU(), nn.Flatten(), nn.Linear(8, 3)
    )
    x = torch.randn(4, 16)
    with torch.no_grad():
        y = model(x).argmax(dim=1)
    bracket = asked(model, x, y)
    assert set(bracket.method) == {"not certified yet: its step elu is not known"}
    assert "not certified yet" in repr(bracket.bracket)
    assert "proven" not in repr(bracket.bracket)
    assert not bool(bracket.certified.any())
    assert bool(torch.isfinite(bracket.attacked).any())


def test_the_answer_prints_as_one_line_and_survives_saving(direct, tmp_path):
    line = repr(direct)
    assert "\n" not in line
    assert f"{direct.half_radius[0]:.4g} (proven)" in line
    assert "nearest to breaking" in line
    assert "<svg" in direct._repr_html_()
    direct.save(tmp_path / "bracket.npz")
    again = fp.RadiusBracket.load(tmp_path / "bracket.npz")
    assert repr(again) == line
    assert list(again.to_frame()["target"]) == direct.target.tolist()
    np.testing.assert_allclose(again.witness, direct.witness)
    assert len(again.proofs()) == len(direct.proofs())
    assert direct.plot().axes


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Budget(branches=-1), "whole number, 0 or more, got -1"),
        (lambda: Budget(seconds=-1), "seconds must be a number, 0 or more, got -1"),
        (Budget, "A budget needs a limit"),
        (lambda: Query(gap=1.0), "gap must lie between 0 and 1, got 1.0"),
        (lambda: Query(eps=0.0), "eps must be positive and finite, got 0.0"),
        (lambda: Query(norm=3), "norm must be 1, 2 or math.inf"),
        (lambda: as_norm("l3"), "norm must be 1, 2 or math.inf"),
    ],
)
def test_queries_and_budgets_that_cannot_be_meant_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_two_layers_of_tanh_are_proven_by_norms_up_to_brute_force():
    """Rays on all sides find the truth in two dimensions; where tanh is nearly linear the product of norms is nearly exact."""
    W = torch.tensor([[1.0, 0.2], [0.9, -0.1]]).double()
    net = TwoLayerNet(0.01 * W, torch.tensor([1.0, 1.0]).double(), activation=Tanh())
    x, y = (
        torch.tensor([[1.0, 0.3], [2.0, -1.0], [-1.5, 0.2]]).double(),
        torch.tensor([1.0, 1.0, -1.0]).double(),
    )
    bracket = asked(net, x, y, branches=1)
    angles = torch.linspace(0, 2 * math.pi, 721)[:-1].double()
    rays = torch.stack([angles.cos(), angles.sin()], dim=1)
    radii = torch.linspace(0, 4, 2001).double()
    for i in range(3):
        moved = x[i] + radii[:, None, None] * rays
        flipped = (y[i] * net(moved.reshape(-1, 2)) <= 0).reshape(len(radii), -1).any(dim=1)
        truth = float(radii[flipped.nonzero()[0]])
        assert 0.95 * truth <= bracket.certified[i] <= truth
        assert bracket.attacked[i] == pytest.approx(truth, rel=0.01)
        assert check_point(bracket.certificates[i], net, x[i], float(y[i]))
