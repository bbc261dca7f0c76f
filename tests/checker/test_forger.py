"""No forged proof is accepted, and every forger would get through a checker that lacks one guard."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from forger import FORGERS, at_edge, cases, flips, forged, kinds_of, wide

from featureprism.checker import layers
from featureprism.checker.certificate import Certificate
from featureprism.checker.layers import Layers
from featureprism.checker.proofs import Proof
from featureprism.checker.verify import verified_radii

QUICK, MANY = range(4), range(100, 140)
TRIES = 20  # to get through the weakened checker


@pytest.mark.parametrize("name", FORGERS)
def test_forged_proofs_are_refused_and_get_through_without_their_guard(name):
    through = tried = 0
    forger = FORGERS[name]
    for case, certificate in forged(name, QUICK, 1):
        tried += 1
        assert not case.accepts(certificate), (name, certificate.kind)
        with forger.without_guards(), np.errstate(all="ignore"):
            through += case.accepts(certificate)
            for again in range(0 if through else TRIES):
                through += case.accepts(forger.forge(case, np.random.default_rng(again)))
    assert tried > 0
    assert through > 0, f"{name} of {tried} defeats nothing"


@pytest.mark.slow
def test_of_five_thousand_forged_proofs_none_is_accepted():
    counts, accepted = Counter(), []
    for name in FORGERS:
        for case, certificate in forged(name, MANY, 4 if name == "climbing" else 8):
            counts[name, certificate.kind, f"norm {certificate.norm:g}"] += 1
            if case.accepts(certificate):
                accepted.append((name, certificate.kind))
    print(f"\n{counts.total()} forged proofs, {len(accepted)} accepted:", dict(counts))
    assert accepted == []
    assert counts.total() >= 5000


def at_the_edge(seeds: range, repeats: int) -> Counter:
    """Counts of refused models, of forged proofs about the others, and of those that get through unguarded."""
    counts = Counter()
    names = ("boastful", "narrow", "steep", "negative", "rewarding", "blind", "short")
    for case in cases(seeds, ("linear", "1", "2", "layers")):
        rng = np.random.default_rng(len(counts))
        for _ in range(repeats):
            with np.errstate(all="ignore"):
                try:
                    scaled = at_edge(case, rng)
                except ValueError:
                    counts["refused models"] += 1
                    continue
                if not flips(scaled.model, scaled.x, scaled.delta):
                    continue  # weights that were rounded to denormal numbers
                one_layer = hasattr(scaled.model, "p")
                kinds = kinds_of(case.certificate) if one_layer else (case.certificate.kind,)
                for kind in kinds:
                    if one_layer:
                        scaled = replace(scaled, certificate=wide(scaled, kind, rng))
                    for name in names:
                        forger = FORGERS[name]
                        base = (
                            "layers" if isinstance(scaled.model, Layers) else "1" if one_layer else "linear"
                        )
                        if base not in forger.kinds or kind not in forger.of:
                            continue
                        if one_layer and not scaled.certificate.tree:
                            counts["no certificate"] += 1
                            continue
                        certificate = forger.forge(scaled, rng)
                        counts["forged"] += 1
                        assert not scaled.accepts(certificate), (name, kind, scaled)
                        if name != "boastful":
                            with forger.without_guards():
                                counts["through unguarded"] += scaled.accepts(certificate)
    return counts


def test_at_the_edge_of_float64_proofs_are_refused():
    counts = at_the_edge(range(3), 4)
    assert min(counts["refused models"], counts["forged"], counts["through unguarded"]) > 0


@pytest.mark.slow
def test_at_the_edge_of_float64_many_proofs_are_refused():
    counts = at_the_edge(range(100, 160), 8)
    print("\n", dict(counts))
    assert counts["forged"] >= 500


def huge(scale: int) -> Layers:
    """Scores 1 and 16[x_1 - x_2 - 0.01]₊, through weights near 2^scale."""
    weights = (
        2.0**20 * np.array([[1.0, -1.0]]),
        np.array([[2.0**scale]]),
        np.array([[0.0], [2.0 ** (-16 - scale)]]),
    )
    return Layers(weights, (np.array([-0.01 * 2.0**20]), np.zeros(1), np.array([1.0, 0.0])), "relu")


def test_weights_at_the_edge_of_float64_are_refused():
    with pytest.raises(ValueError, match="up to 1e100"):
        huge(1004)


@pytest.mark.parametrize("scale", [0, 300, 310])
def test_nan_is_no_neuron_that_is_off(scale):
    model, x = huge(scale), np.zeros(2)
    assert flips(model, x, np.array([0.0366, -0.0366]))
    for multipliers in (np.empty(0), np.ones(2 + 2 + 3 * 2), np.full(10, 1e300), np.full(10, 1e-300)):
        for low, high in ((-1.0, -0.5), (-1e300, 1e300), (-1.0, 1e300)):
            block = np.concatenate([np.full(2, low), np.full(2, high), multipliers])
            claim = Certificate(10.0, "deep", 2, 10.0, {"block": block})
            assert verified_radii(model, x[None], np.array([0]), [Proof(0, 0, 1, claim)], 2)[0] == 0
    with pytest.raises(ValueError, match="numbers"):
        layers.Neurons(np.array([np.nan]), np.array([1.0]))


def cancelling() -> tuple[Layers, np.ndarray, np.ndarray]:
    """Two points with the same float values of the first layer; of one of them these are exact, of the other off by 1."""
    W1 = np.array([[1.0, 1.0, 1.0, -1.0]])
    model = Layers((W1, np.array([[1.0], [0.0]])), (np.array([-0.5]), np.array([0.0, 0.25])), "relu")
    a, b = np.zeros(4), np.array([0.0, 1.0, 2.0**53, 2.0**53])
    return model, a, b


def test_what_is_known_of_one_point_is_not_believed_of_another():
    model, a, b = cancelling()
    H = 1
    block = np.concatenate([np.full(H, -0.6), np.full(H, -0.4)])
    claim = Certificate(0.01, "deep", 2, 0.02, {"block": block})
    proofs = [Proof(i, 1, 0, claim) for i in range(2)]
    truth = np.array([not flips_to(model, point) for point in (a, b)])
    radii = verified_radii(model, np.stack([a, b]), np.array([1, 1]), proofs, 2)
    assert radii[0] > 0
    assert truth[0]
    assert not truth[1]
    assert radii[1] == 0
    alone = verified_radii(model, b[None], np.array([1]), [replace(proofs[1], point=0)], 2)
    assert alone[0] == 0


def flips_to(model: Layers, point: np.ndarray) -> bool:
    """Whether class 0 wins or ties exactly."""
    swapped = replace(
        model,
        weights=(model.weights[0], model.weights[1][::-1].copy()),
        biases=(model.biases[0], model.biases[1][::-1].copy()),
    )
    return flips(swapped, point, np.zeros_like(point))
