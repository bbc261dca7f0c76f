"""One multiplier for each layer: sound against the attack, accepted by both checkers, refused where it claims too much."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import featureprism as fp
from featureprism.checker.deep import balls, bounds_norm, spectral_norm, verified
from featureprism.verify.deep.balls import Balls
from featureprism.verify.pairs import Pairs
from featureprism.verify.query import Limits, Query


def network(seed, widths=(6, 12, 10, 3)):
    torch.manual_seed(seed)
    parts = [p for a, b in pairwise(widths) for p in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1]).double()


def proven(seed, eps):
    """Certificates of kind balls for one point, where there are any."""
    from featureprism.models import read_model

    net = network(seed)
    x = torch.randn(1, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    label = net(x).argmax(dim=1)
    model = read_model(net, probe=x.numpy())
    pairs = Pairs.of(model, Query(2.0, eps), x, label)
    Balls().prove(pairs, torch.arange(len(pairs.point)), Limits.of(fp.Budget(seconds=20), 20))
    return net, x, int(label), model, pairs


@pytest.mark.parametrize("seed", range(4))
def test_no_perturbation_flips_what_is_proven(seed):
    for eps in (0.02, 0.1, 0.5):
        net, x, label, _, pairs = proven(seed, eps)
        delta = torch.randn(3000, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
        scores = net(x + eps * delta / delta.norm(dim=1, keepdim=True)).detach()
        for j, target in enumerate(pairs.target.tolist()):
            if pairs.certificates[j].radius >= eps:
                assert (scores[:, label] > scores[:, target]).all()


def test_it_proves_more_than_the_product_of_norms_and_nothing_beyond_the_linear_case():
    """Where no neuron changes its sign the bound is exact: margin - eps ‖gradient‖."""
    net, x, label, model, pairs = proven(1, 0.02)
    assert all(c.kind == "balls" and c.radius >= 0.02 for c in pairs.certificates)
    x.requires_grad_(True)
    scores = net(x)[0]
    for j, target in enumerate(pairs.target.tolist()):
        (slope,) = torch.autograd.grad(scores[label] - scores[target], x, retain_graph=True)
        flips_at = float((scores[label] - scores[target]).detach() / slope.norm())
        claim = replace(pairs.certificates[j], radius=1.01 * flips_at)
        assert verified(claim, model.layers, x.detach().numpy()[0], label, target) == 0


def test_multipliers_out_of_range_and_norms_that_are_too_small_are_refused():
    _, x, label, model, pairs = proven(1, 0.02)
    point, target = x.numpy()[0], int(pairs.target[0])
    numbers = pairs.certificates[0].tree["numbers"]
    assert balls(model.layers, point, label, target, 0.02, numbers)
    for at, factor in ((0, 0.9), (1, 0.99), (2, -1.0), (3, 0.0), (2, np.inf), (4, np.nan)):
        wrong = numbers.copy()
        wrong[at] *= factor
        claim = replace(pairs.certificates[0], tree={"numbers": wrong})
        assert verified(claim, model.layers, point, label, target) == 0
    assert verified(replace(pairs.certificates[0], norm=np.inf), model.layers, point, label, target) == 0


@pytest.mark.parametrize("seed", range(3))
def test_forged_multipliers_never_prove_a_radius_at_which_the_point_flips(seed):
    """Numbers of a genuine proof, changed in many ways, and a claim just beyond a known flip."""
    net, x, label, model, pairs = proven(seed, 0.05)
    delta = torch.randn(20000, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    delta = (
        torch.linspace(0.01, 3.0, 20000, dtype=torch.float64)[:, None]
        * delta
        / delta.norm(dim=1, keepdim=True)
    )
    scores = net(x + delta).detach()
    rng = np.random.default_rng(seed)
    for j, target in enumerate(pairs.target.tolist()):
        flips = scores[:, target] >= scores[:, label]
        if "numbers" not in pairs.certificates[j].tree or not bool(flips.any()):
            continue
        radius = 1.001 * float(delta[flips].norm(dim=1).min())
        genuine = pairs.certificates[j].tree["numbers"]
        for _ in range(100):
            some = rng.random(len(genuine)) < rng.choice([0.1, 1.0])
            factor = rng.choice([0.0, -1.0, 0.5, 1e-3, 1e3, 1 + 1e-3 * rng.normal(), 10 ** rng.normal()])
            numbers = np.where(
                some, genuine * factor + rng.choice([0.0, 0.1]) * rng.normal(size=len(genuine)), genuine
            )
            claim = replace(pairs.certificates[j], radius=radius, tree={"numbers": numbers})
            assert verified(claim, model.layers, x.numpy()[0], label, target) == 0


def test_from_bracket_to_file_to_both_checkers(tmp_path):
    from featureprism.checker import exact
    from featureprism.cli import main

    net = network(1)
    X = torch.randn(3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = net(X).argmax(dim=1).numpy()
    arrays = {
        f"{n}{i + 1}": getattr(net[2 * i], v).numpy(force=True)
        for i in range(3)
        for n, v in (("W", "weight"), ("b", "bias"))
    }
    np.savez(tmp_path / "net.npz", activation=np.array("relu"), **arrays)
    np.savez(tmp_path / "data.npz", x=X.numpy(), y=y)
    by_norms = fp.robust_radius(tmp_path / "net.npz", X, y, eps=1e-3)
    assert set(by_norms.method) == {"norm product"}
    eps = 1.1 * float(by_norms.certified.min())
    bracket = fp.robust_radius(tmp_path / "net.npz", X, y, eps=eps)
    assert "balls" in bracket.method
    bracket.save(tmp_path / "proofs.npz")
    files = [(tmp_path / name).read_bytes() for name in ("proofs.npz", "net.npz", "data.npz")]
    assert (np.array(exact.verify(*files)) >= bracket.certified).all()
    command = ["check", str(tmp_path / "proofs.npz"), str(tmp_path / "net.npz"), str(tmp_path / "data.npz")]
    assert main([*command, "--eps", str(eps)]) == 0


@pytest.mark.parametrize("shape", [(40, 30), (600, 550)])
def test_norms_of_large_matrices_are_shown_by_cholesky(shape):
    W = np.random.default_rng(0).normal(size=shape)
    norm = spectral_norm(W)
    assert bounds_norm(W, norm)
    assert norm == pytest.approx(np.linalg.norm(W, 2), rel=1e-6)
    assert not bounds_norm(W, norm * (1 - 1e-6))
