"""Certificates of a program in float32: rounding errors are bounded, counted in the file, and counted again by the checker."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import featureprism as fp
from featureprism.checker.float32 import float32_errors
from featureprism.checker.layers import Layers
from featureprism.models.scores import LayeredScores
from featureprism.networks import ReLU
from featureprism.verify.float32 import TOO_ROUGH

X, Y = np.array([[0.0, 0.99]]), [0]
BUDGET = fp.Budget(branches=4)


def sequential(*widths: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def cancelling() -> nn.Sequential:
    """Scores x_2 and 2|(46 x_1 + 2^24) - 2^24 - 46 x_1|: the second is 0 in real numbers."""
    module = sequential(2, 3, 3, 3, 2)
    e, z = 2.0**24, 0.0
    parts = [
        ([[46, z], [46, z], [z, 1]], [e, 64, 2]),
        ([[1, z, z], [z, 1, z], [z, z, 1]], [64 - e, z, z]),
        ([[1, -1, z], [-1, 1, z], [z, z, 1]], [z, z, z]),
        ([[z, z, 1], [2, 2, z]], [-2, z]),
    ]
    with torch.no_grad():
        for layer, (W, b) in zip(module[::2], parts, strict=True):
            layer.weight.copy_(torch.tensor(W))
            layer.bias.copy_(torch.tensor(b))
    return module


def flips(module: nn.Module, x: np.ndarray, label: int) -> bool:
    """Whether the module itself answers otherwise."""
    with torch.no_grad():
        return int(module(torch.tensor(x, dtype=torch.float32)[None]).argmax()) != label


def test_a_module_is_not_certified_beyond_its_flip_in_float32():
    module = cancelling()
    assert not flips(module, X[0], 0)
    assert flips(module, X[0] + [0.011, 0], 0)
    real = fp.robust_radius(module, X, Y, budget=BUDGET)
    assert real.certified[0] > 0.97  # of real numbers
    own = fp.robust_radius(module, X, Y, budget=BUDGET, arithmetic="float32")
    assert own.certified[0] < 0.011
    assert own.method == (TOO_ROUGH,)


@pytest.mark.parametrize(
    ("widths", "options"),
    [
        ((4, 3), {}),
        ((4, 5, 3), {}),
        ((4, 5, 3), {"norm": np.inf, "bounds": (-4, 4)}),
        ((4, 4, 3, 2), {"eps": 0.05}),
        ((4, 4, 1), {}),
    ],
)
def test_what_is_certified_in_float32_is_nearly_what_is_in_real_numbers_and_checks(widths, options, tmp_path):
    module = sequential(*widths, seed=1)
    x = np.random.default_rng(0).normal(size=(2, 4))
    with torch.no_grad():
        scores = module(torch.tensor(x).float())
    y = (scores.argmax(dim=1) if widths[-1] > 1 else (scores[:, 0] > 0).long()).tolist()
    real = fp.robust_radius(module, x, y, budget=BUDGET, **options)
    own = fp.robust_radius(module, x, y, budget=BUDGET, arithmetic="float32", **options)
    assert (own.certified <= real.attacked).all()
    asked = np.minimum(real.certified, options.get("eps", np.inf))
    assert np.minimum(own.certified, options.get("eps", np.inf)) == pytest.approx(asked, rel=0.02)
    assert (own.margin[own.certified > 0] > 0).all()
    for i in np.flatnonzero(np.isfinite(own.attacked)):
        z = torch.tensor(x[i] + own.witness[i]).float()
        with torch.no_grad():
            there = module(z[None])[0]
        scores = there if len(there) > 1 else torch.cat([torch.zeros(1), there])
        rivals = scores[torch.arange(len(scores)) != y[i]]
        assert scores[y[i]] - rivals.max() < 1e-6  # points of another number are added up in another order
    own.save(tmp_path / "proofs.npz")
    stated = {name: options[name] for name in options if name != "eps"}
    found = fp.check(tmp_path / "proofs.npz", module, x, y, arithmetic="float32", **stated)
    assert found
    assert str(found).endswith("in float32")
    assert (found.verified >= own.certified).all()
    assert found.facts()["arithmetic"] == "float32"
    with pytest.raises(ValueError, match="about real numbers"):
        fp.check(real, module, x, y, arithmetic="float32", **stated)


def test_margins_that_are_too_small_are_refused():
    module, x = sequential(4, 8, 3, seed=1), np.ones((1, 4))
    with torch.no_grad():
        y = module(torch.ones(1, 4)).argmax(dim=1).tolist()
    own = fp.robust_radius(module, x, y, budget=BUDGET, arithmetic="float32")
    assert fp.check(own, module, x, y)
    for less in (own.margin / 8, np.zeros(1)):
        forged = fp.check(replace(own, margin=less), module, x, y)
        assert not forged
        assert forged.verified.tolist() == [0]
    folded = nn.Sequential(*module, nn.LeakyReLU(1.0))  # the same function, but another program
    with pytest.raises(ValueError, match="LeakyReLU"):
        fp.check(own, folded, x, y)
    real = fp.robust_radius(module, x, y, budget=BUDGET)
    renamed = replace(real, statement=replace(real.statement, arithmetic="float32"))
    assert not fp.check(renamed, module, x, y)
    strange = replace(real, statement=replace(real.statement, arithmetic="float16"))
    with pytest.raises(ValueError, match="header"):
        fp.check(strange, module, x, y)


def exact_scores(model: Layers, point: list[Fraction]) -> list[Fraction]:
    h = point
    for k, (W, b) in enumerate(zip(model.weights, model.biases, strict=True)):
        h = [
            sum((Fraction(float(w)) * v for w, v in zip(row, h, strict=True)), Fraction(float(o)))
            for row, o in zip(W, b, strict=True)
        ]
        h = [max(v, Fraction(0)) for v in h] if k + 1 < len(model.weights) else h
    return h


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_errors_holds_in_any_order_of_summation(seed):
    """Against exact scores; the program adds one after another, in a random order, weights far apart."""
    rng = np.random.default_rng(seed)
    shapes = [(6, 4), (5, 6), (3, 5)]
    weights = [np.ldexp(rng.normal(size=s), rng.integers(-12, 12, size=s)) for s in shapes]
    biases = [np.ldexp(rng.normal(size=s[0]), rng.integers(-12, 12, size=s[0])) for s in shapes]
    model, x, radius = Layers(tuple(weights), tuple(biases), "relu"), rng.normal(size=4), 0.5
    bound = float32_errors(model, x, radius, 2, (-np.inf, np.inf))
    worst = np.zeros(3)
    for _ in range(40):
        delta = rng.normal(size=4)
        z = x + radius * delta / np.linalg.norm(delta) * rng.uniform(0, 1)
        h = z.astype(np.float32)
        for k, (W, b) in enumerate(zip(weights, biases, strict=True)):
            terms = np.concatenate([W.astype(np.float32) * h, b.astype(np.float32)[:, None]], axis=1)
            order = rng.permutation(terms.shape[1])
            total = np.zeros(len(W), dtype=np.float32)
            for term in terms.T[order]:
                total = total + term
            h = np.maximum(total, 0) if k < 2 else total
        exact = exact_scores(model, [Fraction(float(v)) for v in z])
        worst = np.maximum(worst, [abs(float(Fraction(float(a)) - e)) for a, e in zip(h, exact, strict=True)])
    assert (worst <= bound).all()
    assert (worst > 0).any()


@pytest.mark.parametrize("scale", [2.0**-160, 2.0**-140, 2.0**120])
def test_numbers_at_the_edge_of_float32_are_bounded_or_nothing_is_certified(scale):
    W1, W2 = torch.tensor([[1.0, -1.0], [1.0, 1.0]]).double(), torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()
    net = LayeredScores([W1 * scale, W2, W2], [torch.zeros(2).double() for _ in range(3)], ReLU())
    x = np.array([[3.0, 1.0]])
    own = fp.robust_radius(net, x, [1], budget=BUDGET, arithmetic="float32")
    if scale < 2.0**-150:  # every weight is 0 in float32: the scores tie
        assert own.certified[0] == own.attacked[0] == 0
    else:
        assert own.certified[0] <= own.attacked[0]


REFUSED = {
    "tanh": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3)), "layers of ReLU"),
    "double": (lambda: sequential(4, 5, 3).double(), "a module in float32"),
    "adjoining": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)), "one ReLU between"),
    "leaky": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(), nn.Linear(4, 3)), "LeakyReLU"),
    "one output of ours": (
        lambda: fp.networks.TwoLayerNet(
            torch.ones(2, 4), torch.tensor([1.0, -1.0]), activation=fp.networks.ReLU()
        ),
        "a score for each class",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_are_refused_in_one_sentence(name):
    make, words = REFUSED[name]
    torch.manual_seed(0)
    model = make()
    y = [1] if name.startswith("one") else [0]
    with pytest.raises(ValueError, match=words) as told:
        fp.robust_radius(model, np.ones((1, 4)), y, budget=BUDGET, arithmetic="float32")
    assert "\n" not in str(told.value)


def test_estimators_are_refused():
    from sklearn.linear_model import LogisticRegression

    x, y = np.eye(4), np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match="not LogisticRegression"):
        fp.robust_radius(LogisticRegression().fit(x, y), x, y, arithmetic="float32")
    with pytest.raises(ValueError, match='"real" or "float32"'):
        fp.robust_radius(LogisticRegression().fit(x, y), x, y, arithmetic="float16")
