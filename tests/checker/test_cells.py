"""Soundness of the checker, with fractions as the truth: no radius is granted beyond a perturbation that flips exactly."""

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from asking import asked
from asking import check_point as check

import exact_networks as exact
from featureprism.checker.cells import DEEPEST, PARAMETERS
from featureprism.checker.certificate import verified
from featureprism.checker.scaled import LARGEST, Network, posed, votes_below
from featureprism.models.model import as_model
from featureprism.models.one_layer import PowerForm
from featureprism.networks import LinearClassifier, PolynomialReLU, PowerReLU, ReLU, TwoLayerNet
from featureprism.networks.reference import NearestCluster
from featureprism.verify import Certificate
from featureprism.verify.one_layer.branch_and_bound import prove
from featureprism.verify.one_layer.cells import Problem
from featureprism.verify.one_layer.certify import cells_certificate, crown_certificate
from featureprism.verify.query import Limits

REACH = 6.0
BEYOND = 1.5  # trees speak of perturbations up to this multiple of the witness, so that a false one has room to show
OFFSETS = (1e3, 1e6, 1e9, 1e12)
MUTANTS = 12  # of every tree
PER_TREE = 4 + len(OFFSETS) + MUTANTS
PARTS = [0, *(pytest.param(part, marks=pytest.mark.thorough) for part in range(1, 10))]


def network(net: exact.Weights) -> TwoLayerNet:
    activation = ReLU() if net.p == 1 else PolynomialReLU(net.p) if net.normalised else PowerReLU(net.p)
    return TwoLayerNet(*(torch.from_numpy(v) for v in (net.W, net.a, net.b)), activation=activation)


def form_of(net: exact.Weights) -> PowerForm:
    form = as_model(network(net)).one_layer
    assert form is not None
    return form


@dataclass(frozen=True, eq=False)
class Planted:
    """A network around a known adversarial example, and what the search proves about it."""

    net: exact.Weights
    x: np.ndarray
    y: float
    delta: np.ndarray
    certificate: Certificate

    def granted(self, certificate: Certificate) -> float:
        """What is verified of a certificate, with the votes of this network."""
        network = form_of(self.net).network
        with np.errstate(all="ignore"):
            votes, scale = votes_below(network, self.y)
        certificate = replace(certificate, tree=certificate.tree | {"votes": votes, "scale": scale})
        return verified(certificate, network, self.x, self.y)


def planted(seed: int) -> Planted | None:
    """None where nothing near flips."""
    rng = np.random.default_rng((seed, 0))
    net, y = exact.random_weights(rng), float(rng.choice([-1, 1]))
    x = rng.normal(size=net.W.shape[1])
    if exact.flips_exactly(net, x, y, 0 * x):
        y = -y
    delta = None if exact.flips_exactly(net, x, y, 0 * x) else exact.shortest_flip(net, x, y, REACH, rng)
    if delta is None or not np.linalg.norm(delta) > 1e-3:
        return None
    form, reach = form_of(net), BEYOND * float(np.linalg.norm(delta))
    point, label = torch.from_numpy(x), torch.tensor([y]).double()
    at = 0.999 * torch.from_numpy(delta)
    _, gradient = network(net).input_gradient((point + at).unsqueeze(0))
    problem = Problem(
        form.gram,
        (form.W @ point + form.b).unsqueeze(0),
        form.weight.abs().unsqueeze(0),
        (label * form.weight > 0).unsqueeze(0),
        torch.tensor([reach]).double(),
        form.p,
    )
    (tree,) = prove(
        problem,
        (form.W @ (point + at) + form.b).unsqueeze(0),
        (at.norm() / gradient.norm().clamp_min(1e-6)).reshape(1),
        torch.tensor([reach / BEYOND]).double(),
        limits=Limits(4),
    )
    return Planted(net, x, y, delta, cells_certificate(tree, form, reach, point, y))


def nodes_of(tree):
    waiting, nodes = [tree], []
    while waiting:
        nodes.append(waiting.pop())
        waiting += [nodes[-1][child] for child in ("below", "above") if child in nodes[-1]]
    return nodes


def mutant(certificate: Certificate, rng: np.random.Generator) -> Certificate:
    """A well-formed certificate with some of its parameters changed at random."""
    tree = deepcopy(certificate.tree)
    for _ in range(int(rng.integers(1, 5))):
        nodes = nodes_of(tree)
        node = nodes[rng.integers(len(nodes))]
        if "cut" in node:
            width = len(next(n for n in nodes if "cut" not in n)["line"])
            if rng.integers(2):
                node["value"] = float(rng.choice([0.0, -node["value"], node["value"] + rng.normal()]))
            elif rng.integers(2):
                node["cut"] = int(rng.integers(width))
            else:
                node["below"], node["above"] = node["above"], node["below"]
        elif rng.integers(4):
            name = str(rng.choice(PARAMETERS))
            factor = rng.choice([0.0, 1.0, 1.0, 1e3, 1e300], size=len(node[name])) * 10.0 ** rng.normal()
            with np.errstate(over="ignore", invalid="ignore"):  # an infinite multiplier times 0 is no number
                changed = np.minimum(node[name] * factor, 1e300) + rng.choice([0.0, 0.1])
            if name in ("centre", "low", "high"):
                changed = changed * rng.choice([-1.0, 1.0], size=len(changed))
            node[name] = np.minimum(changed, 1.0) if name == "line" else changed
        else:
            node["tau"] = float(node["tau"] * 10.0 ** rng.normal())
    return replace(certificate, tree=tree, reach=certificate.reach * float(rng.choice([1.0, 1.0, 0.7, 3.0])))


def largest_crown(case: Planted, norm: float) -> float:
    """The largest radius that CROWN is granted, by bisection."""
    low, high = 0.0, 2 * float(np.linalg.norm(case.delta))
    for _ in range(30):
        middle = (low + high) / 2
        found = crown_certificate(form_of(case.net), torch.from_numpy(case.x), case.y, middle, norm)
        granted = case.granted(found)
        low, high = (granted, high) if granted >= middle * (1 - 1e-6) else (low, middle)
    return low


def assert_nothing_false(case: Planted, rng: np.random.Generator) -> float:
    """What is granted stays below the witness for the tree, for it in other units, for it far away, and for its mutants."""
    genuine = case.granted(case.certificate)
    assert not exact.exceeds(genuine, case.delta)
    assert not exact.exceeds(case.granted(Certificate(1.0, "lipschitz")), case.delta)
    if rng.integers(4) == 0:
        for norm in (2, math.inf):
            assert not exact.exceeds(largest_crown(case, norm), case.delta, norm)
    homes = [case]
    for _ in range(3):
        net, x, length = exact.rescaled(case.net, case.x, rng)
        if max(np.abs(v).max() for v in (net.W, net.a, net.b)) > LARGEST:
            continue  # the checker refuses such weights
        certificate = replace(case.certificate, reach=length * case.certificate.reach)
        home = Planted(net, x, case.y, length * case.delta, certificate)
        assert exact.flips_exactly(net, x, case.y, home.delta)
        assert home.granted(certificate) == pytest.approx(length * genuine, rel=1e-9, abs=0)
        homes.append(home)
    for offset in OFFSETS:
        net, x = exact.moved(case.net, case.x, offset)
        if exact.flips_exactly(net, x, case.y, 0 * x):
            continue
        delta = exact.shortest_flip(net, x, case.y, REACH, rng)
        if delta is not None:
            homes.append(Planted(net, x, case.y, delta, case.certificate))
            assert not exact.exceeds(homes[-1].granted(case.certificate), delta), f"offset {offset:g}"
    for _ in range(MUTANTS):
        home = homes[rng.integers(len(homes))]
        granted = home.granted(mutant(home.certificate, rng))
        assert not exact.exceeds(granted, home.delta), "a mutant proves something false"
    return genuine / float(np.linalg.norm(case.delta))


def check_planted(seeds) -> list[float]:
    """The share of the witness that each genuine tree proves."""
    shares = []
    for seed in seeds:
        case = planted(seed)
        if case is not None:
            shares.append(assert_nothing_false(case, np.random.default_rng((seed, 1))))
    return shares


def test_nothing_is_granted_beyond_an_exact_flip():
    shares = check_planted(range(4))
    assert PER_TREE * len(shares) >= 60
    assert np.median(shares) > 0.9  # proofs that prove little would test little


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_granted_beyond_ten_thousand_exact_flips(part):
    shares = check_planted(range(100 + 90 * part, 100 + 90 * (part + 1)))
    assert PER_TREE * len(shares) >= 1000
    assert np.median(shares) > 0.9


@pytest.mark.parametrize("seed", [0, 6])
def test_brackets_hold_at_other_scales_and_far_away(seed):
    rng = np.random.default_rng((seed, 7))
    net = exact.random_weights(rng)
    x = rng.normal(size=net.W.shape[1])
    shrunk = replace(net, W=np.ldexp(net.W, -40), b=np.ldexp(net.b, -40))
    for home, point, length in (
        (shrunk, x, 1.0),
        exact.rescaled(net, x, rng),
        (*exact.moved(net, x, 1e6), 1.0),
        (*exact.moved(net, x, 1e12), 1.0),
    ):
        y = -1.0 if exact.flips_exactly(home, point, 1.0, 0 * point) else 1.0
        points, labels = torch.from_numpy(point).unsqueeze(0), torch.tensor([y]).double()
        bracket = asked(network(home), points, labels, branches=2, max_radius=REACH * length)
        certified = float(bracket.certified)
        assert check(bracket.certificates[0], network(home), points[0], y)
        delta = exact.shortest_flip(home, point, y, REACH * length, rng)
        assert delta is None or not exact.exceeds(certified, delta)


@pytest.mark.parametrize("exponent", [-1000, -300, -70, -40, 0, 40, 70, 300])
def test_a_single_neuron_is_measured_to_the_last_digits_at_every_scale(exponent):
    # f = [⟨w, x⟩ + b]₊ flips at distance (⟨w, x⟩ + b)/‖w‖ = 7/5
    net = exact.Weights(np.array([[3.0, 4.0]]), np.array([1.0]), np.array([-4.0]), 1.0, normalised=False)
    net = replace(net, W=np.ldexp(net.W, exponent), b=np.ldexp(net.b, exponent))
    case = Planted(net, np.array([1.0, 2.0]), 1.0, np.zeros(2), Certificate(2.0, "lipschitz"))
    granted = case.granted(case.certificate)
    assert 1.4 * (1 - 1e-13) < granted <= 1.4


def test_the_rounding_of_the_pre_activations_is_counted():
    # exactly, ⟨w, x⟩ + b = 0; floats see 1 or 0, depending on the order in which they add: 2^53 + 3 is rounded to 2^53 + 4
    W, x = np.array([[1.0, 1.0, -1.0]]), np.array([2.0**53, 3.0, 2.0**53])
    net = exact.Weights(W, np.array([1.0]), np.array([-3.0]), 1.0, normalised=False)
    assert exact.flips_exactly(net, x, 1.0, 0 * x)
    case = Planted(net, x, 1.0, 0 * x, Certificate(1.0, "lipschitz"))
    assert case.granted(case.certificate) == 0
    for radius in (1e-3, 1e-30):
        assert crown_certificate(form_of(net), torch.from_numpy(x), 1.0, radius, 2).radius == 0


@pytest.mark.parametrize("offset", [0.0, *OFFSETS])
def test_closed_forms_count_the_rounding_of_far_points(offset):
    # two centres, or a linear rule: y f(x + δ) ≤ 0 from the distance ⟨x, w⟩/‖w‖ on
    rng = np.random.default_rng(int(offset))
    u = torch.linalg.qr(torch.from_numpy(rng.normal(size=(6, 2))))[0].T.contiguous()
    x = torch.from_numpy(rng.normal(size=(40, 6)) + offset)
    nearest = NearestCluster(u, torch.tensor([1.0, -1.0]).double())
    linear = LinearClassifier(torch.from_numpy(rng.normal(size=6)))
    for net, w in (
        (nearest, [p - m for p, m in zip(*map(exact.rationals, nearest.directions), strict=True)]),
        (linear, exact.rationals(linear.w.detach())),
    ):
        with torch.no_grad():
            y = torch.where(net(x) >= 0, 1.0, -1.0).double()
        bracket = asked(net, x, y)
        for point, label, certified in zip(x, y.tolist(), bracket.certified.tolist(), strict=True):
            margin = int(label) * sum(u * v for u, v in zip(exact.rationals(point), w, strict=True))
            assert certified == 0 or margin > 0
            assert Fraction(certified) ** 2 * sum(v * v for v in w) <= margin**2


@pytest.fixture(scope="module")
def cut_case():
    """A case whose tree has at least one cut."""
    cases = (planted(seed) for seed in range(100))
    return next(
        c for c in cases if c is not None and "cut" in c.certificate.tree and c.granted(c.certificate) > 0
    )


def with_leaf(certificate, **changes):
    tree = deepcopy(certificate.tree)
    next(n for n in nodes_of(tree) if "cut" not in n).update(changes)
    return replace(certificate, tree=tree)


def with_root(certificate, **changes):
    return replace(certificate, tree={**certificate.tree, **changes})


def inside_itself(certificate):
    tree = dict(certificate.tree)
    tree["above"] = tree
    return replace(certificate, tree=tree)


def too_deep(certificate):
    leaf = next(n for n in nodes_of(certificate.tree) if "cut" not in n)
    tree = leaf
    for _ in range(DEEPEST + 1):
        tree = {"cut": 0, "value": 0.0, "below": leaf, "above": tree}
    return replace(certificate, tree=tree)


MALFORMED = {
    "a cut inside itself": inside_itself,
    "a tree too deep": too_deep,
    "no tree": lambda c: replace(c, tree={}),
    "one side missing": lambda c: replace(c, tree={k: v for k, v in c.tree.items() if k != "above"}),
    "a side that is no tree": lambda c: with_root(c, below=None),
    "a neuron below the first": lambda c: with_root(c, cut=-1),
    "a neuron beyond the last": lambda c: with_root(c, cut=99),
    "a neuron between two": lambda c: with_root(c, cut=0.5),
    "a neuron that is a truth": lambda c: with_root(c, cut=True),
    "a cut at NaN": lambda c: with_root(c, value=math.nan),
    "a cut at infinity": lambda c: with_root(c, value=math.inf),
    "a cut nowhere": lambda c: with_root(c, value=None),
    "a negative tau": lambda c: with_leaf(c, tau=-1.0),
    "an infinite tau": lambda c: with_leaf(c, tau=math.inf),
    "tau not a number": lambda c: with_leaf(c, tau=math.nan),
    "tau a word": lambda c: with_leaf(c, tau="1"),
    "a reach of NaN": lambda c: replace(c, reach=math.nan),
    "an infinite reach": lambda c: replace(c, reach=math.inf),
    "a negative reach": lambda c: replace(c, reach=-c.reach),
    "another norm": lambda c: replace(c, norm=math.inf),
    "an unknown kind": lambda c: replace(c, kind="trust me"),
    "a radius of NaN": lambda c: replace(c, radius=math.nan),
    "an infinite radius": lambda c: replace(c, radius=math.inf),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_certificates_are_refused(name, cut_case):
    true = cut_case.certificate
    net, x = network(cut_case.net), torch.from_numpy(cut_case.x)
    assert check(true, net, x, cut_case.y)
    assert not check(MALFORMED[name](true), net, x, cut_case.y)


@pytest.mark.parametrize("name", PARAMETERS)
def test_malformed_parameters_are_refused(name, cut_case):
    true = cut_case.certificate
    net, x = network(cut_case.net), torch.from_numpy(cut_case.x)
    good = next(n for n in nodes_of(true.tree) if "cut" not in n)[name]
    for bad in (
        good + math.nan,
        good + math.inf,
        *(
            [good - 1e9] if name not in ("centre", "low") else []
        ),  # a tangent may lie at t < 0, bounds may be wide
        good[:-1],
        good.astype(np.float32),
        good.astype(object),
        good.tolist(),
        good.reshape(1, -1),
        None,
    ):
        assert not check(with_leaf(true, **{name: bad}), net, x, cut_case.y)


def test_networks_must_be_finite_double_arrays():
    W, a, b = np.ones((2, 3)), np.ones(2), np.ones(2)
    for bad in (
        (W.astype(np.float32), a, b, 1.0),
        (W, a[:1], b, 1.0),
        (W, a, b + math.nan, 1.0),
        (W * math.inf, a, b, 1.0),
        (W, a, b, 0.5),
        (W, a, b, math.nan),
    ):
        with pytest.raises(ValueError, match="The checker needs"):
            Network(*bad, normalised=False)
    net = Network(W, a, b, 1.0, normalised=False)
    for point, label, radius in (
        (np.ones(2), 1.0, 1.0),
        (np.ones(3), 0.0, 1.0),
        (np.ones(3) * math.nan, 1.0, 1.0),
        (np.ones(3), 1.0, 0.0),
        (np.ones(3), 1.0, math.nan),
    ):
        with pytest.raises(ValueError, match="The checker needs"):
            posed(net, point, label, radius)
