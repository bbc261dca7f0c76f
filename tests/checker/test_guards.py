"""Every guard of the checker, asked directly: what it must refuse is refused, in the words of the guard."""

import json
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from featureprism.checker import cells, certificate, cheap, deep, ellipsoids, lines, readouts, scaled
from featureprism.checker.arrays import LARGEST_FILE, arrays_of, read_arrays, real_number, real_numbers
from featureprism.checker.certificate import Certificate
from featureprism.checker.enclosed import enclosed
from featureprism.checker.exact import MAX_FILE
from featureprism.checker.float32 import float32_layers
from featureprism.checker.layers import Layers, Neurons, Region
from featureprism.checker.linear import LinearScores
from featureprism.checker.models import Scores, TwoClasses, demanding, weights_of
from featureprism.checker.proofs import Proof, Source, Statement, proof_bytes, read_proofs
from featureprism.checker.quadratic import QuadraticScores
from featureprism.checker.scaled import LARGEST, Network, posed
from featureprism.checker.stated import Checked, Stated
from featureprism.checker.weights import weighted_model

EYE = np.eye(2)
ONES, ZEROS = np.ones(2), np.zeros(2)
BAD = np.array([1.0, np.nan])
BOTH = np.array([1.0, -1.0])  # labels
HUGE = np.array([1.0, 1e101])
MULTIPLIERS = np.array([1.1, 1, 0, 0])  # of balls: a norm, a multiplier, slopes


def network(p=1.0, **other):
    arrays = {"W": EYE, "a": np.array([1.0, -1.0]), "b": ZEROS} | other
    return Network(p=p, normalised=False, **arrays)


def problem(p=1.0):
    """f(x) = [x₁]₊^p - [x₂]₊^p at (1, 0): the distance to x₁ = x₂ is 1/√2."""
    return posed(network(p), np.array([1.0, 0.0]), 1.0, 0.5)


def leaf(**other):
    names = ("low", "high", "line", "centre", "kappa", "nu_floor", "nu_ceiling")
    return {"tau": 1.0, **{name: np.full(2, 0.5) for name in names}} | other


def layers(depth=2, activation="relu"):
    return Layers((EYE,) * depth, (ZEROS,) * depth, activation)


def cut(below, above, j=0, value=0.0):
    return {"cut": j, "value": value, "below": below, "above": above}


REFUSED = {
    # scaled.py
    "W of one axis": (lambda: network(W=ONES), "weights W"),
    "W with NaN": (lambda: network(W=np.array([BAD, ONES])), "W as a float64 array"),
    "a too large": (lambda: network(a=HUGE), "a as a float64 array"),
    "b of another length": (lambda: network(b=np.ones(3)), "b as a float64 array"),
    "p below 1": (lambda: network(0.99), "a power p"),
    "p above 64": (lambda: network(64.5), "a power p"),
    "p NaN": (lambda: network(np.nan), "a power p"),
    "x of another length": (lambda: posed(network(), np.ones(3), 1.0, 1.0), "x as a float64 array"),
    "label 0": (lambda: posed(network(), ONES, 0.0, 1.0), "a label"),
    "radius 0": (lambda: posed(network(), ONES, 1.0, 0.0), "a radius"),
    "radius too large": (lambda: posed(network(), ONES, 1.0, 1e101), "a radius"),
    "radius too small": (lambda: posed(network(), ONES, 1.0, 1e-101), "a radius"),
    "radius NaN": (lambda: posed(network(), ONES, 1.0, np.nan), "a radius"),
    "no useful neuron": (lambda: posed(network(a=ZEROS), ONES, 1.0, 1.0), "votes as"),
    "votes of another length": (lambda: posed(network(), ONES, 1.0, 1.0, np.zeros(3)), "votes as"),
    "a scale too large": (lambda: posed(network(), ONES, 1.0, 1.0, -ONES, 10_001), "a whole scale"),
    "a supporting vote too large": (
        lambda: posed(network(), ONES, 1.0, 1.0, np.array([2.01, -2.01])),
        "votes below the weights",
    ),
    "an opposing vote too small": (
        lambda: posed(network(), ONES, 1.0, 1.0, np.array([1.9, -1.9])),
        "votes below the weights",
    ),
    "digits that would be lost": (
        lambda: scaled.scaled_by(np.array([1 + 2.0**-52]), -1060),
        "cannot be brought",
    ),
    # cells.py
    "a tree that is none": (
        lambda: cells.refuse_malformed(cut([], leaf()), problem()),
        "a tree of dictionaries",
    ),
    "a cut at no neuron": (lambda: cells.refuse_malformed(cut({}, {}, 2), problem()), "a cut at one of"),
    "a cut at a negative neuron": (
        lambda: cells.refuse_malformed(cut({}, {}, -1), problem()),
        "a cut at one of",
    ),
    "a cut at half a neuron": (
        lambda: cells.refuse_malformed(cut({}, {}, 0.5), problem()),
        "a cut at one of",
    ),
    "an infinite cut": (lambda: cells.refuse_malformed(cut({}, {}, 0, np.inf), problem()), "a finite cut"),
    "a cut that is no float": (lambda: cells.refuse_malformed(cut({}, {}, 0, 1), problem()), "a finite cut"),
    "one side of a cut": (
        lambda: cells.refuse_malformed({"cut": 0, "value": 0.0, "below": {}}, problem()),
        "both sides",
    ),
    "no tau": (lambda: cells.refuse_malformed({}, problem()), "a finite tau"),
    "tau infinite": (lambda: cells.refuse_malformed(leaf(tau=np.inf), problem()), "a finite tau"),
    "tau negative": (lambda: cells.refuse_malformed(leaf(tau=-1e-300), problem()), "a finite tau"),
    "tau NaN": (lambda: cells.refuse_malformed(leaf(tau=np.nan), problem()), "a finite tau"),
    "low with NaN": (lambda: cells.refuse_malformed(leaf(low=BAD), problem()), "low as"),
    "nu negative": (lambda: cells.refuse_malformed(leaf(nu_floor=-ONES), problem()), "nu_floor without"),
    "kappa negative": (lambda: cells.refuse_malformed(leaf(kappa=-ONES), problem()), "kappa without"),
    "a falling line": (lambda: cells.refuse_malformed(leaf(line=-ONES), problem()), "do not fall"),
    "a slope above 1": (lambda: cells.refuse_malformed(leaf(line=1.5 * ONES), problem()), "slopes up to 1"),
    # lines.py, ellipsoids.py
    "a point outside of its bounds": (lambda: lines.room(ONES, 1.0, (2.0, 3.0)), "within its bounds"),
    "weights of an ellipsoid that are not there": (
        lambda: ellipsoids._weights_and_middle(leaf(), problem(), 0.0),
        "weights and middle",
    ),
    "a weight of an ellipsoid below 1": (
        lambda: ellipsoids._weights_and_middle(leaf(numbers=np.array([0.5, 1, 0, 0])), problem(), 1.0),
        "positive weights",
    ),
    "a weight of an ellipsoid that is 0": (
        lambda: ellipsoids._weights_and_middle(leaf(numbers=np.array([0.0, 1, 0, 0])), problem(), 0.0),
        "positive weights",
    ),
    # cheap.py, readouts.py
    "neurons of a read-out of two axes": (
        lambda: cheap.readout_radius(EYE, ONES, ONES, 1.0),
        "finite float64 W",
    ),
    "a point of a read-out with NaN": (
        lambda: cheap.readout_radius(EYE[:, None], np.array([1.0, -1.0]), BAD, 1.0),
        "a finite float64 point",
    ),
    "labels of a read-out all alike": (
        lambda: cheap.readout_radius(EYE[:, None], ONES, ONES, 1.0),
        "both of them",
    ),
    "a label of a read-out that is 2": (
        lambda: cheap.readout_radius(EYE[:, None], np.array([1.0, 2.0]), ONES, 1.0),
        "both of them",
    ),
    "a read-out of another kind": (
        lambda: cheap.readout_radius(EYE[:, None], np.array([1.0, -1.0]), ONES, 1.0, "mean"),
        "a read-out that it knows",
    ),
    "neurons of boxes of two axes": (lambda: boxes(W=EYE), "finite W"),
    "neurons of boxes with NaN": (lambda: boxes(W=np.full((2, 1, 2), np.nan)), "finite W"),
    "a point of boxes with NaN": (lambda: boxes(x=BAD), "a finite float64 point"),
    "a label of boxes that is 0": (lambda: boxes(y=0.0), "a label -1 or"),
    "a tree of a read-out that is none": (lambda: readout_leaves(cut({}, [])), "a tree of dictionaries"),
    "a cut of a read-out at no class": (lambda: readout_leaves(cut({}, {}, 2)), "at one of the classes"),
    "a cut of a read-out at class -1": (lambda: readout_leaves(cut({}, {}, -1)), "at one of the classes"),
    "an infinite cut of a read-out": (lambda: readout_leaves(cut({}, {}, 0, np.inf)), "a finite cut"),
    "one side of a cut of a read-out": (
        lambda: readout_leaves({"cut": 0, "value": 0.0, "below": {}}),
        "both sides",
    ),
    "shares above 1": (lambda: readout_leaf(share=np.array([0.6, 0.6])), "shares that add up"),
    "a negative share": (lambda: readout_leaf(share=np.array([-0.1, 0.6])), "without negative"),
    "alpha with NaN": (lambda: readout_leaf(alpha=BAD), "alpha"),
    "a negative tau of a read-out": (lambda: readout_leaf(tau=-1.0), "a usual tau"),
    "an infinite level": (lambda: readout_leaf(level=np.inf), "a usual level"),
    "labels of boxes all alike": (lambda: boxes(labels=ONES), "labels -1 and"),
    "boxes of another kind": (lambda: boxes(kind="mean"), "a read-out that it knows"),
    "trees in no list": (lambda: boxes(trees={}), "a list of trees"),
    "too many trees": (lambda: boxes(trees=[{}, {}, {}]), "1 trees"),
    "a point of boxes too large": (lambda: boxes(x=np.array([1e101, 0])), "usual sizes"),
    # deep.py, layers.py
    "another activation": (lambda: layers(activation="sigmoid"), "layers of relu, tanh, gelu, silu"),
    "one layer": (lambda: layers(depth=1), "two layers or more"),
    "a bias too few": (lambda: Layers((EYE, EYE), (ZEROS,), "relu"), "as many biases"),
    "layers that do not fit": (
        lambda: Layers((EYE, np.ones((2, 3))), (ZEROS, ZEROS), "relu"),
        "fit together",
    ),
    "a bias with NaN": (lambda: Layers((EYE, EYE), (ZEROS, BAD), "relu"), "fit together"),
    "one class": (lambda: Layers((EYE, np.ones((1, 2))), (ZEROS, np.zeros(1)), "relu"), "two classes"),
    "norm 3": (lambda: Region.around(ONES, 1.0, 3.0, (-np.inf, np.inf)), "the norm 1, 2 or inf"),
    "a region of radius 0": (lambda: Region.around(ONES, 0.0, 2.0, (-np.inf, np.inf)), "a radius"),
    "neurons without bounds": (lambda: Neurons(ZEROS, BAD), "bounds of neurons that are numbers"),
    "a deep tree that is none": (lambda: list(deep._leaves(cut([], {}), 2)), "a tree of dictionaries"),
    "a deep cut at no neuron": (lambda: list(deep._leaves(cut({}, {}, 2), 2)), "a cut at another neuron"),
    "a deep cut twice": (lambda: list(deep._leaves(cut(cut({}, {}), {}), 2)), "a cut at another neuron"),
    "a deep cut beside 0": (lambda: list(deep._leaves(cut({}, {}, 0, 0.1), 2)), "cuts at 0"),
    "one side of a deep cut": (
        lambda: list(deep._leaves({"cut": 0, "value": 0.0, "above": {}}, 2)),
        "both sides",
    ),
    "a negative multiplier of the ball": (lambda: deep._multipliers(signed(0), 2), "not negative"),
    "a negative multiplier of a side": (lambda: deep._multipliers(signed(2), 2), "not negative"),
    "a negative tau of a neuron": (lambda: deep._multipliers(signed(4 + 3), 2), "not negative"),
    "a negative sigma of a neuron": (lambda: deep._multipliers(signed(4 + 6), 2), "not negative"),
    "a block of another length": (lambda: deep_leaf({"block": np.ones(5)}), "bounds of 2 neurons"),
    "stored bounds that do not hold": (
        lambda: deep_leaf({"block": np.zeros(4)}),
        "bounds of neurons that hold",
    ),
    "norms too small": (lambda: product(np.array([0.9])), "norms that are no smaller"),
    "norms of another length": (lambda: product(ONES), "norms of the layers"),
    "norm 1 of a product": (lambda: product(ONES[:1], norm=1.0), "the norm 2 or inf"),
    "balls of another activation": (lambda: ball_proof(model=layers(activation="tanh")), "layers of ReLU"),
    "balls of radius 0": (lambda: ball_proof(radius=0.0), "a radius"),
    "balls of other multipliers": (lambda: ball_proof(ONES), "of multipliers"),
    "a multiplier of balls that is 0": (lambda: ball_proof(np.array([1.1, 0, 0, 0])), "that are positive"),
    "a norm of balls too small": (lambda: ball_proof(np.array([0.9, 1, 0, 0])), "norms that are no smaller"),
    # linear.py, quadratic.py, models.py
    "V of one axis": (lambda: LinearScores(ONES, ONES), "weights V"),
    "one linear class": (lambda: LinearScores(EYE[:1], ONES[:1]), "k ≥ 2"),
    "linear c with NaN": (lambda: LinearScores(EYE, BAD), "c as"),
    "a linear point with NaN": (lambda: LinearScores(EYE, ONES).radius(BAD, 0, 1, 2), "x as"),
    "quadratic V of one axis": (lambda: quadratic(V=ONES), "weights V"),
    "one quadratic class": (lambda: quadratic(V=EYE[:1], c=ONES[:1], A=np.zeros((1, 2, 2))), "k ≥ 2"),
    "quadratic c with NaN": (lambda: quadratic(c=BAD), "c as"),
    "quadratic c too large": (lambda: quadratic(c=HUGE), "c as"),
    "A of another shape": (lambda: quadratic(A=np.zeros((2, 2, 3))), "A as"),
    "A that is not symmetric": (lambda: quadratic(A=np.stack([np.triu(np.ones((2, 2)))] * 2)), "symmetric"),
    "a quadratic point with NaN": (lambda: quadratic().radius(BAD, 0, 1, 2, ONES[:1]), "x as"),
    "two multipliers": (lambda: quadratic().radius(ONES, 0, 1, 2, ONES), "one multiplier"),
    "a negative multiplier": (lambda: quadratic().radius(ONES, 0, 1, 2, -ONES[:1]), "one multiplier"),
    "a quadratic norm 3": (lambda: quadratic().radius(ONES, 0, 1, 3, ONES[:1]), "the norm 1, 2 or inf"),
    "scores with V of one axis": (lambda: scores(V=ONES), "weights V"),
    "scores with one class": (lambda: scores(V=EYE[:, :1], c=ONES[:1]), "k ≥ 2"),
    "scores with c of another length": (lambda: scores(c=np.ones(3)), "c as"),
    "scores with W of another length": (lambda: scores(W=np.ones((3, 2))), "weights W of 2"),
    "scores with b of another length": (lambda: scores(b=np.ones(3)), "b as"),
    "a margin asked of one output": (
        lambda: demanding(TwoClasses(network()), 1, 0.1),
        "a score for each class",
    ),
    "a file without neurons": (
        lambda: model_file(W=np.ones((0, 2)), a=ZEROS[:0], b=ZEROS[:0]),
        r"W \(h, d\)",
    ),
    "a file with W of one axis": (lambda: model_file(W=ONES, a=ONES), r"W \(h, d\)"),
    "a file with V of one axis": (lambda: model_file(W=EYE, V=ONES, c=ONES), r"V \(h, k\)"),
    "a file with a of another length": (lambda: model_file(W=EYE, a=np.ones(3)), r"a \(2,\)"),
    "a file with three offsets": (lambda: model_file(W=EYE, a=ONES, c=np.ones(3)), "c as one number"),
    "a file of another activation": (
        lambda: model_file(W=EYE, V=EYE, c=ONES, activation="elu"),
        "not of elu",
    ),
    "a file of relu with p = 2": (lambda: model_file(W=EYE, a=ONES, p=2.0), "p = 1 with relu"),
    "a file without p": (lambda: model_file(W=EYE, a=ONES, activation="prelu"), "p"),
    # arrays.py, stated.py, weights.py, float32.py
    "words for numbers": (lambda: real_numbers(np.array(["a"]), "W"), "W must hold real numbers"),
    "two numbers for one": (lambda: real_number(ONES, "p"), "p must be one number"),
    "an archive of other files": (lambda: arrays_of(other_archive(), "it"), "an archive of other files"),
    "an archive that grows": (lambda: arrays_of(growing_archive(), "it"), "more than is read"),
    "a folder for a file": (lambda: read_arrays(Path("/")), "Cannot read /"),
    "bounds of another length": (lambda: Stated(bounds=(np.ones(3), 2.0)).sides(2), "bounds must be"),
    "bounds upside down": (lambda: Stated(bounds=(1.0, 0.0)).sides(2), "Lower bounds"),
    "bounds with NaN": (lambda: Stated(bounds=(np.nan, 0.0)).sides(2), "Lower bounds"),
    "weights of another length": (lambda: Stated(weights=np.ones(3)).weight(2), "weights must be"),
    "a weight that is 0": (lambda: Stated(weights=np.array([0.0, 1.0])).weight(2), "must be positive"),
    "a weight that is NaN": (lambda: Stated(weights=BAD).weight(2), "must be positive"),
    "weights with one output": (
        lambda: weighted_model(TwoClasses(network()), ONES),
        "a score for each class",
    ),
    "float32 of a tanh": (lambda: float32_layers(layers(activation="tanh")), "about float32 exist"),
    "float32 of a power": (lambda: float32_layers(scores(p=2.0)), "about float32 exist"),
    # certificate.py
    "another kind": (lambda: certificate._in_its_units(Certificate(1.0, "magic"), problem(), ONES), "magic"),
    "a certificate of norm 1": (
        lambda: certificate._in_its_units(Certificate(1.0, "lipschitz", 1.0), problem(), ONES),
        "the norm 2 or inf",
    ),
}


def readout_leaf(**other):
    parts = {"alpha": ZEROS, "share": np.array([0.5, 0.4]), "tau": 1.0, "level": 0.0} | other
    nothing = enclosed(ZEROS)
    known = readouts.Scores(nothing, nothing, nothing, ZEROS, ZEROS, 2, True, 0, ZEROS, ZEROS, ZEROS, ZEROS)
    return readouts._refuse_malformed(parts, known)


def readout_leaves(tree):
    nothing = enclosed(ZEROS)
    known = readouts.Scores(nothing, nothing, nothing, ZEROS, ZEROS, 2, True, 0, -ONES, ONES, -ONES, ONES)
    return list(readouts._leaves(tree, known))


def boxes(labels=BOTH, x=ONES, kind="max", trees=(), W=EYE[:, None], y=1.0):
    return readouts.proven_readout(W, labels, x, y, kind, 0.5, trees if trees == {} else list(trees))


def ball_proof(numbers=MULTIPLIERS, radius=0.1, model=None):
    return deep.balls(model or layers(), np.array([1.0, 0.0]), 0, 1, radius, numbers)


def other_archive():
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("words.txt", "words")
    return content.getvalue()


def growing_archive():
    """70 MB of zeros."""
    content = BytesIO()
    np.savez_compressed(content, x=np.zeros(9_000_000))
    return content.getvalue()


def signed(place):
    values = np.ones(4 + 9)
    values[place] = -1e-9
    return values


def deep_leaf(node):
    region = Region.around(ONES, 0.1, 2.0, (-np.inf, np.inf))
    return deep.leaf_proves(node, layers(), ONES, 0, 1, region, {})


def product(norms, norm=2.0):
    return deep.norm_product(layers(), ONES, 0, 1, norm, norms)


def quadratic(**other):
    return QuadraticScores(**{"A": np.zeros((2, 2, 2)), "V": EYE, "c": ZEROS} | other)


def scores(**other):
    return Scores(**{"W": EYE, "b": ZEROS, "V": EYE, "c": ZEROS, "p": 1.0} | other)


def model_file(activation="relu", **arrays):
    content = BytesIO()
    np.savez(content, activation=np.array(activation), **arrays)
    return weights_of(content.getvalue())


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name):
    call, wanted = REFUSED[name]
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=wanted):
        call()


def test_what_is_just_allowed_is_not_refused():
    network(64.0)
    network(1.0, a=np.array([1e100, -1e100]))
    posed(network(), ONES, 1.0, 1e100)
    posed(network(), ONES, 1.0, 1e-100)
    posed(network(), ONES, 1.0, 1.0, np.array([1.99, -2.01]), 0)
    cells.refuse_malformed(leaf(line=ONES), problem())
    cells.refuse_malformed(leaf(line=ZEROS, tau=0.0), problem())
    cells.refuse_malformed(leaf(line=5 * ONES), problem(2.0))  # there it is where a tangent touches
    cells.refuse_malformed(cut(leaf(), leaf(), 1, -3.0), problem())
    readout_leaf(share=np.array([1 - 1e-9, 0.0]))
    deep._multipliers(np.zeros(4 + 9), 2)
    assert len(list(deep._leaves(cut(cut({}, {}, 1), {}), 2))) == 3


def test_a_tree_has_an_end(monkeypatch):
    monkeypatch.setattr(cells, "DEEPEST", 3)
    monkeypatch.setattr(cells, "MOST_CUTS", 5)
    monkeypatch.setattr(deep, "DEEPEST", 1)
    node = leaf()
    for _ in range(3):
        node = cut(node, leaf())
    cells.refuse_malformed(node, problem())
    with pytest.raises(ValueError, match="at most"):
        cells.refuse_malformed(cut(node, leaf()), problem())
    wide = cut(cut(leaf(), leaf()), cut(leaf(), leaf()))
    cells.refuse_malformed(wide, problem())
    with pytest.raises(ValueError, match="at most"):
        cells.refuse_malformed(cut(wide, wide), problem())
    with pytest.raises(ValueError, match="at most"):
        list(deep._leaves(cut(cut({}, {}, 1), {}), 2))


@pytest.mark.parametrize(
    ("low", "high"), [((0.0, -1.0), (1.0, 1.0)), ((-1.0, -1.0), (1.0, 0.0)), ((-0.05, -1.0), (1.0, 1.0))]
)
def test_stored_bounds_must_hold_on_both_sides_unless_a_cut_says_so(low, high):
    """At 0 the values of the first layer go from -0.1 to 0.1."""
    region, model = Region.around(ZEROS, 0.1, 2.0, (-np.inf, np.inf)), layers()
    block = np.array([*low, *high])
    with pytest.raises(ValueError, match="bounds of neurons that hold"):
        deep.leaf_proves({"block": block}, model, ZEROS, 0, 1, region, {})
    signs = {0: 1.0} if low[0] == 0 else {1: -1.0}
    if low[0] != -0.05:
        deep.leaf_proves({"block": block}, model, ZEROS, 0, 1, region, signs)
    deep.leaf_proves({"block": np.array([-1.0, -1.0, 1.0, 1.0])}, model, ZEROS, 0, 1, region, {})


@pytest.mark.parametrize("good", [(True, False), (False, True), (False, False), (True, True)])
def test_a_deep_tree_proves_only_if_every_leaf_does(good, monkeypatch):
    monkeypatch.setattr(deep, "leaf_proves", lambda node, *_: node["good"])
    tree = cut({"good": good[0]}, {"good": good[1]})
    region = Region.around(ONES, 0.1, 2.0, (-np.inf, np.inf))
    assert deep.proves(tree, layers(), ONES, 0, 1, region) == all(good)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_a_form_that_is_no_number_is_not_positive(entry):
    form = np.eye(3)
    assert deep._is_positive(deep.enclosed(form))
    for place in ((0, 0), (0, 1)):
        form[place] = form[place[::-1]] = entry
        assert not deep._is_positive(deep.enclosed(form))
        form = np.eye(3)
    assert not deep._is_positive(deep.enclosed(np.diag([1.0, -1.0, 1.0])))
    assert not deep._is_positive(deep.enclosed(np.diag([1.0, 0.0, 1.0])))


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_a_minimum_of_what_is_no_number_proves_nothing(entry):
    posed_problem = problem()
    for g, e in ((np.array([entry, 0.0]), ZEROS), (ZEROS, np.array([entry, 0.0]))):
        assert cells._minimiser(g, e, posed_problem)[1] == 0.0


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan])
def test_no_positive_number_is_no_radius(radius):
    assert problem().unscaled(radius) == 0.0
    assert problem().unscaled(0.25) == pytest.approx(0.25 * 2.0 ** problem().length)


@pytest.mark.parametrize(
    "certificate",
    [
        Certificate(0.1, "magic", 2, 0.1),
        Certificate(0.1, "balls", np.inf, 0.1, {"numbers": MULTIPLIERS}),
        Certificate(0.1, "norm product", 2, 0.1),
    ],
)
def test_a_malformed_certificate_of_several_layers_verifies_nothing(certificate):
    x = np.array([1.0, 0.0])
    good = Certificate(0.1, "norm product", 2, 0.1, {"numbers": np.array([1.1])})
    assert deep.verified(good, layers(), x, 0, 1) > 0.1
    assert deep.verified(good, layers(), np.ones(3), 0, 1) == 0
    assert deep.verified(certificate, layers(), x, 0, 1) == 0


# --- proof files


def proof_arrays(**changes):
    """The arrays of a small file, some of them changed."""
    statement = Statement(np.full(2, -np.inf), np.full(2, np.inf), 2, None, None, "real", Source("a"), "b")
    tree = {"votes": np.array([0.9, -1.1]), "scale": 0, **cut(leaf(), leaf())}
    proof = Proof(0, 1, 0, Certificate(0.3, "cells", 2, 0.5, tree))
    content = proof_bytes(statement, np.array([0.3]), np.array([1]), [proof])
    with np.load(BytesIO(content)) as file:
        return dict(file) | changes


def read(arrays):
    content = BytesIO()
    np.savez(content, **{name: array for name, array in arrays.items() if array is not None})
    return read_proofs(content.getvalue())


def header(**changes):
    return np.array(json.dumps(json.loads(str(proof_arrays()["header"])) | changes))


def column(name, *values):
    kind = proof_arrays()[name].dtype
    return lambda: {name: np.array(values, dtype=kind)}


FILES = {
    "no header": (lambda: {"header": None}, "lacks a header"),
    "a header of numbers": (lambda: {"header": np.array(1.0)}, "lacks a header"),
    "a header that is no JSON": (lambda: {"header": np.array("{")}, "no JSON"),
    "another version": (lambda: {"header": header(version=3)}, "version 2 is read"),
    "another format": (lambda: {"header": header(format="x")}, "version 2 is read"),
    "norm 3": (lambda: {"header": header(norm=3)}, "not as the format"),
    "eps 0": (lambda: {"header": header(eps=0)}, "not as the format"),
    "eps of words": (lambda: {"header": header(eps="1")}, "not as the format"),
    "classes of lists": (lambda: {"header": header(classes=[[]])}, "not as the format"),
    "another arithmetic": (lambda: {"header": header(arithmetic="float16")}, "not as the format"),
    "points without a hash": (lambda: {"header": header(points={})}, "not as the format"),
    "a weight that is 0": (lambda: {"weights": np.array([0.0, 1.0])}, "weights must be positive"),
    "weights of another length": (lambda: {"weights": np.ones(3)}, "weights must be positive"),
    "lower above upper": (lambda: {"lower": np.ones(2), "upper": np.array([2.0, 0.9])}, "lower bounds"),
    "bounds of another length": (column("lower", -np.inf), "lower bounds"),
    "a column that is missing": (lambda: {"margin": None}, "it lacks margin"),
    "a column of two axes": (lambda: {"margin": np.zeros((1, 1))}, "one axis"),
    "a column of another type": (lambda: {"label": np.zeros(1)}, "one axis"),
    "a column of shorter numbers": (lambda: {"margin": np.zeros(1, np.float32)}, "one axis"),
    "columns of other lengths": (column("margin", 0.0, 0.0), "differ in length"),
    "a claim that is negative": (column("certified", -0.1), "certified radii"),
    "a claim that is NaN": (column("certified", np.nan), "certified radii"),
    "a margin that is negative": (column("margin", -1e-9), "margins must be"),
    "a margin that is NaN": (column("margin", np.nan), "margins must be"),
    "a margin too large": (column("margin", 2 * LARGEST), "margins must be"),
    "a label that is negative": (column("label", -1), "labels must be"),
    "a table of other lengths": (column("proof_radius", 0.3, 0.3), "differ in length"),
    "numbers with NaN": (lambda: {"numbers": proof_arrays()["numbers"] * np.nan}, "must be finite"),
    "another kind": (column("proof_kind", "magic"), "is not known"),
    "a proof about no point": (column("proof_point", 1), "about no point"),
    "a proof about point -1": (column("proof_point", -1), "about no point"),
    "a proof about no class": (column("proof_target", -1), "or no class"),
    "a radius of 0": (column("proof_radius", 0.0), "no usual number"),
    "a radius that is NaN": (column("proof_radius", np.nan), "no usual number"),
    "a reach that is negative": (column("proof_reach", -1.0), "no usual number"),
    "a reach that is too large": (column("proof_reach", 2 * LARGEST), "no usual number"),
    "a radius beyond its reach": (column("proof_reach", 0.2), "beyond its reach"),
    "votes that are not there": (column("proof_votes", 1), "votes that are not there"),
    "votes at -2": (column("proof_votes", -2), "votes that are not there"),
    "no tree": (column("proof_root", -1), "lacks its tree"),
    "a tree too many": (column("proof_kind", "lipschitz"), "one too many"),
    "a root that is not there": (column("proof_root", 3), "is not there"),
    "numbers of a proof out of range": (column("proof_width", 10**6), "out of range"),
    "numbers of votes out of range": (column("votes_first", -1), "out of range"),
    "a node that leads to itself": (column("node_below", 0, -1, -1), "met before"),
    "a node that leads to none": (column("node_below", 7, -1, -1), "leads to none"),
    "a leaf that leads on": (column("node_above", 1, 0, -1), "leads to none"),
    "a cut with numbers": (column("node_width", 3, 15, 15), "out of range"),
    "a leaf out of range": (column("node_width", 0, 10**6, 15), "out of range"),
    "a cut at no place": (column("node_value", np.nan, 0.0, 0.0), "a cut is at no place"),
    "a cut at -2": (column("node_cut", 0, -2, -1), "a node leads to none|a cut is at no place"),
}


def test_the_file_as_it_is_can_be_read():
    file = read(proof_arrays())
    assert [p.certificate.kind for p in file.proofs] == ["cells"]
    assert list(read(proof_arrays(margin=np.array([LARGEST]))).margin) == [LARGEST]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused(name):
    changes, wanted = FILES[name]
    with pytest.raises(ValueError, match=wanted):
        read(proof_arrays(**changes()))


def test_both_checkers_read_files_of_the_same_size():
    assert MAX_FILE == LARGEST_FILE == 2**32


# --- what is answered


@pytest.mark.parametrize(("eps", "proven"), [(None, [False, True, True]), (0.5, [False, False, True])])
def test_a_point_without_a_verified_radius_is_not_proven(eps, proven):
    verified = np.array([0.0, 0.4, 0.5])
    statement = Statement(np.full(2, -np.inf), np.full(2, np.inf))
    assert Checked(Stated(2, eps), statement, verified, verified).proven.tolist() == proven
    assert Checked(Stated(2, eps), statement, verified, verified + 0.1).refused.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "wrong", [{"norm": 3}, {"eps": 0.0}, {"eps": np.inf}, {"eps": np.nan}, {"arithmetic": "float16"}]
)
def test_a_question_that_nobody_can_answer_is_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        Stated(**wrong)
