"""Certificates of every kind, mutated at random and claiming more than a witness allows: none is accepted."""

import math
from collections import Counter
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from asking import asked
from small_models import question

from featureprism.checker.certificate import Certificate
from featureprism.checker.verify import verified_radii
from featureprism.models import read_model

MUTANTS = 20  # of every certificate
REACH = 4.0
CELLS = {"several_layers": 60}  # that it takes to cut
SEEDS = 800  # that it takes
CHILDREN = ("below", "above")
KINDS = ("cells", "lines", "ellipsoid", "deep", "crown", "lipschitz", "norm product")


def nodes_of(tree: dict) -> list[dict]:
    return [tree, *(node for child in CHILDREN if child in tree for node in nodes_of(tree[child]))]


def changed(value, rng: np.random.Generator):
    """A number or an array like it, with some entries scaled, exchanged, shifted, turned around or gone."""
    if isinstance(value, int):
        return int(rng.integers(0, 2 * abs(value) + 3))
    entries = np.atleast_1d(np.array(value, dtype=np.float64))
    some = rng.random(len(entries)) < rng.choice([0.3, 1.0])
    with np.errstate(over="ignore"):
        other = (
            entries * 10.0 ** rng.normal(size=len(entries)),
            entries * 10.0 ** (3 * rng.normal()),
            rng.permutation(entries),
            entries + 0.1 * rng.normal(size=len(entries)),
            -entries,
            0 * entries,
            entries + 1e300,
        )[rng.integers(7)]
    entries = np.where(some, np.clip(other, -1e300, 1e300), entries)
    return entries if isinstance(value, np.ndarray) else float(entries[0])


def mutated(certificate: Certificate, beyond: float, rng: np.random.Generator) -> Certificate:
    """Another certificate with a tree of its kind, which claims the radius `beyond`."""
    tree = deepcopy(certificate.tree)
    for _ in range(int(rng.integers(1, 4)) if tree else 0):
        nodes = nodes_of(tree)
        node = nodes[rng.integers(len(nodes))]
        if "cut" in node and rng.integers(3) == 0:
            if rng.integers(2):
                node["below"], node["above"] = node["above"], node["below"]
            else:  # one side speaks for both
                side = deepcopy(node[CHILDREN[rng.integers(2)]])
                kept = {k: v for k, v in node.items() if k not in (*CHILDREN, "cut", "value")}
                node.clear()
                node.update(kept | side)
            continue
        name = str(rng.choice([key for key in node if key not in CHILDREN]))
        node[name] = changed(node[name], rng)
    kind = certificate.kind if rng.integers(8) else str(rng.choice(KINDS))
    reach = certificate.reach * float(rng.choice([1.0, 1.0, 0.5, 1.01, 3.0]))
    return replace(certificate, radius=beyond, kind=kind, reach=reach, tree=tree)


def mutate_all(seeds: range) -> tuple[Counter, list[str]]:
    """Mutants by the kind of their certificate, and what was accepted."""
    counts, wrong = Counter(), []
    for seed in seeds:
        q, rng = question(seed), np.random.default_rng((seed, 8))
        cells = CELLS.get(q.kind, 4)
        effort = {"norm": q.norm, "bounds": q.domain, "branches": cells}
        if q.kind == "read_out" or getattr(q.net, "num_classes", 2) > 2:
            continue  # one proof is enough where there is one rival
        model = read_model(q.net)
        if model.weights is None:
            continue  # nothing that a file could be checked against
        bracket = asked(q.net, q.x, q.labels, max_radius=REACH, **effort)
        for proof in bracket.proofs():
            i, true = proof.point, proof.certificate
            if not math.isfinite(float(bracket.attacked[i])):
                continue
            far = float(bracket.attacked[i]) * (1 + 1e-9)
            x, own = q.x[i : i + 1].numpy(), np.array([proof.own])
            kind = "deep with cuts" if true.kind == "deep" and "cut" in true.tree else true.kind
            counts[kind, f"norm {q.norm:g}", "box" if q.domain else "no box"] += MUTANTS
            for _ in range(MUTANTS):
                claim = mutated(true, far * float(rng.choice([1.0, 1.001, 1.1, 2.0])), rng)
                if (
                    verified_radii(
                        model.weights, x, own, [replace(proof, point=0, certificate=claim)], q.norm
                    )[0]
                    > 0
                ):
                    wrong.append(f"seed {seed}, {true.kind}: {claim.radius:.17g} as {claim.kind}")
    return counts, wrong


def test_no_mutant_is_accepted_beyond_a_witness():
    counts, wrong = mutate_all(range(0, 60, 6))
    assert wrong == []
    assert len({kind for kind, *_ in counts}) > 2
    assert counts.total() >= 100


@pytest.mark.slow
def test_of_ten_thousand_mutants_none_is_accepted_beyond_a_witness():
    counts, wrong = mutate_all(range(60, 60 + SEEDS))
    print(f"\n{counts.total()} mutants, {len(wrong)} accepted:", dict(counts))
    assert wrong == []
    assert counts.total() >= 10_000
