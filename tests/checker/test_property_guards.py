"""Every guard of the checkers of property proofs, asked directly: one file that both accept, and what each refuses of it."""

import json
from io import BytesIO

import numpy as np
import pytest

from featureprism.checker import exact_properties, property_proofs
from featureprism.checker.layers import Layers
from featureprism.checker.models import Scores, model_sha256
from featureprism.checker.proofs import Source
from featureprism.checker.property_proofs import InvalidProof, property_proof_bytes, read_property_proof
from featureprism.checker.vnnlib import Case, Property

MODEL = Layers((np.eye(2), np.array([[1.0, 1.0], [0.0, 0.0]])), (np.zeros(2), np.zeros(2)), "relu")


def prop(threshold=-1.0, num_inputs=2):
    """y₀ = [x₁]₊ + [x₂]₊ is nowhere at most -1: neither on [-1, 1]² nor on [-½, ½]²."""
    row, other = np.array([[1.0, 0.0]]), np.array([threshold])
    wide = Case(-np.ones(2), np.ones(2), row, np.array([-1.0]))
    return Property((wide, Case(-np.ones(2) / 2, np.ones(2) / 2, row, other)), num_inputs, 2)


# domain 0: no cuts; domain 1: the first neuron is on; domain 2: the second box; two leaves with their multipliers
NUMBERS = [0, -1.5, -1.5, 1.5, 1.5, 1, 0, 1, 0, -1.5, 1.5, 1.5, 1, 0, 0, 0, 1, 0, 1]
COLUMNS = {
    "node_cut": [2, -1, -1, 0, -1, -1],  # at the first neuron; at the first input
    "node_value": [0.0] * 6,
    "node_below": [1, -1, -1, 4, -1, -1],
    "node_above": [2, -1, -1, 5, -1, -1],
    "node_domain": [-1, 0, 1, -1, -1, -1],
    "node_first": [0, 12, 16, 0, 0, 0],
    "node_width": [0, 4, 3, 0, 0, 0],
    "domain_case": [0, 0, 1],
    "domain_parent": [-1, 0, -1],
    "domain_first": [0, 5, 0],
    "domain_width": [5, 7, 5],
    "case_root": [0, 3],
    "numbers": NUMBERS,
}


def at(name, place, value):
    """One entry of a column changed."""
    return {name: [value if i == place else old for i, old in enumerate(COLUMNS[name])]}


def written(changes, about=None):
    return property_proof_bytes(Source(model_sha256(MODEL)), (about or prop()).sha256, COLUMNS | changes)


def fast(content, about=None):
    return property_proofs.verify_property(read_property_proof(content), MODEL, about or prop())


def exact(content, about=None):
    return exact_properties.verify(content, MODEL.weights, MODEL.biases, about or prop())


def test_the_file_as_it_is_is_accepted_by_both():
    assert fast(written({})) == exact(written({})) == 4


WRONG = {
    "no number": (at("numbers", 3, np.nan), "numbers must be finite"),
    "a cut at no value": (at("node_value", 3, np.inf), "finite values"),
    "nodes of other lengths": ({"node_cut": [-1]}, "differ in length"),
    "domains of other lengths": ({"domain_case": [0]}, "differ in length"),
    "a leaf beyond the numbers": (at("node_width", 1, 8), "out of range"),
    "a leaf before the numbers": (at("node_first", 1, -1), "out of range"),
    "a domain of negative length": (at("domain_width", 0, -1), "out of range"),
    "one tree for two cases": ({"case_root": [0]}, "one tree for each case"),
    "a tree that is not there": ({"case_root": [0, 6]}, "a node is not there"),
    "a tree before the first": ({"case_root": [0, -2]}, "a node is not there"),
    "one tree for both cases": ({"case_root": [3, 3]}, "two ways lead to it"),
    "a cut at no neuron": (at("node_cut", 0, 4), "no input and no neuron"),
    "a cut at -2": (at("node_cut", 0, -2), "no input and no neuron"),
    "an input below a neuron": (at("node_cut", 2, 1), "stands below one at a neuron"),
    "a cut beside its box": (at("node_value", 3, 0.75), "outside of its box"),
    "a cut below its box": (at("node_value", 3, -0.75), "outside of its box"),
    "a neuron cut twice": (at("node_cut", 2, 2), "cut twice"),
    "a cut neuron without a domain": (at("node_domain", 1, -1), "has no domain"),
    "a domain that is not there": (at("node_domain", 1, 3), "a domain is not there"),
    "a domain before the first": (at("node_domain", 1, -2), "a domain is not there"),
    "a domain that is its own parent": (at("domain_parent", 1, 1), "before its parent"),
    "a parent that comes later": (at("domain_parent", 0, 1), "before its parent"),
    "a domain of no case": (at("domain_case", 0, 2), "about no case"),
    "a domain with another box": (at("domain_case", 1, 1), "another box than its parent"),
    "a leaf with another box": (at("node_domain", 1, 2), "another box than its domain"),
    "a leaf below an input": (at("node_domain", 4, 2), "below a cut at an input"),
    "a leaf on the other side": (at("node_domain", 1, 1), "outside of its domain"),
    "a leaf with too few numbers": (at("node_width", 1, 3), "too few or too many"),
    "a leaf with too many numbers": (at("node_width", 1, 5), "too few or too many"),
    "a negative weight": (at("numbers", 12, -1), "must not be negative"),
    "a slope above 1": (at("numbers", 13, 1.5), "must not be negative"),
    "a slope below 0": (at("numbers", 14, -0.5), "must not be negative"),
    "a negative multiplier": (at("numbers", 15, -1), "must not be negative"),
    "a leaf that proves 0 alone": (at("numbers", 18, 0), "a leaf is not proven"),
    "cuts out of order": (
        {"numbers": [*NUMBERS, 2, 1, 1, 0, 1, 0, 0, 1.5, 1.5]} | at("domain_first", 1, 19) | at("domain_width", 1, 9),
        "not in order",
    ),
    "a domain beside its parent": (
        at("domain_parent", 2, 1) | at("domain_case", 2, 0) | at("node_domain", 2, 2),
        "outside of its parent",
    ),
    "a lower bound that is too high": (at("numbers", 1, -0.5), "do not hold"),
    "an upper bound that is too low": (at("numbers", 4, 0.5), "do not hold"),
    "a sign that the cut does not give": (at("numbers", 9, 0), "do not hold"),
    "a domain with too many numbers": (at("domain_width", 0, 6), "too many numbers"),
    "a domain with too few numbers": (at("domain_width", 0, 4), "too few numbers"),
    "half a cut": (at("numbers", 0, 0.5), "whole number"),
    "more cuts than neurons": (at("numbers", 0, 3), "whole number"),
    "a cut of a domain at no neuron": (at("numbers", 6, 2), "whole number"),
    "a sign that is none": (at("numbers", 7, 2), "whole number"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_both_refuse_it(name):
    changes, words = WRONG[name]
    content = written(changes)
    with pytest.raises(ValueError, match=words):
        fast(content)
    with pytest.raises(ValueError, match=r"."):
        exact(content)


def test_what_can_happen_is_not_proven_by_boxes():
    about = prop(threshold=0.5)
    with pytest.raises(InvalidProof, match="a box is not proven"):
        fast(written({}, about), about)
    with pytest.raises(ValueError, match="a box is not proven"):
        exact(written({}, about), about)


def test_a_file_is_about_one_model_and_one_property():
    content = written({})
    other = Layers(MODEL.weights, (np.ones(2), np.zeros(2)), "relu")
    with pytest.raises(InvalidProof, match="another model"):
        property_proofs.verify_property(read_property_proof(content), other, prop())
    with pytest.raises(ValueError, match="another model"):
        exact_properties.verify(content, other.weights, other.biases, prop())
    for check in (fast, exact):
        with pytest.raises(ValueError, match="property"):
            check(content, prop(threshold=-2.0))
    with pytest.raises(InvalidProof, match="do not fit together"):
        fast(written({}, prop(num_inputs=3)), prop(num_inputs=3))


def test_models_of_other_kinds_have_no_such_proofs():
    tanh = Layers(MODEL.weights, MODEL.biases, "tanh")
    with pytest.raises(InvalidProof, match="layers of ReLU"):
        property_proofs.verify_property(read_property_proof(written({})), tanh, prop())
    with pytest.raises(ValueError, match="layers of ReLU"):
        property_proofs.relu_layers(tanh)
    with pytest.raises(ValueError, match="layers of ReLU"):
        property_proofs.relu_layers(Scores(np.eye(2), np.zeros(2), np.eye(2), np.zeros(2), 2.0))
    assert property_proofs.relu_layers(MODEL) is MODEL


def header(**changes):
    with np.load(BytesIO(written({}))) as arrays:
        return np.array(json.dumps(json.loads(str(arrays["header"])) | changes))


FILES = {
    "no header": ({"header": None}, "header"),
    "another format": ({"header": header(format="x")}, "another format"),
    "another version": ({"header": header(version=2)}, "another format"),
    "a hash that is no word": ({"header": header(property={"sha256": 1})}, "not as the format"),
    "a column that is missing": ({"domain_case": None}, "domain_case"),
    "a column of another type": ({"case_root": np.zeros(2)}, "case_root must have"),
    "numbers of another size": ({"numbers": np.zeros(19, np.float32)}, "numbers must have"),
    "a column of two axes": ({"case_root": np.array([[0, 3]])}, "case_root must have"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_as_the_format_has_it_is_refused(name):
    changes, words = FILES[name]
    with np.load(BytesIO(written({}))) as arrays:
        every = {key: array for key, array in (dict(arrays) | changes).items() if array is not None}
    content = BytesIO()
    np.savez(content, **every)
    with pytest.raises(ValueError, match=words):
        fast(content.getvalue())
    with pytest.raises(ValueError, match=r"."):
        exact(content.getvalue())


def test_there_are_not_too_many_nodes(monkeypatch):
    for module, name, check in (
        (property_proofs, "MOST_NODES", fast),
        (exact_properties, "MAX_NODES", exact),
    ):
        monkeypatch.setattr(module, name, 6)
        assert check(written({})) == 4
        monkeypatch.setattr(module, name, 5)
        with pytest.raises(ValueError, match="nodes"):
            check(written({}))
