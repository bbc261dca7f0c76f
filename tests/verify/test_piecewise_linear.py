"""Networks that are linear in pieces, as they are given and as ONNX files, are proven as far as networks of ReLU rewritten by hand."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import featureprism as fp

CLOSED = 0.0101  # a gap of 1 %, which proofs aim at, and rounding


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 16), nn.Linear(16, 16), nn.Linear(16, 10)

    def forward(self, x):
        h = F.relu(self.a(x))
        return self.c(h + F.relu(self.b(h)))


class Layers(nn.Module):
    """ReLU layers of given weights and biases."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList()
        for W, b in layers:
            made = nn.Linear(W.shape[1], W.shape[0])
            made.weight.data, made.bias.data = W.detach().clone(), b.detach().clone()
            self.layers.append(made)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(F.relu(x) if i else x)
        return x


def both(first, last, offsets, signs):
    """A hidden layer whose units are written as two ReLUs each: shifted, or mirrored with another weight in the next layer."""
    W = torch.cat([s * first.weight for s, _ in signs])
    b = torch.cat([s * first.bias + o for (s, _), o in zip(signs, offsets, strict=True)])
    V = torch.cat([v * last.weight for _, v in signs], dim=1)
    return Layers((W, b), (V, last.bias))


def unrolled(net):
    image = torch.eye(64).view(64, 1, 8, 8)
    offset = net[1](torch.zeros(1, 1, 8, 8)).flatten()
    return Layers(((net[1](image).flatten(1) - offset).T, offset), (net[4].weight, net[4].bias))


def carried(net):
    eye, zero = torch.eye(16), torch.zeros(16)
    W, b = torch.cat([net.b.weight, eye]), torch.cat([net.b.bias, zero])
    return Layers((net.a.weight, net.a.bias), (W, b), (torch.cat([net.c.weight] * 2, dim=1), net.c.bias))


NETWORKS = {
    "convolution": (
        lambda: nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 3, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
                              nn.Linear(48, 10)),
        unrolled,
    ),
    "leaky": (
        lambda: nn.Sequential(nn.Linear(64, 20), nn.LeakyReLU(0.1), nn.Linear(20, 10)),
        lambda net: both(net[0], net[2], (0.0, 0.0), ((1, 1), (-1, -0.1))),
    ),
    "relu6": (
        lambda: nn.Sequential(nn.Linear(64, 20), nn.ReLU6(), nn.Linear(20, 10)),
        lambda net: both(net[0], net[2], (0.0, -6.0), ((1, 1), (1, -1))),
    ),
    "residual": (Residual, carried),
}  # fmt: skip


def trained(make):
    X, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
    x = (X / 16).float()
    torch.manual_seed(0)
    net = make()
    step = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        chosen = torch.randint(0, 1500, (256,))
        step.zero_grad()
        F.cross_entropy(net(x[chosen]), y[chosen]).backward()
        step.step()
    return net.eval(), x[1500:1504], y[1500:1504]


@pytest.mark.parametrize("name", NETWORKS)
def test_given_or_exported_a_network_closes_like_its_rewritten_twin(name, tmp_path):
    make, rewrite = NETWORKS[name]
    net, x, y = trained(make)
    twin = rewrite(net).eval()
    torch.testing.assert_close(twin(x), net(x), atol=1e-4, rtol=1e-4)
    models: list = [net]
    if pytest.importorskip("onnx"):
        path = str(tmp_path / "m.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the older exporter is called old
            torch.onnx.export(net, (x,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}})
        models.append(path)
    budget = fp.Budget(branches=300)
    expected = fp.robust_radius(twin, x, y, budget=budget)
    closed = expected.gap <= CLOSED
    assert bool(closed.any())
    for model in models:
        found = fp.robust_radius(model, x, y, budget=budget)
        assert bool((found.gap[closed] <= CLOSED).all())
        np.testing.assert_allclose(found.certified[closed], expected.certified[closed], rtol=0.03, atol=1e-6)


TWO_LAYERS = {
    "leaky": lambda: nn.LeakyReLU(0.1),
    "prelu": nn.PReLU,
    "relu6": nn.ReLU6,
    "hardtanh": nn.Hardtanh,
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "norm"), [(name, norm) for name in TWO_LAYERS for norm in (2, np.inf)])
def test_two_hidden_layers_close(name, norm):
    """The values that an activation adds or clips are exact functions of the neurons' own: proofs lose nothing to them."""
    make = TWO_LAYERS[name]
    net, x, y = trained(
        lambda: nn.Sequential(nn.Linear(64, 20), make(), nn.Linear(20, 20), make(), nn.Linear(20, 10))
    )
    bracket = fp.robust_radius(net, x, y, norm=norm)
    assert (bracket.gap <= CLOSED).all()
