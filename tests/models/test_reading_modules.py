import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from featureprism.models import read_model
from featureprism.models.reading.foreign import CalledScores
from featureprism.models.reading.nodes import GraphScores
from featureprism.models.scores import LayeredScores, LinearScores, ScoreNet
from featureprism.networks import (
    MLP,
    LinearClassifier,
    PolynomialReLU,
    PowerReLU,
    ReLU,
    Tanh,
    TwoLayerNet,
    TwoLogits,
)
from featureprism.networks.grouped import GroupedNet

DIM = 6


def seasoned(module):
    """Weights and running statistics that no fold can miss."""
    generator = torch.Generator().manual_seed(1)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.running_mean.normal_(generator=generator)
            layer.running_var.uniform_(0.5, 2, generator=generator)
            if layer.weight is not None:
                layer.weight.data.normal_(generator=generator)
                layer.bias.data.normal_(generator=generator)
    return module


class Handwritten(nn.Module):
    def __init__(self, forward, **layers):
        super().__init__()
        self.step = forward
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.register_buffer("mean", torch.linspace(-1, 1, DIM))

    def forward(self, x, features=False):
        if features:
            return x
        return self.step(self, x)


def one(outputs=3):
    return {"a": nn.Linear(DIM, 5), "b": nn.Linear(5, outputs)}


CHAINS = {
    "linear": (lambda: nn.Linear(DIM, 4), LinearScores),
    "one output": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 1)), ScoreNet),
    "(n,)": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 1), nn.Flatten(0)), ScoreNet),
    "flatten, nested, dropout": (
        lambda: nn.Sequential(
            nn.Flatten(), nn.Sequential(nn.Linear(DIM, 5), nn.Dropout(0.9), nn.Tanh()), nn.Identity(), nn.Linear(5, 2)
        ),
        ScoreNet,
    ),
    "three layers": (
        lambda: nn.Sequential(nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)),
        LayeredScores,
    ),
    "norm after": (
        lambda: nn.Sequential(nn.Linear(DIM, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)),
        ScoreNet,
    ),
    "norm before": (
        lambda: nn.Sequential(nn.BatchNorm1d(DIM), nn.Linear(DIM, 5), nn.ReLU(), nn.BatchNorm1d(5, affine=False), nn.Linear(5, 3)),
        ScoreNet,
    ),
    "parametrised": (
        lambda: nn.Sequential(
            parametrizations.spectral_norm(nn.Linear(DIM, 5)), nn.ReLU(), parametrizations.weight_norm(nn.Linear(5, 3))
        ),
        ScoreNet,
    ),
    "norm alone": (lambda: nn.BatchNorm1d(DIM), LinearScores),
    "products": (
        lambda: nn.Sequential(
            nn.Linear(DIM, 5), nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 3), nn.Linear(3, 3)
        ),
        ScoreNet,
    ),
    "relu first and last": (lambda: nn.Sequential(nn.ReLU(), nn.Linear(DIM, 3), nn.ReLU()), LayeredScores),
    "softmax": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 3), nn.Softmax(dim=1)), ScoreNet),
    "log softmax": (lambda: nn.Sequential(nn.Linear(DIM, 3), nn.LogSoftmax(dim=-1)), LinearScores),
    "sigmoid": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 1), nn.Sigmoid()), ScoreNet),
    "tanh last": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 1), nn.Tanh()), ScoreNet),
    "sigmoid inside": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.Sigmoid(), nn.Linear(5, 3)), ScoreNet),
    "by hand": (lambda: Handwritten(lambda s, x: s.b(torch.relu(s.a(x))), **one()), ScoreNet),
    "view": (lambda: Handwritten(lambda s, x: s.b(F.relu(s.a(x.view(x.size(0), -1)))), **one()), ScoreNet),
    "view of a size": (lambda: Handwritten(lambda s, x: s.b(s.a(x.view(-1, DIM)).tanh()), **one()), ScoreNet),
    "shape": (lambda: Handwritten(lambda s, x: s.b(torch.tanh(s.a(x.reshape(x.shape[0], -1)))), **one()), ScoreNet),
    "flatten": (lambda: Handwritten(lambda s, x: s.b(F.relu(s.a(torch.flatten(x, 1)))), **one()), ScoreNet),
    ".flatten": (lambda: Handwritten(lambda s, x: s.b(s.a(x.flatten(1)).relu()), **one()), ScoreNet),
    "squeeze": (lambda: Handwritten(lambda s, x: s.b(F.relu(s.a(x))).squeeze(-1), **one(1)), ScoreNet),
    "column": (lambda: Handwritten(lambda s, x: s.b(F.relu(s.a(x)))[:, 0], **one(1)), ScoreNet),
    "standardised": (lambda: Handwritten(lambda s, x: s.b(F.relu(s.a((x - s.mean) / 0.3 + 1))), **one()), ScoreNet),
    "1 - x": (lambda: Handwritten(lambda s, x: s.b(F.relu(s.a(2 * (1 - x)))), **one()), ScoreNet),
    "functional": (
        lambda: Handwritten(
            lambda s, x: F.log_softmax(
                F.linear(F.dropout(torch.relu(x @ s.a.weight.T), 0.5, s.training), s.b.weight), dim=1
            ),
            **one(),
        ),
        ScoreNet,
    ),
    "power": (lambda: Handwritten(lambda s, x: s.b(torch.relu(s.a(x)) ** 3), **one()), ScoreNet),
    "MLP": (lambda: MLP([torch.randn(5, DIM), torch.randn(4, 5), torch.randn(1, 4)]), MLP),
    "LinearClassifier": (lambda: LinearClassifier(torch.randn(DIM), 0.3), LinearClassifier),
}  # fmt: skip


def outputs(module, x):
    """What the module itself says, as scores; probabilities and single outputs included."""
    with torch.no_grad():
        out = copy.deepcopy(module).eval().double()(x)
    return out.squeeze(1) if out.ndim == 2 and out.shape[1] == 1 else out


TAILS = {
    "softmax": lambda scores: scores.softmax(dim=1),
    "log softmax": lambda scores: scores.log_softmax(dim=1),
    "functional": lambda scores: scores.log_softmax(dim=1),
    "sigmoid": torch.sigmoid,
    "tanh last": torch.tanh,
}


def scores(found, own, name):
    """What was read, in the form of the module's own outputs."""
    read = found.scores(POINTS)
    read = read[:, 1] - read[:, 0] if own.ndim == 1 else read
    return TAILS[name](read) if name in TAILS else read


POINTS = torch.randn(40, DIM, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("name", CHAINS)
def test_a_module_is_read_as_the_network_that_it_is(name):
    make, kind = CHAINS[name]
    torch.manual_seed(0)
    module = seasoned(make())
    before = {key: value.clone() for key, value in module.state_dict().items()}
    found = read_model(module, probe=POINTS)
    assert type(found.net) is kind
    assert (found.reason, found.classes) == ("", None)
    own = outputs(module, POINTS)
    torch.testing.assert_close(scores(found, own, name), own, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(outputs(module, POINTS), own)
    assert module.training  # neither mode nor weights have changed
    assert all(
        torch.equal(before[key], value) and value.dtype == before[key].dtype
        for key, value in module.state_dict().items()
    )


def test_a_float32_module_agrees_with_its_own_forward_pass():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(DIM, 50), nn.ReLU(), nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 10))
    torch.testing.assert_close(
        read_model(module).net(POINTS), module(POINTS.float()).detach().double(), atol=1e-5, rtol=1e-5
    )


def test_images_enter_flattened_or_as_they_are():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 3))
    images = POINTS.reshape(-1, 1, 2, 3)
    found = read_model(module, probe=images)
    torch.testing.assert_close(found.net(POINTS), outputs(module, images))


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(DIM, 3)

    def forward(self, x):
        return self.a(x) if x.sum() > 0 else -self.a(x)


class Picky(nn.Module):
    """Computes in float32 whatever comes."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(DIM, 3)

    def forward(self, x):
        return F.gelu(F.linear(x.float(), self.a.weight.float())) @ torch.eye(3)


ONLY_CALLED = {
    "ELU": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.ELU(), nn.Linear(5, 3)), "elu"),
    "norm over a layer": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.LayerNorm(5), nn.Linear(5, 3)), "layer_norm"),
    "control flow": (Looks, "depends on the values"),
    "softmax inside": (lambda: nn.Sequential(nn.Linear(DIM, 5), nn.Softmax(dim=1), nn.Linear(5, 3)), "Softmax"),
    "no running statistics": (lambda: nn.Sequential(nn.Linear(DIM, 3), nn.BatchNorm1d(3, track_running_stats=False)), "running"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONLY_CALLED)
def test_what_is_no_chain_is_called_and_says_why(name):
    make, reason = ONLY_CALLED[name]
    torch.manual_seed(0)
    module = make()
    found = read_model(module, probe=POINTS)
    assert isinstance(found.net, CalledScores)
    assert reason in found.reason
    torch.testing.assert_close(found.net(POINTS), outputs(module, POINTS))
    with pytest.raises(ValueError, match="give points"):
        read_model(module)


GRAPHS = {
    "mixed": (
        lambda: nn.Sequential(nn.Linear(DIM, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)),
        "ReLU and Tanh",
    ),
    "branches around tanh": (
        lambda: Handwritten(lambda s, x: s.b(s.a(x) + torch.tanh(s.a(x))), **one()),
        "joins branches",
    ),
    "deep powers": (
        lambda: Handwritten(lambda s, x: torch.relu(s.b(torch.relu(s.a(x)) ** 2)) ** 2, **one()),
        "several hidden layers",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_no_dense_network_stays_a_graph_and_says_why(name):
    make, reason = GRAPHS[name]
    torch.manual_seed(0)
    module = make()
    found = read_model(module)
    assert isinstance(found.net, GraphScores)
    assert reason in found.reason
    torch.testing.assert_close(found.net(POINTS), outputs(module, POINTS))


def test_a_module_of_single_precision_is_called_in_it():
    torch.manual_seed(0)
    module = Picky()
    found = read_model(module, probe=POINTS)
    assert found.net(POINTS).dtype == torch.float64
    torch.testing.assert_close(found.net(POINTS), module(POINTS).double())


@pytest.mark.parametrize("last", [nn.Sigmoid, nn.Identity])
def test_the_sign_of_a_single_logit_decides_before_its_sigmoid(last):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(DIM, 5), nn.ELU(), nn.Linear(5, 1))
    found = read_model(nn.Sequential(body, last()), probe=POINTS)
    torch.testing.assert_close(found.net(POINTS)[:, 1], outputs(body, POINTS))


class Probability(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(DIM, 1)

    def forward(self, x):
        return torch.sigmoid(self.a(x)) if x.sum() < 1e9 else x


def test_a_probability_that_cannot_be_undone_is_refused():
    with pytest.raises(ValueError, match="return the logit"):
        read_model(Probability(), probe=POINTS)


class Sneaky(nn.Linear):
    """A linear layer whose trace leaves out what it does to its weights."""

    def forward(self, x):
        out = F.linear(x, self.weight, self.bias)
        self.calls = getattr(self, "calls", 0) + 1
        return out * (1 if self.calls < 2 else 2)


def test_a_module_that_was_misread_is_refused():
    with pytest.raises(ValueError, match="not read rightly"):
        read_model(Sneaky(DIM, 3), probe=POINTS)


def test_hooks_are_part_of_what_a_module_computes():
    module = nn.Sequential(nn.Linear(DIM, 3))
    module[0].register_forward_hook(lambda _module, _args, out: 2 * out)
    found = read_model(module, probe=POINTS)
    assert isinstance(found.net, LinearScores)
    torch.testing.assert_close(found.net(POINTS), module.double()(POINTS).detach())


class Joins(nn.Module):
    """The scores of a point depend on the other points of the call."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(DIM, 3)

    def forward(self, x):
        return self.a(x - x.mean(dim=0, keepdim=True) / 2)


def test_a_module_that_joins_points_is_refused():
    with pytest.raises(ValueError, match="not read rightly"):
        read_model(Joins(), probe=POINTS)


class Quiet(nn.Module):
    """One large score hides the others; the last is read wrongly."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        small = 1e-6 * x[:, :1] * (1 if self.calls < 2 else 3)
        return torch.cat([1e3 + 0 * x[:, :1], 1e3 + small, 1e3 - 2e-6 * x[:, 1:2]], dim=1)


def test_every_margin_is_compared_beside_its_own_size():
    with pytest.raises(ValueError, match="not read rightly"):
        read_model(Quiet(), probe=POINTS)


@pytest.mark.parametrize("activation", [ReLU(), PowerReLU(2.5), PolynomialReLU(3.0), Tanh()], ids=str)
def test_our_own_networks_are_read(activation):
    torch.manual_seed(0)
    W, a, b = torch.randn(5, DIM), torch.randn(5), torch.randn(5)
    net = TwoLayerNet(W, a, b, activation=activation)
    for model in (net, TwoLogits(net)):
        read = read_model(model, probe=POINTS).scores(POINTS)
        torch.testing.assert_close(read[:, 1] - read[:, 0], net.double()(POINTS).detach())
    grouped = GroupedNet(torch.randn(3, 4, DIM))
    torch.testing.assert_close(read_model(grouped).net(POINTS), grouped.double()(POINTS).detach())
    layered = LayeredScores([W, torch.randn(3, 5)], [b, torch.randn(3)], ReLU())
    assert read_model(layered).net is not layered
    torch.testing.assert_close(read_model(layered).net(POINTS), layered.double()(POINTS).detach())


def test_a_zero_neuron_of_a_prelu_network_is_silent():
    W = torch.ones(2, DIM, dtype=torch.float64) * torch.tensor([[1.0], [0.0]])
    net = TwoLayerNet(W, torch.ones(2).double(), 10 * torch.ones(2).double(), activation=PolynomialReLU(2.0))
    torch.testing.assert_close(read_model(net).scores(POINTS)[:, 1], net(POINTS).detach())


REFUSED = {
    "stack": (lambda: TwoLayerNet(torch.ones(2, 3, DIM), torch.ones(2, 3), activation=ReLU()), "stack"),
    "class": (lambda: nn.Linear, "is a class"),
    "nothing": (lambda: None, "no model"),
    "NaN": (lambda: _filled(nn.Linear(DIM, 3), np.nan), "finite"),
    "huge": (lambda: _filled(nn.Linear(DIM, 3).double(), 1e200), "overflow"),
    "dimension": (lambda: nn.Linear(DIM + 1, 3), "coordinates"),
    "dimension after a ReLU": (lambda: nn.Sequential(nn.ReLU(), nn.Linear(DIM + 1, 3)), "coordinates"),
    "dimension of ours": (lambda: LinearClassifier(torch.ones(DIM + 1)), "coordinates"),
    "softmax of one": (lambda: nn.Sequential(nn.Linear(DIM, 1), nn.Softmax(dim=1)), "return the logit"),
    "no weights yet": (lambda: nn.LazyLinear(3), "lazy layers without weights"),
    "two inputs": (lambda: nn.Bilinear(DIM, DIM, 3), "does not take points"),
    "several outputs": (lambda: nn.Sequential(nn.LSTM(DIM, 3)), "scores of shape"),
    "one output of images": (lambda: nn.Conv1d(1, 1, 1), "scores of shape"),
    "path": (lambda: "model.pt", "neither"),
}


def _filled(layer, value):
    layer.weight.data.fill_(value)
    return layer


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_classifier_is_refused_in_one_sentence(name):
    make, told = REFUSED[name]
    with pytest.raises(ValueError, match=told) as caught:
        read_model(make(), probe=POINTS if name != "one output of images" else POINTS[:, None])
    assert "\n" not in str(caught.value)


def test_classes_are_named_once_and_in_order():
    layer = nn.Linear(DIM, 3)
    assert read_model(layer, ["a", "b", "c"]).classes.tolist() == ["a", "b", "c"]
    for wrong in (["a", "b"], ["a", "b", "b"]):
        with pytest.raises(ValueError, match="class"):
            read_model(layer, wrong)
