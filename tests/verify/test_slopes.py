"""Smooth activations and ℓ1, the whole way: fit, radius, file, both checkers."""

from functools import cache
from io import BytesIO
from math import inf

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from torch import nn

import featureprism as fp
from featureprism.attacks.minimum_norm import onto_l1_ball
from featureprism.checker import exact
from featureprism.checker.enclosed import enclosed
from featureprism.checker.layers import Layers, Region
from featureprism.models.read import read_model
from featureprism.verify.deep import methods
from featureprism.verify.slopes import steepest_l1

X = np.random.default_rng(0).normal(size=(150, 4))
Y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(int) + (X[:, 3] > 0.7)
POINTS = slice(0, 3)


@cache
def fitted(activation):
    if isinstance(activation, str):
        return MLPClassifier(
            (8, 6), activation, solver="lbfgs", alpha=0.1, max_iter=3000, random_state=0
        ).fit(X, Y)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), activation, nn.Linear(8, 6), activation, nn.Linear(6, 3)).double()
    optimiser = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(150):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(torch.from_numpy(X)), torch.from_numpy(Y)).backward()
        optimiser.step()
    return net


MODELS = {
    "tanh": "tanh",
    "logistic": "logistic",
    "gelu": nn.GELU(),
    "silu": nn.SiLU(),
    "relu": nn.ReLU(),
}


@pytest.mark.parametrize(
    ("name", "norm"),
    [("tanh", 1), ("tanh", 2), ("tanh", inf), ("logistic", 2), ("gelu", inf), ("silu", 1), ("relu", 1)],
)
def test_radii_are_proven_before_both_checkers(name, norm, tmp_path):
    model, x, y = fitted(MODELS[name]), X[POINTS], Y[POINTS]
    bounds = (-4.0, 4.0) if name in ("tanh", "silu") else None
    bracket = fp.robust_radius(model, x, y, norm=norm, bounds=bounds)
    right = bracket.attacked > 0
    assert right.any()
    assert (bracket.certified[right] > 0.3 * bracket.attacked[right]).all()
    assert set(np.array(bracket.method)[right]) == {"relaxation"}
    checked = fp.check(bracket, model, x, y, norm=norm, bounds=bounds)
    assert checked
    read_model(model, probe=x).save(tmp_path / "model.npz")
    points = BytesIO()
    np.savez(points, x=x, y=y)
    again = exact.verify(bracket.content(), (tmp_path / "model.npz").read_bytes(), points.getvalue())
    assert (np.array(again) >= bracket.certified).all()


def test_one_hidden_layer_and_linear_models_have_l1_radii():
    y = (Y > 0).astype(int)
    linear = nn.Linear(4, 2).double()
    x = X[:3]
    label = linear(torch.from_numpy(x)).argmax(dim=1).numpy()
    bracket = fp.robust_radius(linear, x, label, norm="l1")
    W, b = (p.detach().numpy() for p in linear.parameters())
    v, gap = W[0] - W[1], b[0] - b[1]
    np.testing.assert_allclose(bracket.certified, np.abs(x @ v + gap) / np.abs(v).max(), rtol=1e-8)
    np.testing.assert_allclose(bracket.attacked, bracket.certified, rtol=1e-6)
    one = MLPClassifier((6,), solver="lbfgs", alpha=0.1, max_iter=3000, random_state=0).fit(X, y)
    bracket = fp.robust_radius(one, x, y[:3], norm=1)
    right = bracket.attacked > 0
    assert (bracket.certified[right] > 0.3 * bracket.attacked[right]).all()
    assert fp.check(bracket, one, x, y[:3], norm=1)


def test_the_least_of_a_linear_form_in_an_l1_ball_with_a_box():
    rng = np.random.default_rng(1)
    x, v = rng.uniform(-0.2, 0.2, size=5), rng.normal(size=(6, 5))
    region = Region.around(x, 0.7, 1, (-0.3, 0.5))
    delta = np.clip(rng.laplace(size=(20_000, 5)), region.low, region.high)
    delta *= np.minimum(1, 0.7 / np.abs(delta).sum(axis=1, keepdims=True))
    bound = region.least(enclosed(v))
    assert (bound <= (delta @ v.T).min(axis=0)).all()
    box = fp.geometry.Box(torch.from_numpy(region.low)[None], torch.from_numpy(region.high)[None])
    best = steepest_l1(-torch.from_numpy(v), 0.7, box)
    assert float(best.abs().sum(dim=1).max()) <= 0.7 + 1e-12
    np.testing.assert_allclose((best.numpy() * v).sum(axis=1), bound, rtol=1e-9)


def test_projection_onto_an_l1_ball():
    delta = torch.tensor([[3.0, -1.0], [0.2, 0.1]]).double()
    projected = onto_l1_ball(delta, torch.tensor([[2.0], [1.0]]).double())
    torch.testing.assert_close(projected, torch.tensor([[2.0, 0.0], [0.2, 0.1]]).double())


def test_a_model_that_gates_itself_is_read_as_silu_and_an_approximate_gelu_is_not_read():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 2)

        def forward(self, x):
            z = self.a(x)
            return self.b(z * torch.sigmoid(z))

    weights = read_model(Gated().double(), probe=X[:2]).weights
    assert isinstance(weights, Layers)
    assert weights.activation == "silu"
    rough = nn.Sequential(nn.Linear(4, 5), nn.GELU(approximate="tanh"), nn.Linear(5, 2)).double()
    assert read_model(rough, probe=X[:2]).weights is None


def test_what_a_norm_of_1_cannot_be_asked_with_is_one_sentence():
    with pytest.raises(ValueError, match="takes the norms 2 and inf"):
        fp.robust_radius(fitted(MODELS["relu"]), X[:1], Y[:1], norm=1, arithmetic="float32")
    kernel = SVC().fit(X, Y > 0)
    bracket = fp.robust_radius(kernel, X[:2], Y[:2] > 0, norm=1)
    assert (bracket.certified <= bracket.attacked).all()


def test_bounds_that_would_take_longer_than_what_is_left_are_not_begun(monkeypatch):
    net, x, y = fitted(MODELS["relu"]), X[:2], Y[:2]
    monkeypatch.setattr(methods, "FLOPS", 1.0)
    bracket = fp.robust_radius(net, x, y, eps=0.01, budget=fp.Budget(seconds=60))
    assert set(bracket.method) <= {"balls", "norm product", "flipped", "misclassified"}
