"""Ellipsoids around ℓ∞ boxes, and ℓ2 balls in a box: what they prove holds on random points, damaged ones prove nothing false."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from asking import asked
from small_models import travelled

from featureprism.checker.certificate import verified
from featureprism.checker.models import Scores
from featureprism.checker.verify import verified_radii
from featureprism.models.scores import ScoreNet
from featureprism.networks import ReLU

DOMAIN = (-0.9, 1.1)


@pytest.fixture(scope="module", params=[(math.inf, None), (math.inf, DOMAIN), (2.0, DOMAIN)])
def case(request):
    """A network of three classes, its points, and brackets of which some are proven by ellipsoids."""
    rng = np.random.default_rng(4)
    arrays = rng.normal(size=(8, 4)), rng.normal(size=(8, 3)), 0.5 * rng.normal(size=8), rng.normal(size=3)
    net = ScoreNet(*(torch.from_numpy(a) for a in arrays), activation=ReLU())
    x = torch.from_numpy(rng.uniform(*DOMAIN, size=(10, 4)))
    with torch.no_grad():
        own = net(x).argmax(dim=1)
    norm, domain = request.param
    bracket = asked(net, x, own, norm=norm, branches=1, bounds=domain)
    W, V, b, c = arrays
    return Scores(W, b, V, c, 1.0), x.numpy(), own.numpy(), bracket


def by_ellipsoid(bracket):
    return [p for p in bracket.proofs() if p.certificate.kind == "ellipsoid"]


def norm_of(bracket) -> float:
    return by_ellipsoid(bracket)[0].certificate.norm


def test_nothing_in_the_proven_regions_flips(case):
    model, x, own, bracket = case
    assert by_ellipsoid(bracket)
    rng = np.random.default_rng(5)
    for i, radius in enumerate(bracket.certified.tolist()):
        corners = rng.choice([-1.0, 1.0], size=(1000, 4))
        delta = np.concatenate([corners, rng.uniform(-1, 1, size=(1000, 4))])
        if norm_of(bracket) == 2:
            delta = delta / np.linalg.norm(delta, axis=1, keepdims=True)
        delta = radius * delta
        z = x[i] + delta
        if bracket.certificates[i][int(bracket.target[i])].domain == DOMAIN:
            z = np.clip(z, *DOMAIN)
        scores = np.maximum(z @ model.W.T + model.b, 0) @ model.V + model.c
        assert (scores.argmax(axis=1) == own[i]).all()


def test_proofs_survive_a_file_and_are_granted(case):
    model, x, own, bracket = case
    norm, domain = norm_of(bracket), by_ellipsoid(bracket)[0].certificate.domain
    again = travelled(bracket.proofs(), norm, domain)
    granted = verified_radii(model, x, own, again, norm_of(bracket))
    assert (granted >= bracket.certified.numpy()).all()


@pytest.mark.parametrize(
    "weights", [np.zeros(8), -np.ones(8), np.ones(7), np.full(8, np.nan), "11111111", None]
)
def test_weights_that_are_none_are_refused(case, weights):
    model, x, own, bracket = case
    proof = by_ellipsoid(bracket)[0]
    broken = replace(proof.certificate, tree=proof.certificate.tree | {"numbers": weights})
    assert verified_radii(model, x, own, [replace(proof, certificate=broken)], norm_of(bracket)).max() == 0


def test_other_weights_and_larger_claims_prove_nothing_false(case):
    """Any positive weights are sound: what they are granted stays below every witness."""
    model, x, _, bracket = case
    rng = np.random.default_rng(6)
    network_of = {(p.own, p.rival): model.margin(p.own, p.rival)[0] for p in by_ellipsoid(bracket)}
    for proof in by_ellipsoid(bracket):
        c, attacked = proof.certificate, float(bracket.attacked[proof.point])
        for stretch in (1.0, 1.05, 1.5):
            weights = c.tree["numbers"][:4] * rng.exponential(size=4)
            weights = weights if c.norm == math.inf else np.maximum(weights, 1.0)
            numbers = np.concatenate([weights, c.tree["numbers"][4:] + 0.1 * rng.normal(size=4)])
            claim = replace(
                c, radius=stretch * c.radius, reach=stretch * c.reach, tree=c.tree | {"numbers": numbers}
            )
            given = verified(claim, network_of[proof.own, proof.rival], x[proof.point], 1.0)
            if proof.rival == int(bracket.target[proof.point]):
                assert given <= attacked
            assert given in (0.0, claim.reach) or c.norm == 2
            assert given <= claim.reach


def test_weights_below_one_are_refused_in_a_ball(case):
    model, x, _, bracket = case
    proof = by_ellipsoid(bracket)[0]
    numbers = proof.certificate.tree["numbers"].copy()
    numbers[3] = 0.999
    broken = replace(proof.certificate, tree=proof.certificate.tree | {"numbers": numbers})
    if proof.certificate.norm == 2:
        assert verified(broken, model.margin(proof.own, proof.rival)[0], x[proof.point], 1.0) == 0
