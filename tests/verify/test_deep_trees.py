"""Cuts at hidden neurons: against brute force, against the same search without cuts, against mutants; limits, interrupts and files."""

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from asking import asked as bracketed
from small_models import DOMAIN, several_layers, travelled
from torch import Tensor

import featureprism as fp
from featureprism.checker.certificate import Certificate
from featureprism.checker.deep import verified
from featureprism.checker.proofs import Proof, proof_arrays
from featureprism.models.model import as_model
from featureprism.models.scores import LayeredScores
from featureprism.networks import Tanh
from featureprism.verify.deep import branch_and_bound as deep_trees
from featureprism.verify.deep import branch_and_bound as quadratic_leaves
from featureprism.verify.deep.methods import PointQuery, farthest_proofs, proofs_at
from featureprism.verify.deep.semidefinite import Solved
from featureprism.verify.query import Limits

GAP, CELLS = 0.01, 400
GRID = torch.linspace(-1, 1, 101, dtype=torch.float64)
SIDES = torch.cartesian_prod(GRID, GRID)
ROUNDS = 12  # in which the nearest flip of a grid is drawn nearer


def leaves_of(tree: dict) -> list[dict]:
    return (
        [leaf for side in ("below", "above") for leaf in leaves_of(tree[side])] if "cut" in tree else [tree]
    )


def asked_of(seed: int) -> tuple[PointQuery, Tensor, Tensor] | None:
    """Two or three hidden layers in two dimensions, a point, and the nearest flip that grids around it find; both norms, boxes."""
    rng = np.random.default_rng((seed, 77))
    net = several_layers(rng, 2)
    x = torch.from_numpy(rng.uniform(*DOMAIN, size=2))
    if isinstance(getattr(net, "activation", None), Tanh):
        return None
    norm, domain = (2.0, math.inf)[seed % 2], DOMAIN if seed // 2 % 2 else None

    def classes(points: Tensor) -> Tensor:
        with torch.no_grad():
            out = net(points)
        return (out > 0).long() if out.ndim == 1 else out.argmax(dim=1)

    own, around, reach = int(classes(x[None])), x.clone(), 3.0
    nearest, flip = math.inf, x
    for _ in range(ROUNDS):
        points = around + reach * SIDES
        points = points if domain is None else points.clamp(*domain)
        other = points[classes(points) != own]
        length = torch.linalg.vector_norm(other - x, ord=norm, dim=1)
        if len(other) and float(length.min()) < nearest:
            nearest, flip = float(length.min()), other[int(length.argmin())]
        around, reach = flip, reach / 4
    model = as_model(net).layers
    assert model is not None
    rival = int(classes(flip[None]))
    if not 0.05 < nearest < 3 or rival == own:
        return None
    return PointQuery(model, x.numpy(), own, rival, norm, domain), torch.tensor(nearest), flip


QUESTIONS = {seed: found for seed in range(48) if (found := asked_of(seed)) is not None}


@pytest.fixture(scope="module")
def trees() -> dict[int, tuple[Certificate, int]]:
    """By seed: a certificate with cuts at the radius that closes the bracket, and its rival."""
    found = {}
    for seed, (asked, nearest, _) in QUESTIONS.items():
        radius = (1 - GAP) * float(nearest)
        proofs = proofs_at(asked, radius, Limits(CELLS)) or {}
        with_cuts = {r: c for r, c in proofs.items() if "cut" in c.tree}
        if with_cuts and not proofs_at(asked, radius, Limits(0)):  # it is open without them
            rival, certificate = next(iter(with_cuts.items()))
            found[seed] = certificate, rival
    return found


def test_cuts_close_brackets_that_are_open_without_them(trees):
    assert len(trees) > 3
    closed = open_before = 0
    for asked, nearest, _ in QUESTIONS.values():
        truth = float(nearest)
        plain = not proofs_at(asked, (1 - GAP) * truth, Limits(0))
        radius = min(
            (c.radius for c in farthest_proofs(asked, truth, GAP, Limits(CELLS)).values()), default=0.0
        )
        assert radius <= truth
        open_before += plain
        closed += plain and radius >= (1 - GAP) * truth
    assert open_before > 5
    assert closed >= 0.7 * open_before


def test_no_tree_is_granted_beyond_a_flip():
    """Asked for more than there is, the search finds less than there is, and what it finds passes the checker."""
    for asked, nearest, _ in QUESTIONS.values():
        proofs = farthest_proofs(asked, 1.05 * float(nearest), GAP, Limits(40))
        if proofs:
            assert min(c.radius for c in proofs.values()) <= float(nearest)
        for rival, one in proofs.items():
            assert verified(one, asked.model, asked.x, asked.label, rival) >= one.radius


def test_mutated_trees_are_refused(trees):
    for seed, (certificate, rival) in trees.items():
        asked, nearest, _ = QUESTIONS[seed]

        def grant(tree: dict, radius: float, asked=asked, certificate=certificate, rival=rival) -> float:
            return verified(
                replace(certificate, tree=tree, reach=radius), asked.model, asked.x, asked.label, rival
            )

        tree, beyond = certificate.tree, 1.001 * float(nearest)
        swapped = {**tree, "below": tree["above"], "above": tree["below"]}
        bounds = {"block": leaves_of(tree)[0]["block"][: 2 * sum(asked.model.widths)]}
        lines = {**tree, "below": bounds, "above": bounds}
        again = {**tree, "below": tree, "above": tree}  # a neuron that was cut already
        for mutant in (tree, swapped, lines, tree["below"], tree["above"]):
            if rival == asked.first:
                assert grant(mutant, beyond) == 0
        assert grant(tree, certificate.reach) == certificate.reach
        for mutant in (
            again,
            {**tree, "value": 0.5},
            {**tree, "cut": sum(asked.model.widths)},
            {**tree, "cut": float(tree["cut"])},
            {k: v for k, v in tree.items() if k != "above"},
        ):
            assert grant(mutant, certificate.reach) == 0


def test_a_leaf_without_multipliers_is_lines_alone_and_an_empty_side_needs_none():
    told = set()
    for asked, nearest, _ in QUESTIONS.values():
        for share in (0.05, 0.3, 0.99):
            radius, rival = share * float(nearest), asked.first
            domain = asked.domain or (-math.inf, math.inf)
            around = asked.around(radius)
            leaf = {"block": around.bounds}
            claim = Certificate(radius, "deep", asked.norm, radius, leaf, domain)
            by_lines = bool(around.crown(asked.label)[rival] > 0)
            told.add(by_lines)
            assert (verified(claim, asked.model, asked.x, asked.label, rival) == radius) == by_lines
            known = around.known[0]
            for j in np.flatnonzero(known.low > 0)[:1].tolist():  # always on: nobody is below
                proofs = proofs_at(asked, radius, Limits(0)) or {}
                leaf = proofs[rival].tree if rival in proofs else {}
                if "block" in leaf:
                    sides = {"below": {"block": around.bounds}, "above": leaf}
                    cut = replace(proofs[rival], tree={"cut": j, "value": 0.0, **sides})
                    assert verified(cut, asked.model, asked.x, asked.label, rival) == radius
    assert told == {True, False}


def test_a_limit_in_cells_repeats_exactly_and_is_kept():
    for seed in list(QUESTIONS)[:6]:
        asked, nearest, _ = QUESTIONS[seed]
        for cells in (0, 9, 60):
            one, two = (farthest_proofs(asked, float(nearest), GAP, Limits(cells)) for _ in range(2))
            made = proof_arrays(Proof(0, asked.label, r, c) for r, c in one.items())
            again = proof_arrays(Proof(0, asked.label, r, c) for r, c in two.items())
            assert all(np.array_equal(made[name], again[name]) for name in made)
            assert sum(len(leaves_of(c.tree)) - 1 for c in one.values()) <= cells


def test_no_cut_is_made_after_the_deadline(trees):
    for seed, (certificate, _) in trees.items():
        asked = QUESTIONS[seed][0]
        assert not proofs_at(asked, certificate.radius, Limits(CELLS, 0.0))


def test_trees_travel_with_empty_leaves(trees):
    for seed, (certificate, rival) in trees.items():
        asked = QUESTIONS[seed][0]
        (again,) = travelled([Proof(0, asked.label, rival, certificate)], asked.norm, certificate.domain)
        assert verified(again.certificate, asked.model, asked.x, asked.label, rival) >= certificate.radius
    sizes = {
        len(leaf["block"]) > 2 * sum(QUESTIONS[seed][0].model.widths)
        for seed, (certificate, _) in trees.items()
        for leaf in leaves_of(certificate.tree)
    }
    assert sizes == {True, False}


def test_nan_proves_nothing(trees):
    def broken(relaxed, _scale, _moments):
        nan = np.full(len(relaxed.kind), np.nan)
        return Solved(math.nan, nan, math.nan, math.nan, np.full_like(relaxed.ball.mid, np.nan))

    with patch.object(quadratic_leaves, "solve", broken):
        for seed, (certificate, _) in trees.items():
            assert not proofs_at(QUESTIONS[seed][0], certificate.radius, Limits(CELLS))


def test_an_interrupt_inside_a_tree_leaves_what_was_proven_before(trees):
    seed = next(s for s in trees if QUESTIONS[s][0].model.num_classes > 1)
    asked, _, _ = QUESTIONS[seed]
    weights, biases = (
        [torch.from_numpy(t) for t in part] for part in (asked.model.weights, asked.model.biases)
    )
    net = LayeredScores(weights, biases, fp.networks.ReLU())
    x, y = torch.from_numpy(asked.x)[None], torch.tensor([asked.label])
    effort = {"norm": asked.norm, "bounds": asked.domain, "branches": CELLS}
    with patch.object(deep_trees, "_branches_needed", side_effect=KeyboardInterrupt):
        bracket = bracketed(net, x, y, **effort)
    assert bracket.method == ("interrupted",)
    assert 0 < float(bracket.certified[0]) < float(bracket.attacked[0])  # by the linear relaxation
