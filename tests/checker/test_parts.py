"""Parts of the checkers, each against its own closed form, exact fractions or fifty digits."""

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from featureprism.checker import cells, cheap, exact, exact_properties, property_proofs
from featureprism.checker.enclosed import LIBRARY
from featureprism.checker.layers import Layers
from featureprism.checker.linear_bounds import Boxes, sized
from featureprism.checker.models import model_sha256
from featureprism.checker.proofs import Source
from featureprism.checker.property_proofs import InvalidProof, property_proof_bytes, read_property_proof
from featureprism.checker.scaled import Network, posed
from featureprism.checker.vnnlib import Case, Property


def chosen_logits():
    rng = np.random.default_rng(0)
    return [np.zeros(k) for k in range(1, 9)] + [rng.normal(size=k) for k in (2, 3, 5, 8)]


@pytest.mark.parametrize("logits", chosen_logits(), ids=len)
def test_the_logarithm_of_a_sum_lies_between_its_floats(logits):
    with localcontext(prec=50):
        truth = sum((Decimal(float(v)).exp() for v in logits), Decimal(0)).ln()
        below, above = (Decimal(cheap._log_sum_exp(logits, side)) for side in (-1.0, 1.0))
        assert below <= truth <= above
        assert above - below < Decimal("1e-13")


class Poor:
    """NumPy with a C library whose exp and log are as far off as the checker grants, both below."""

    def __getattr__(self, name):
        return getattr(np, name)

    def exp(self, value):
        return np.exp(value) * (1 - LIBRARY)

    def log(self, value):
        return np.log(value) * (1 - LIBRARY)


@pytest.mark.parametrize("logits", chosen_logits()[1:], ids=len)
def test_the_bound_above_bears_a_library_that_is_off(logits, monkeypatch):
    monkeypatch.setattr(cheap, "np", Poor())
    with localcontext(prec=50):
        truth = sum((Decimal(float(v)).exp() for v in logits), Decimal(0)).ln()
        assert truth <= Decimal(float(cheap._log_sum_exp(logits, 1.0)))


@pytest.mark.parametrize("bound", [0.1, 0.7, -0.3, 1 / 3])
@pytest.mark.parametrize("weight", [1.0, 0.1, 3.0, 1e-5, 0.7])
def test_bounds_in_other_units_enclose_the_exact_product(bound, weight):
    product = Fraction(bound) * Fraction(weight)
    assert Fraction(exact._times(bound, weight, -np.inf)) <= product
    assert product <= Fraction(exact._times(bound, weight, np.inf))


def five_neurons():
    """y = Σ [x_j]₊ on [-1, 1]⁵ is at least 0 and so above -1, which a tree shows whose 32 leaves share one domain."""
    model = Layers((np.eye(5), np.array([np.ones(5), np.zeros(5)])), (np.zeros(5), np.zeros(2)), "relu")
    case = Case(-np.ones(5), np.ones(5), np.array([[1.0, 0.0]]), np.array([-1.0]))
    prop = Property((case,), 5, 2)
    inner, every = 31, 63
    numbers = [0.0, *[-1.5] * 5, *[1.5] * 5]  # no cuts, then bounds of the neurons
    columns: dict[str, Any] = {
        name: [0] * every for name in property_proofs.COLUMNS if name.startswith("node")
    }
    columns["node_value"] = [0.0] * every
    for i in range(every):
        leaf = i >= inner
        level = (i + 1).bit_length() - 1
        columns["node_cut"][i] = -1 if leaf else 5 + level
        columns["node_below"][i], columns["node_above"][i] = (-1, -1) if leaf else (2 * i + 1, 2 * i + 2)
        columns["node_domain"][i] = 0 if leaf else -1
        if leaf:
            columns["node_first"][i], columns["node_width"][i] = len(numbers), 11
            on = [float((i - inner) >> (4 - j) & 1) for j in range(5)]
            numbers += [
                1.0,
                *[0.0] * 5,
                *on,
            ]  # weight of the row, slopes, multipliers: z - 1·z for neurons that are on
    domain = {"domain_case": [0], "domain_parent": [-1], "domain_first": [0], "domain_width": [11]}
    columns |= domain | {"case_root": [0], "numbers": numbers}
    return model, prop, property_proof_bytes(Source(model_sha256(model)), prop.sha256, columns)


def test_many_leaves_of_one_domain_are_proven_by_both_checkers():
    model, prop, content = five_neurons()
    assert property_proofs.verify_property(read_property_proof(content), model, prop) == 32
    assert exact_properties.verify(content, model.weights, model.biases, prop) == 32
    products = 2 * (2 * 5 * 25) + 5 * 32 * (25 + 10)  # the bounds of its one domain, and 32 leaves
    assert exact_properties.estimate(content, model.weights) == products


@pytest.mark.parametrize(
    ("slope", "beta", "good"),
    [(0, 0, True), (1, 2, True), (-0.1, 0, False), (1.5, 0, False), (0.5, -1, False), (1.5, -1, False)],
)
def test_multipliers_of_bounds_are_slopes_and_numbers_that_are_not_negative(slope, beta, good):
    one = np.ones((1, 1))
    model = Layers((one, one, np.ones((2, 1))), (np.zeros(1), np.zeros(1), np.zeros(2)), "relu")
    inputs = Boxes(-one, one)
    known = [sized(model, [], inputs, -one, one)]
    block = np.array([1.0, 0.0, slope, beta])  # one row, for the first neuron from below

    def rows():
        return property_proofs._rows(property_proofs._Reader(block), 1, ((0, 1),), known, model, inputs)

    if good:
        target, least = rows()
        assert target.tolist() == [0]
        assert float(least[0]) <= 0  # [x]₊ is 0 at x = 0
    else:
        with pytest.raises(InvalidProof, match="multipliers of bounds"):
            rows()


def test_a_leaf_pays_for_the_rounding_of_its_gradient(monkeypatch):
    """f = [x₁]₊ + 1 for y = +1 is never 0: a leaf proves the whole reach, unless the sum of its gradient is not known."""
    network = Network(np.eye(2), np.array([1.0, 1.0]), np.ones(2), 1.0, False)
    problem = posed(network, np.array([1.0, 1.0]), 1.0, 0.5)
    whole = cells.whole_ball(problem)
    names = dict.fromkeys(("centre", "kappa", "nu_floor", "nu_ceiling"), np.zeros(2))
    leaf = {"tau": 1.0, "low": whole.low, "high": whole.high, "line": np.ones(2), **names}
    assert cells.proven_radius(leaf, problem) > 0.4
    monkeypatch.setattr(cells, "outward", lambda value, _count=1: np.inf + 0 * value)
    assert cells.proven_radius(leaf, problem) == 0
