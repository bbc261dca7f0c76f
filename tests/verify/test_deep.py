"""Several hidden layers: proofs against brute force, the checker against malformed proofs, files."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from asking import asked as bracketed
from torch import nn

import featureprism as fp
from featureprism.checker.deep import norm_product, spectral_norm, verified
from featureprism.checker.enclosed import enclosed
from featureprism.checker.layers import Layers, Region, activated, neuron_bounds
from featureprism.checker.relaxations import first_values, relaxation
from featureprism.cli import main
from featureprism.models import read_model
from featureprism.models.scores import LayeredScores
from featureprism.networks import ReLU
from featureprism.verify.deep.methods import (
    PointQuery,
    farthest_proofs,
    linear_proofs,
    norm_certificates,
    proofs_at,
)
from featureprism.verify.query import Limits, Query

DOMAIN = (-0.8, 0.9)
EFFORT = {"branches": 4}


def random_net(seed: int, depth: int, dim: int = 2, classes: int = 3) -> nn.Sequential:
    torch.manual_seed(seed)
    widths = [dim, *torch.randint(2, 8, (depth,)).tolist(), classes]
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b).double(), nn.ReLU()]
    with torch.no_grad():
        for layer in layers[::2]:
            layer.weight.mul_(2 + 2 * float(torch.rand(1)))  # pyright: ignore
            layer.bias.mul_(float(torch.rand(1)))  # pyright: ignore
    return nn.Sequential(*layers[:-1])


SIDES = {
    False: torch.linspace(-4.0, 4.0, 250, dtype=torch.float64),
    True: torch.linspace(*DOMAIN, 250, dtype=torch.float64),
}


def check_against_brute_force(seed: int) -> str:
    """Certified ≤ distance to every point of a fine grid, and of circles just inside, of another class; returns how it was proven."""
    norm, boxed = (2.0, math.inf)[seed // 2 % 2], bool(seed // 4 % 2)
    net = random_net(seed, 2 + seed % 2, classes=2 + seed % 3)
    x = DOMAIN[0] + (DOMAIN[1] - DOMAIN[0]) * torch.rand(2, dtype=torch.float64)
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    weights, biases = (tuple(getattr(m, n).detach().numpy() for m in linear) for n in ("weight", "bias"))
    model = Layers(weights, biases, "relu")
    grid = torch.cartesian_prod(SIDES[boxed], SIDES[boxed])
    with torch.no_grad():
        own = int(net(x[None]).argmax())
        other = net(grid).argmax(dim=1) != own
    nearest = (
        float(torch.linalg.vector_norm(grid[other] - x, ord=norm, dim=1).min()) if bool(other.any()) else 3.0
    )
    asked = PointQuery(model, x.numpy(), own, (own + 1) % model.num_classes, norm, DOMAIN if boxed else None)
    proofs = farthest_proofs(asked, 1.05 * nearest, 0.01, Limits(4))  # a little farther than there is room
    if not proofs:
        return "nothing"
    radius = min(c.radius for c in proofs.values())
    assert radius <= nearest or not bool(other.any()), seed
    fan = math.pi * torch.arange(256).double() / 128
    around = torch.stack([fan.cos(), fan.sin()], dim=1)
    around = around / torch.linalg.vector_norm(around, ord=norm, dim=1, keepdim=True)
    near = x + radius * (1 - 1e-9) * around
    near = near.clamp(*DOMAIN) if boxed else near
    with torch.no_grad():
        assert bool((net(near).argmax(dim=1) == own).all()), seed
    for rival, certificate in proofs.items():
        assert verified(certificate, model, x.numpy(), own, rival) >= certificate.radius, seed
    return "deep" if any(c.kind == "deep" for c in proofs.values()) else "crown"


def test_no_certificate_exceeds_the_truth_of_small_networks():
    kinds = [
        check_against_brute_force(seed) for seed in range(8)
    ]  # both norms, with and without a box, two and three layers
    assert kinds.count("deep") > 1
    assert kinds.count("nothing") < 3


@pytest.mark.parametrize("norm", [2, math.inf])
def test_bounds_hold_on_random_perturbations(norm, generator):
    net = read_model(random_net(3, 3, dim=4), probe=torch.randn(2, 4, generator=generator).double()).layers
    assert net is not None
    x = 0.3 * torch.randn(4, generator=generator, dtype=torch.float64).numpy()
    region = Region.around(x, 0.4, norm, (-0.5, 1.0) if (np.abs(x - 0.25) <= 0.75).all() else (-9.0, 9.0))
    c = enclosed(net.weights[0]) @ x + net.biases[0]
    known = neuron_bounds(net, c, region, {})
    draws = torch.rand(4000, 4, generator=generator, dtype=torch.float64).numpy()
    delta = region.low + (region.high - region.low) * draws
    delta = delta[np.linalg.norm(delta, ord=norm, axis=1) <= 0.4]
    h = x + delta
    for W, b, layer in zip(net.weights, net.biases, known, strict=False):
        z = h @ W.T + b
        assert (z >= layer.low).all()
        assert (z <= layer.high).all()
        h = np.maximum(z, 0)


def asked_for(seed=5, norm=2.0, domain=None) -> tuple[PointQuery, Layers]:
    torch.manual_seed(seed)
    widths = [3, 8, 8, 3]
    weights = tuple(torch.randn(b, a, dtype=torch.float64).numpy() for a, b in itertools.pairwise(widths))
    biases = tuple(0.3 * torch.randn(b, dtype=torch.float64).numpy() for b in widths[1:])
    model, x = Layers(weights, biases, "relu"), np.array([0.3, -0.2, 0.4])
    h = x
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        h = np.maximum(W @ h + b, 0)
    own = int((weights[-1] @ h + biases[-1]).argmax())
    return PointQuery(model, x, own, (own + 1) % 3, norm, domain), model


def deep_proof(domain=None):
    """The farthest radius of a list at which a quadratic proof is needed and found."""
    for seed in range(5, 20):
        asked, model = asked_for(seed, domain=domain)
        for radius in np.geomspace(1.0, 0.02, 20):
            found = proofs_at(asked, float(radius), Limits(0))
            deep = {r: c for r, c in (found or {}).items() if c.kind == "deep"}
            if deep:
                rival, certificate = next(iter(deep.items()))
                return asked, model, rival, certificate
    raise AssertionError("no radius needed one")


@pytest.mark.parametrize("domain", [None, DOMAIN])
def test_the_checker_refuses_what_is_malformed_or_claims_too_much(domain):
    asked, model, rival, proof = deep_proof(domain)

    def grant(certificate) -> float:
        return verified(certificate, model, asked.x, asked.label, rival)

    assert grant(proof) >= proof.radius
    good, bounds = proof.tree["block"], 2 * sum(model.widths)
    for bad in (
        good[:-1],
        good.astype(np.float32),
        -good,
        good * np.nan,
        np.zeros_like(good),
        np.append(good[:bounds], -good[bounds:]),
        np.append(good[:bounds], 0 * good[bounds:]),
        np.append(0.9 * good[:bounds], good[bounds:]),
        None,
        list(good),
    ):
        assert grant(replace(proof, tree={"block": bad})) == 0
    leaf = {"block": good}
    for tree in (
        {},
        {"cut": 0, "value": 0.0, "below": leaf},
        {"cut": -1, "value": 0.0, "below": leaf, "above": leaf},
    ):
        assert grant(replace(proof, tree=tree)) == 0
    for change in (
        {"reach": 50 * proof.reach},
        {"reach": math.nan},
        {"reach": 0.0},
        {"norm": 1.0},
        {"kind": "cells"},
    ):
        assert grant(replace(proof, **change)) == 0
    assert grant(replace(proof, domain=(0.35, 0.9))) == 0  # the point is not in it
    loop: dict = {"cut": 0, "value": 0.0}
    loop |= {"below": loop, "above": loop}
    assert grant(replace(proof, tree=loop)) == 0


def test_cuts_divide_a_region():
    asked, model, rival, proof = deep_proof()
    leaf = {"block": proof.tree["block"]}
    tree = {"cut": 0, "value": 0.0, "below": leaf, "above": leaf}
    result = verified(replace(proof, tree=tree), model, asked.x, asked.label, rival)
    assert result in (0.0, proof.reach)  # multipliers of the whole region may or may not do for its parts
    wrong = {"cut": 0, "value": 0.1, "below": leaf, "above": leaf}
    assert verified(replace(proof, tree=wrong), model, asked.x, asked.label, rival) == 0


def test_every_quadratic_inequality_holds_on_the_region(generator):
    asked, model, rival, proof = deep_proof(DOMAIN)
    region = Region.around(asked.x, proof.radius, 2, DOMAIN)
    c = enclosed(model.weights[0]) @ asked.x + model.biases[0]
    known = neuron_bounds(model, c, region, {})
    multipliers = proof.tree["block"][2 * sum(model.widths) :]
    side = multipliers[1 : 2 + len(asked.x)]
    relaxed = relaxation(model, asked.x, (asked.label, rival), region, known, {}, side)
    assert relaxed is not None
    used = first_values(model, known, {})
    draws = torch.randn(500, 3, generator=generator, dtype=torch.float64).numpy()
    delta = np.clip(draws, region.low, region.high)
    delta = delta[np.linalg.norm(delta, axis=1) <= proof.radius]
    for d in delta:
        z1 = model.weights[0] @ (asked.x + d) + model.biases[0]
        h1 = np.maximum(z1, 0)
        z2 = model.weights[1] @ h1 + model.biases[1]
        h2 = np.maximum(z2, 0)
        first = d if used is None else z1[used]
        y = np.concatenate([[1.0], first, h1[known[0].unstable], h2[known[1].unstable]])
        scores = model.weights[2] @ h2 + model.biases[2]
        assert relaxed.margin.mid @ y == pytest.approx(scores[asked.label] - scores[rival])
        assert y @ relaxed.ball.mid @ y >= -1e-9
        products = (relaxed.left.mid @ y) * (relaxed.right.mid @ y)
        assert (products[relaxed.kind > 0] >= -1e-9).all()
        np.testing.assert_allclose(products[relaxed.kind == 0], 0, atol=1e-9)


def test_neurons_of_the_same_or_opposite_weights_share_one_value():
    rng = np.random.default_rng(0)
    W, b = rng.normal(size=(2, 3)), rng.normal(size=5)
    rows = np.stack([W[0], -W[0], W[1], W[0], -0.0 * W[0]])
    model = Layers((rows, rng.normal(size=(2, 5))), (b, np.zeros(2)), "relu")
    assert model.parallel[0].tolist() == [0, 0, 2, 0, 4]
    assert model.parallel[1].tolist() == [1.0, -1.0, 1.0, 1.0, 1.0]
    x = rng.normal(size=3)
    region = Region.around(x, 0.7, 2, (-np.inf, np.inf))
    known = neuron_bounds(model, enclosed(rows) @ x + b, region, {})
    used = first_values(model, known, {1: 1.0})
    assert used is not None
    assert set(used) <= {0, 2, 4}
    relaxed = relaxation(model, x, (0, 1), region, known, {1: 1.0}, np.array([1.0, 0, 0, 0]))
    assert relaxed is not None
    delta = rng.normal(size=3) * 0.3
    z = rows @ (x + delta) + b
    y = np.concatenate([[1.0], z[used], np.maximum(z, 0)[known[0].unstable]])
    V = model.weights[1] @ np.maximum(z, 0)
    assert relaxed.margin.mid @ y == pytest.approx(V[0] - V[1])
    hinges = relaxed.kind == 0
    np.testing.assert_allclose(
        (relaxed.left.mid @ y)[hinges] * (relaxed.right.mid @ y)[hinges], 0, atol=1e-12
    )
    cut = relaxed.neuron == 1  # z_1 = -z_0 + b_0 + b_1, whatever y holds
    assert np.isclose(relaxed.left.mid[cut] @ y, z[1]).any()


def test_proofs_of_deep_networks_travel(tmp_path, capsys):
    asked, model, _, _ = deep_proof()
    layers = [torch.from_numpy(W) for W in model.weights], [torch.from_numpy(b) for b in model.biases]
    net = LayeredScores(*layers, ReLU())
    x = torch.from_numpy(asked.x)[None] + 0.05 * torch.eye(3, dtype=torch.float64)[:2]
    y = net(x).argmax(dim=1)
    bracket = bracketed(net, x, y, bounds=(-5.0, 5.0), **EFFORT).bracket
    assert fp.check(bracket, net, x, y, bounds=(-5.0, 5.0))
    with pytest.raises(ValueError, match="narrower"):
        fp.check(bracket, net, x, y)
    weights = {
        f"{n}{i + 1}": v
        for n, part in zip("Wb", (model.weights, model.biases), strict=True)
        for i, v in enumerate(part)
    }
    np.savez(tmp_path / "net.npz", activation="relu", **weights)  # pyright: ignore[reportArgumentType]
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    names = [str(tmp_path / "net.npz"), str(tmp_path / "data.npz")]
    assert main(["radius", *names, "--out", str(tmp_path / "out"), "--bounds", "-5", "5"]) == 0
    capsys.readouterr()
    for weights in (tmp_path / "net.npz", tmp_path / "out" / "model.npz"):
        arguments = ["check", str(tmp_path / "out" / "proofs.npz"), str(weights), names[1]]
        assert main([*arguments, "--bounds", "-5", "5"]) == 0
        assert "2 of 2 points have a proven ℓ2 radius within [-5, 5]" in capsys.readouterr().out


def test_tanh_layers_have_norm_products_that_can_be_checked():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    x = torch.randn(6, 3, dtype=torch.float64)
    with torch.no_grad():
        y = net(x).argmax(dim=1)
    model = read_model(net, probe=x).checkable()
    assert isinstance(model, Layers)
    for i in range(6):
        rivals = [r for r in range(3) if r != int(y[i])]
        found = norm_certificates(model, x[i : i + 1].numpy().repeat(2, axis=0), [int(y[i])] * 2, rivals, 2)
        for rival, one in zip(rivals, found, strict=True):
            assert one.radius > 0
            norms = one.tree["numbers"]
            assert norm_product(model, x[i].numpy(), int(y[i]), rival, 2, norms) >= one.radius
            assert (
                verified(replace(one, tree={"numbers": 0.99 * norms}), model, x[i].numpy(), int(y[i]), rival)
                == 0
            )
            assert (
                verified(replace(one, radius=2 * one.radius), model, x[i].numpy(), int(y[i]), rival)
                < 2 * one.radius
            )


def test_spectral_norms_and_activations_are_enclosed(generator):
    for shape in ((4, 7), (7, 4), (1, 1), (3, 3)):
        W = torch.randn(shape, generator=generator, dtype=torch.float64).numpy()
        exact = np.linalg.norm(W, 2)
        assert exact <= spectral_norm(W) <= exact * (1 + 1e-8)
    assert spectral_norm(np.zeros((2, 3))) == pytest.approx(0, abs=1e-100)
    t = np.linspace(-30, 30, 1001)
    value = activated(enclosed(t), "tanh")
    assert (value.low <= np.tanh(t)).all()
    assert (np.tanh(t) <= value.high).all()
    assert float(value.rad.max()) < 1e-12


def test_wild_weights_prove_nothing_and_do_not_fail():
    asked, model = asked_for()
    with pytest.raises(ValueError, match="up to 1e100"):
        Layers(tuple(W * 1e200 for W in model.weights), model.biases, "relu")
    for factor in (1e99, 1e-200):
        wild = Layers(tuple(W * factor for W in model.weights), model.biases, "relu")
        found = proofs_at(replace(asked, model=wild), 0.1, Limits(0))
        for rival, one in (found or {}).items():
            assert verified(one, wild, asked.x, asked.label, rival) in (0.0, one.reach)


def test_a_neuron_whose_value_hardly_changes_is_proven_too():
    """Its bounds are stored with room for rounding, although their difference is far below the rounding of their size."""
    rng = np.random.default_rng(0)
    W, b = (
        rng.normal(size=(4, 3)),
        np.array([0.1, 0.2, -50.0, 0.3]),
    )  # the third neuron stays off near the point
    V, c = (
        np.concatenate([rng.normal(size=(3, 4)), np.eye(4)]),
        np.array([0.1, 0.1, 0.1, 32.0, 32.0, 32.0, 32.0]),
    )
    out, last = rng.normal(size=(2, 7)), np.zeros(2)
    model = Layers((W, V, out), (b, c, last), "relu")
    x = rng.normal(size=3)
    h = np.maximum(V @ np.maximum(W @ x + b, 0) + c, 0)
    label = int((out @ h).argmax())
    asked = PointQuery(model, x, label, 1 - label, 2.0, None)
    assert linear_proofs(asked, 1e-3, 0.0, Query(eps=1e-3)).keys() == {1 - label}
