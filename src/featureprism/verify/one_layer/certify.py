"""From a search to certificates, each claiming what the checker verifies, with room for rounding."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism._threads import one_blas_thread
from featureprism.checker.cells import Cell, cells_of
from featureprism.checker.certificate import EVERYWHERE, Certificate, verified
from featureprism.checker.ellipsoids import cells_in_ball, cells_in_box, middle_of
from featureprism.checker.enclosed import SLACK, TINY, with_room
from featureprism.checker.lines import Room, cells_of_lines
from featureprism.checker.power_bounds import chord, end_curvature
from featureprism.checker.scaled import Problem, posed, votes_below
from featureprism.geometry import Sides
from featureprism.models.one_layer import PowerForm
from featureprism.verify.one_layer.branch_and_bound import Node
from featureprism.verify.one_layer.linear_cells import BoxProblem


def tree_of(node: Node, form: PowerForm, problem: Problem) -> dict[str, Any]:
    """The plain form of a search tree, in the units of the scaled problem, without what its leaves store of their cells.

    One unit of t_j there is unit_j here. A φ(t) = (A unit^p) φ(t/unit) and ½‖δ‖² = length² ½‖δ/length‖² say what
    becomes of the multipliers. A quadratic through both ends has centre 0. Rounding is harmless: all parameters are free.
    """
    length = 2.0**problem.length
    row_lengths = np.sqrt(problem.network.squares.mid)
    unit = length / row_lengths if problem.network.normalised else np.ldexp(length, problem.network.row)
    kept = form.kept
    place = {int(j): i for i, j in enumerate(kept)}
    largest = np.abs(problem.vote).argmax()
    height = abs(float(form.weight[kept[largest]])) * unit[largest] ** form.p / abs(problem.vote[largest])
    factors = {
        "slope": unit ** (1 - form.p),
        "centre": 1 / unit,
        "kappa": unit ** (2 - form.p),
        "nu_floor": unit / length**2,
        "nu_ceiling": unit / length**2,
    }
    tree: dict[str, Any] = {}
    waiting = [(node, tree)]
    while waiting:
        part, plain = waiting.pop()
        if part.below is not None and part.above is not None:
            neuron = place[part.neuron]
            plain |= {
                "cut": neuron,
                "value": part.value / float(unit[neuron]),
                "below": {},
                "above": {},
            }
            waiting += [(part.below, plain["below"]), (part.above, plain["above"])]
        else:
            plain["tau"] = float(part.proof.tau * height / length**2)
            for name in factors:
                values = getattr(part.proof, name)[0].numpy()[kept]
                plain[name] = np.where(np.isnan(values), 0.0, values) * factors[name]
            line, p = plain.pop("slope"), form.p  # below φ: of this slope, or at the point where φ has it
            plain["line"] = np.clip(line, 0, 1) if p == 1 else (np.maximum(line, 0) / p) ** (1 / (p - 1))
            plain["low"] = plain["high"] = np.zeros(len(kept))
    return tree


def store_cells(cells: Iterable[tuple[dict[str, Any], Cell]], problem: Problem) -> None:
    """Put into every leaf the bounds of its cell, with room for rounding, and what depends on them: chords and how far they bend."""
    p, for_label = problem.network.p, problem.own
    for leaf, cell in cells:
        slack = SLACK * (cell.high - cell.low) + TINY
        low, high = np.maximum(cell.low - slack, cell.floor), np.minimum(cell.high + slack, cell.ceiling)
        leaf["low"], leaf["high"] = low, high
        leaf["line"] = np.where(for_label, leaf["line"], chord(low, high, p))
        if "kappa" in leaf:
            leaf["kappa"] = np.minimum(leaf["kappa"], (1 - SLACK) * end_curvature(low, high, p))


def cells_certificate(
    node: Node,
    form: PowerForm,
    reach: float,
    x: Tensor,
    y: float,
    claim: Certificate | None = None,
    weights: np.ndarray | None = None,
) -> Certificate:
    """The certificate of a tree, claiming what the checker verifies, with room; `claim` says of which kind, default ℓ2 cells.

    `weights` (d,): of an ellipsoid.
    """
    claim = replace(claim or Certificate(0.0, "cells"), radius=0.0, reach=reach)
    return _completed(claim, form, x, y, lambda problem: tree_of(node, form, problem), weights)


def crown_certificate(form: PowerForm, x: Tensor, y: float, reach: float, norm: float) -> Certificate:
    """CROWN up to a radius, claiming what is verified: below ReLU the better of 0 and t, below powers the tangent at the centre."""

    def leaf(problem: Problem) -> dict[str, Any]:
        c, zero = problem.c.mid, np.zeros(len(problem.vote))
        line = np.where(c > 0, 1.0, 0.0) if form.p == 1 else np.maximum(c, 0.0)
        return {"tau": 1.0, "line": line} | dict.fromkeys(("low", "high", "nu_floor", "nu_ceiling"), zero)

    return _completed(Certificate(0.0, "crown", norm, reach), form, x, y, leaf)


def lipschitz_certificate(form: PowerForm, x: Tensor, y: float, bound: float) -> Certificate:
    """The Lipschitz bound of a ReLU network in ℓ2, claiming what the checker verifies; `bound` is about that."""
    claim = Certificate(bound, "lipschitz")
    with one_blas_thread(), with_room(), np.errstate(all="ignore"):
        votes, scale = votes_below(form.network, y)
        claim = replace(claim, tree={"votes": votes, "scale": scale})
        radius = verified(claim, form.network, x.detach().double().numpy(), y)
    return replace(claim, radius=min(radius, bound) * (1 - SLACK))


def renewed(old: Certificate, form: PowerForm, x: Tensor, y: float) -> Certificate:
    """The tree of a certificate on other weights: cuts and multipliers stay, votes and bounds are new; nothing is searched.

    It claims what the checker verifies, which is nothing where the weights have changed too much.
    """
    tree = {
        name: value for name, value in deepcopy(old.tree).items() if name not in ("votes", "scale", "numbers")
    }
    numbers = old.tree.get("numbers")
    weights = None if old.kind != "ellipsoid" or numbers is None else numbers[: len(numbers) // 2].copy()
    return _completed(replace(old, radius=0.0, tree={}), form, x, y, lambda _: tree, weights)


def _completed(
    claim: Certificate,
    form: PowerForm,
    x: Tensor,
    y: float,
    tree_in: Callable[[Problem], dict[str, Any]],
    weights: np.ndarray | None = None,
) -> Certificate:
    """A certificate with votes and bounds of its cells, claiming what the checker verifies, with room for rounding."""
    point, nothing = x.detach().double().numpy(), claim
    with one_blas_thread(), with_room(), np.errstate(all="ignore"):
        try:
            votes, scale = votes_below(form.network, y)
            problem = posed(form.network, point, y, claim.reach, votes, scale)
            tree = tree_in(problem)
            in_ball = claim.norm == 2 and claim.kind != "ellipsoid"
            box = None if in_ball else Room.around(point, claim.reach, claim.domain, problem.length)
            if weights is not None:
                assert box is not None
                middle = middle_of(weights, box, problem.radius, claim.norm)
                tree["numbers"] = np.concatenate([weights, middle])
                cells = cells_in_ball if claim.norm == 2 else cells_in_box
                every = cells(tree, problem, box, weights, middle)[0]
            else:
                every = (
                    cells_of(tree, problem) if claim.kind == "cells" else cells_of_lines(tree, problem, box)
                )
            store_cells(every, problem)
        except (ValueError, ArithmeticError):  # numbers that no scale brings together
            return nothing
        claim = replace(claim, tree=tree | {"votes": votes, "scale": scale})
        return replace(claim, radius=verified(claim, form.network, point, y) * (1 - SLACK))


def lines_claim(domain: Sides | None) -> Certificate:
    """What trees of lines are to prove: an ℓ∞ radius, in a box or without."""
    return Certificate(0.0, "lines", np.inf, domain=domain or EVERYWHERE)


def box_problem(form: PowerForm, x: Tensor, votes: Tensor, reach: Tensor, domain: Sides | None) -> BoxProblem:
    """Points before their networks, as ℓ∞ trees see them."""
    faces = {}
    if domain is not None:
        lower, upper = (torch.as_tensor(side, dtype=torch.float64) for side in domain)
        faces = {"down": (x - lower).clamp_max(1e100), "up": (upper - x).clamp_max(1e100)}
    return BoxProblem(form.W, x @ form.W.T + form.b, votes.abs(), votes > 0, reach, form.p, **faces)
