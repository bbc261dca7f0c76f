"""Small proofs written by hand, before both checkers: what is true is accepted, what is a little too much is not."""

import math
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest

from featureprism.checker import cells, exact
from featureprism.checker.certificate import Certificate
from featureprism.checker.enclosed import down
from featureprism.checker.models import TwoClasses, model_sha256, points_sha256, weights_of
from featureprism.checker.power_bounds import chord
from featureprism.checker.proofs import Proof, Source, Statement, proof_bytes, read_proofs
from featureprism.checker.scaled import Network, posed, votes_below
from featureprism.checker.verify import verified_radii

EVERYWHERE = (-math.inf, math.inf)


def packed(**arrays):
    content = BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def verified(weights, x, label, certificate, bounds=EVERYWHERE):
    """What the fast and the exact checker verify of one proof against the other of two classes."""
    points, labels = np.array([x]), np.array([label])
    content = packed(**{name: np.array(value) for name, value in weights.items()})
    model = weights_of(content)[0]
    lower, upper = (np.full(len(x), side) for side in bounds)
    source = Source(model_sha256(model), "", None, "")
    statement = Statement(
        lower, upper, certificate.norm, None, None, "real", source, points_sha256(points, labels)
    )
    proof = Proof(0, label, 1 - label, certificate)
    file = proof_bytes(statement, np.array([certificate.radius]), labels, [proof])
    fast = verified_radii(model, points, labels, read_proofs(file).proofs, certificate.norm)
    return float(fast[0]), exact.verify(file, content, packed(x=points, y=labels))[0]


QUADRATIC = {
    "activation": "quadratic",
    "A": np.zeros((2, 2, 2)),
    "V": [[4.0, 2.0], [0.0, 0.0]],
    "c": [0.0, 0.0],
}


@pytest.mark.parametrize(
    ("radius", "multiplier", "holds"),
    [
        (1.34, 0.6, True),  # 6/√20 = 1.3416…, reached by λ = 2·6/20
        (1.35, 0.6, False),
        (0.999, 0.2, True),  # λg - λ²‖s‖²/4 = 1
        (1.001, 0.2, False),
        (0.5, 0.0, False),
        (0.5, -0.6, False),
        (math.inf, 0.6, False),
    ],
)
def test_a_plane_written_as_a_quadratic(radius, multiplier, holds):
    numbers = {"numbers": np.array([multiplier])}
    found = verified(QUADRATIC, [1.0, 1.0], 0, Certificate(radius, "closed form", 2, 0.0, numbers))
    assert found == ((radius, radius) if holds else (0.0, 0.0))


def lines_proof(radius, *, kind="lines", norm=2, reach=0.75, shrink=0.0):
    """f = [x₁]₊ - [x₂]₊ at (1, 0), by one leaf: the neurons lie below x₁ and above a chord."""
    network = Network(np.eye(2), np.array([1.0, -1.0]), np.zeros(2), 1.0, False)
    problem = posed(network, np.array([1.0, 0.0]), 1.0, reach)
    whole = cells.whole_ball(problem)
    low, high = whole.low - 1e-6 + shrink, whole.high + 1e-6 - shrink
    votes, scale = votes_below(network, 1.0)
    nothing = np.zeros(2)
    line = np.where(problem.own, 1.0, chord(low, high, 1.0))
    leaf = {"tau": 1.0, "low": low, "high": high, "line": line, "nu_floor": nothing, "nu_ceiling": nothing}
    return Certificate(radius, kind, norm, reach, {"votes": votes, "scale": scale, **leaf})


RELU = {"activation": "relu", "W": np.eye(2), "a": [1.0, -1.0], "b": [0.0, 0.0]}
# within 0.75 [x₂]₊ ≤ (x₂ + 0.75)/2: f ≥ 1 + δ₁ - δ₂/2 - 0.375, positive below 0.625/√1.25 = 0.559
RADIUS = 0.558


@pytest.mark.parametrize("bounds", [EVERYWHERE, (-2.0, 2.0), (0.5, 2.0)])
def test_lines_of_a_ball_do_not_ask_for_bounds(bounds):
    """Neither checker uses them, so that a point outside of them is proven like any other."""
    assert verified(RELU, [1.0, 0.0], 1, lines_proof(RADIUS), bounds) == (RADIUS, RADIUS)
    assert verified(RELU, [1.0, 0.0], 1, lines_proof(0.56), bounds) == (0.0, 0.0)
    assert verified(RELU, [1.0, 0.0], 1, lines_proof(RADIUS, shrink=1e-3), bounds) == (0.0, 0.0)


def test_a_point_outside_of_its_bounds_has_no_box():
    for kind in ("lines", "ellipsoid"):
        norm = math.inf if kind == "lines" else 2
        certificate = lines_proof(0.1, kind=kind, norm=norm, reach=0.125)
        if kind == "ellipsoid":
            more = {"centre": np.zeros(2), "kappa": np.zeros(2), "numbers": np.array([1.0, 1.0, 0.0, 0.0])}
            certificate.tree.update(more)
        assert verified(RELU, [1.0, 0.0], 1, certificate, (-2.0, 2.0)) == (0.1, 0.1)
        assert verified(RELU, [1.0, 0.0], 1, certificate, (0.5, 2.0)) == (0.0, 0.0)


def test_both_checkers_lower_an_offset_alike():
    rng = np.random.default_rng(0)
    check = object.__new__(exact._Check)
    for bias, margin in zip(rng.normal(size=50), np.abs(rng.normal(size=50)), strict=True):
        check.model = SimpleNamespace(last_biases=[float(bias)])
        check.file = SimpleNamespace(margin=[float(margin)], point=[0], label=[0], target=[1])
        assert check.margin_bias(0) == down(bias - margin)
        check.file.margin = [0.0]
        assert check.margin_bias(0) == bias


def test_one_output_has_two_classes():
    network = Network(np.eye(2), np.array([1.0, -1.0]), np.zeros(2), 1.0, False)
    assert [TwoClasses(network).margin(own, 1 - own)[1] for own in (0, 1)] == [-1.0, 1.0]
