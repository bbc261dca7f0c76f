"""Every operator that is linear in pieces, from torch and from ONNX, against the original on random points."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from featureprism.models import read_model
from featureprism.models.reading import graph, lowering
from featureprism.models.reading.nodes import GraphScores
from featureprism.models.scores import LayeredScores, LinearScores, ScoreNet

DENSE = (LinearScores, ScoreNet, LayeredScores)


class Step(nn.Module):
    """A linear layer, some step on an image of 2 x 6 x 6 values, and a linear layer."""

    def __init__(self, step, lengths=(6, 6), **layers):
        super().__init__()
        self.step, self.lengths = step, lengths
        self.first = nn.Linear(8, 2 * int(np.prod(lengths)))
        for name, layer in layers.items():
            setattr(self, name, layer)
        with torch.no_grad():
            size = self.step(self, torch.zeros(1, 2, *lengths)).numel()
        self.last = nn.Linear(size, 3)

    def forward(self, x):
        image = self.first(x).view(x.size(0), 2, *self.lengths)
        return self.last(self.step(self, image).flatten(1))


def layer(make, lengths=(6, 6)):
    return lambda: Step(lambda s, z: s.layer(z), lengths, layer=make())


def step(function, lengths=(6, 6), **layers):
    return lambda: Step(lambda _, z: function(z), lengths, **layers)


def inplace(z):
    h = z + 0
    F.relu(h, inplace=True)
    h += z
    return h.mul_(2.0)


TORCH = {
    "conv": layer(lambda: nn.Conv2d(2, 3, 3)),
    "conv stride padding": layer(lambda: nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 2), bias=False)),
    "conv dilation groups": layer(lambda: nn.Conv2d(2, 4, 2, dilation=2, groups=2)),
    "conv same": layer(lambda: nn.Conv2d(2, 2, 4, padding="same", dilation=2)),
    "conv circular": layer(lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")),
    "conv 1d": layer(lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1), (9,)),
    "conv 3d": layer(lambda: nn.Conv3d(2, 2, 2), (3, 3, 3)),
    "average": layer(lambda: nn.AvgPool2d(2)),
    "average padded": layer(lambda: nn.AvgPool2d(3, stride=2, padding=1)),
    "average not counting": layer(lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)),
    "average rounded up": layer(lambda: nn.AvgPool2d(4, stride=3, ceil_mode=True)),
    "average 1d": layer(lambda: nn.AvgPool1d(3), (9,)),
    "average all": layer(lambda: nn.AdaptiveAvgPool2d(1)),
    "average adaptive": layer(lambda: nn.AdaptiveAvgPool2d((3, 2))),
    "max": layer(lambda: nn.MaxPool2d(2)),
    "max padded": layer(lambda: nn.MaxPool2d(3, stride=2, padding=1)),
    "max rounded up dilated": layer(lambda: nn.MaxPool2d(2, stride=3, dilation=2, ceil_mode=True)),
    "max all": layer(lambda: nn.AdaptiveMaxPool2d(1)),
    "norm": layer(lambda: nn.BatchNorm2d(2)),
    "norm bare": layer(lambda: nn.BatchNorm2d(2, affine=False)),
    "norm 1d": layer(lambda: nn.BatchNorm1d(2), (5,)),
    "leaky": layer(lambda: nn.LeakyReLU(0.2)),
    "leaky over 1": layer(lambda: nn.LeakyReLU(3.0)),
    "prelu": layer(lambda: nn.PReLU()),
    "prelu per channel": layer(lambda: nn.PReLU(2, init=0.4)),
    "relu6": layer(lambda: nn.ReLU6()),
    "hardtanh": layer(lambda: nn.Hardtanh(-0.3, 0.4)),
    "hardsigmoid": layer(lambda: nn.Hardsigmoid()),
    "relu in place": layer(lambda: nn.ReLU(inplace=True)),
    "dropout": layer(lambda: nn.Sequential(nn.Dropout(0.9), nn.Dropout2d(0.9), nn.Identity())),
    "in place": step(inplace),
    "abs": step(torch.abs),
    "abs()": step(abs),
    "clamp": step(lambda z: z.clamp(-0.2, 0.3)),
    "clamp below": step(lambda z: torch.clamp(z, min=-0.1)),
    "clamp above": step(lambda z: z.clamp(max=0.1)),
    "maximum": step(lambda z: torch.maximum(z, -0.5 * z + 0.1)),
    "minimum": step(lambda z: torch.minimum(z[:, :1], z[:, 1:])),
    "amax": step(lambda z: z.amax(dim=(2, 3))),
    "mean": step(lambda z: z.mean(dim=(2, 3), keepdim=True) + z.sum(1, keepdim=True)),
    "broadcast constant": step(lambda z: (z - torch.arange(6.0)) * torch.tensor([1.0, -2.0]).view(1, 2, 1, 1)),
    "1 - z": step(lambda z: (1 - z) / 3 - (-z)),
    "transpose": step(lambda z: z.transpose(1, 2).relu().permute(0, 3, 1, 2)),
    "slices": step(lambda z: torch.cat([z[:, :1, ::2], z[:, 1:, 1::2], z[:, [1], :3]], dim=1)),
    "stack": step(lambda z: torch.stack([z, z.flip(-1)], dim=2)),
    "split": step(lambda z: sum(part.relu() for part in z.chunk(3, dim=2))),
    "pad": step(lambda z: F.pad(F.pad(z, (1, 0, 2, 1), value=0.7), (1, 1, 1, 1), mode="reflect")),
    "expand": step(lambda z: z[:, :, :1].expand(-1, -1, 4, -1) + z[:, :1, 1:5]),
    "squeeze": step(lambda z: z.unsqueeze(0).squeeze(0).reshape(-1, 72)),
    "matrix from the left": step(lambda z: torch.ones(2, 6).to(z.dtype) @ z),
    "matrix from the right": step(lambda z: z @ torch.linspace(-1, 1, 12).to(z.dtype).view(6, 2)),
    "residual": step(lambda z: (z + F.relu(z - 0.2)).relu() - z.relu()),
    "residual twice": step(lambda z: (lambda h: h + F.relu(h.flip(2)))(F.relu(z) + F.relu(z.flip(3)))),
    "long skip": step(lambda z: z + F.relu(F.relu(F.relu(z) - 0.1).flip(2) - 0.1)),
    "dense": step(lambda z: torch.cat([z, F.relu(z), F.relu(F.relu(z) - 0.1)], dim=1)),
    "shuffle": step(lambda z: F.pixel_unshuffle(z, 2)),
}  # fmt: skip
POINTS = torch.randn(20, 8, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def made(name):
    torch.manual_seed(0)
    module = TORCH[name]()
    generator = torch.Generator().manual_seed(1)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.running_mean.normal_(generator=generator)
            part.running_var.uniform_(0.5, 2, generator=generator)
            if part.weight is not None:
                part.weight.data.normal_(generator=generator)
    return module.eval()


@pytest.mark.parametrize("name", TORCH)
def test_a_step_of_torch_is_read_exactly(name):
    module = made(name)
    found = read_model(module, probe=POINTS)
    assert isinstance(found.net, DENSE)
    assert found.reason == ""
    own = copy.deepcopy(module).double()(POINTS).detach()
    torch.testing.assert_close(found.net(POINTS), own, atol=1e-9, rtol=1e-9)
    wide = 300 * POINTS  # where every kink has been passed
    torch.testing.assert_close(
        found.net(wide), copy.deepcopy(module).double()(wide).detach(), atol=1e-7, rtol=1e-9
    )


EXPORTED = [
    name for name in TORCH if name not in ("conv 3d", "average adaptive", "conv circular", "conv same")
]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_step_as_torch_exports_it_is_read_exactly(name, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    module = made(name)
    path = str(tmp_path / "m.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter is called old
        torch.onnx.export(
            module, (POINTS.float(),), path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}}
        )
    found = read_model(path, probe=POINTS)
    assert isinstance(found.net, DENSE)
    (own,) = ort.InferenceSession(path).run(None, {"x": POINTS.float().numpy()})
    np.testing.assert_allclose(found.net(POINTS).numpy(), own, atol=1e-4, rtol=1e-4)


class Residual(nn.Module):
    def __init__(self, channels=3):
        super().__init__()
        self.a, self.norm = nn.Conv2d(1, channels, 3, stride=2, padding=1), nn.BatchNorm2d(channels)
        self.b, self.last = nn.Conv2d(channels, channels, 3, padding=1), nn.Linear(16 * channels, 4)

    def forward(self, x):
        h = F.leaky_relu(self.norm(self.a(x)), 0.1)
        h = F.relu(h + self.b(F.relu(h)))
        return self.last(torch.flatten(h, 1))


def test_images_enter_as_images_and_without_points_nothing_is_guessed():
    torch.manual_seed(0)
    module, images = Residual().eval(), torch.randn(10, 1, 8, 8)
    found = read_model(module, probe=images)
    assert isinstance(found.net, LayeredScores)
    torch.testing.assert_close(
        found.net(images.flatten(1).double()), module(images).double().detach(), atol=1e-5, rtol=1e-5
    )
    with pytest.raises(ValueError, match="give points"):
        read_model(module)


def test_a_network_too_large_for_dense_layers_stays_a_graph(monkeypatch):
    torch.manual_seed(0)
    module, images = Residual().eval(), torch.randn(10, 1, 8, 8)
    monkeypatch.setattr(lowering, "MOST_NEURONS", 40)
    found = read_model(module, probe=images)
    assert isinstance(found.net, GraphScores)
    assert "48 neurons" in found.reason
    x = images.flatten(1).double().requires_grad_()
    own = copy.deepcopy(module).double()
    torch.testing.assert_close(found.net(x), own(x.view(10, 1, 8, 8)))
    (slope,) = torch.autograd.grad(found.net(x)[:, 0].sum(), x)
    (expected,) = torch.autograd.grad(own(x.view(10, 1, 8, 8))[:, 0].sum(), x)
    torch.testing.assert_close(slope, expected)


def test_what_is_carried_past_a_layer_stays_exact_and_small():
    rng = np.random.default_rng(0)
    x = graph.start((1, 5))
    h = x
    for _ in range(6):  # six residual blocks of one width
        h = graph.add(
            h, graph.dense(graph.relu(graph.dense(h, rng.normal(size=(4, 5)))), rng.normal(size=(5, 4)))
        )
    weights, biases, _ = lowering.dense_layers(graph.dense(h, rng.normal(size=(3, 5))).node)
    assert max(map(len, weights[:-1])) <= 4 + 10
    assert max(np.abs(b).max() for b in biases) < 1e8  # offsets of carrying neurons do not grow with depth
    z = rng.normal(size=(50, 5))
    own = z.copy()
    rng = np.random.default_rng(0)
    for _ in range(6):
        W, V = rng.normal(size=(4, 5)), rng.normal(size=(5, 4))
        own = own + np.maximum(own @ W.T, 0) @ V.T
    own = own @ rng.normal(size=(3, 5)).T
    for W, b in zip(weights, biases, strict=True):
        z = (z if W is weights[0] else np.maximum(z, 0)) @ W.T + b
    np.testing.assert_allclose(z, own, rtol=1e-8, atol=1e-8 * np.abs(own).max())


def test_equal_neurons_are_merged_and_silent_ones_dropped():
    x = graph.start((1, 4))
    z = graph.dense(x, np.eye(4)[:3])
    both = graph.add(graph.relu(z), graph.relu(graph.scale(z, 1.0)))
    weights, _, _ = lowering.dense_layers(
        graph.dense(both, np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])).node
    )
    assert [W.shape for W in weights] == [(2, 4), (2, 2)]
