"""From a search to certificates, each claiming what the checker grants it."""

from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController
from torch import Tensor

from featureprism.checker.cells import PARAMETERS
from featureprism.checker.certificate import EVERYWHERE, Certificate, granted
from featureprism.checker.cheap import readout_radius
from featureprism.checker.readouts import proven_readout
from featureprism.checker.scaled import Problem, posed
from featureprism.networks import BinaryReadout, TwoLayerNet
from featureprism.verify.one_layer.branch_and_bound import Node
from featureprism.verify.one_layer.form import PowerForm, power_form
from featureprism.verify.one_layer.linear_cells import BoxProblem

THREADS = ThreadpoolController()  # small matrices: numpy's threads would only fight torch's


def tree_of(node: Node, form: PowerForm, problem: Problem) -> dict[str, Any]:
    """The plain form of a search tree, in the units of the scaled problem.

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
            for name in PARAMETERS:
                values = getattr(part.proof, name)[0].numpy()[kept]
                plain[name] = np.where(np.isnan(values), 0.0, values) * factors[name]
    return tree


def cells_certificate(
    node: Node,
    form: PowerForm,
    reach: float,
    x: Tensor,
    y: float,
    claim: Certificate | None = None,
    more: dict[str, Any] | None = None,
) -> Certificate:
    """The certificate of a tree, claiming exactly what the checker grants it; `claim` says of which kind, default ℓ2 cells.

    `more`: what that kind keeps beside the tree.
    """
    claim = replace(claim or Certificate(0.0, "cells"), radius=0.0, reach=reach)
    try:
        with np.errstate(all="ignore"):
            tree = tree_of(node, form, posed(form.network, x.detach().double().numpy(), y, reach))
    except (ValueError, ArithmeticError):  # numbers that no scale brings together
        return claim
    claim = replace(claim, radius=reach, tree=tree | (more or {}))
    return replace(claim, radius=proven(claim, form, x, y))


def lines_claim(domain: tuple[float, float] | None) -> Certificate:
    """What trees of lines are to prove: an ℓ∞ radius, in a box or without."""
    return Certificate(0.0, "lines", np.inf, domain=domain or EVERYWHERE)


def box_problem(
    form: PowerForm, x: Tensor, votes: Tensor, reach: Tensor, domain: tuple[float, float] | None
) -> BoxProblem:
    """Points before their networks, as ℓ∞ trees see them."""
    room = {} if domain is None else {"down": x - domain[0], "up": domain[1] - x}
    return BoxProblem(form.W, x @ form.W.T + form.b, votes.abs(), votes > 0, reach, form.p, **room)


def readout_certificate(net: BinaryReadout, x: Tensor, y: float) -> Certificate:
    """The Lipschitz bound of a read-out, as the checker grants it."""
    W, labels = net.net.W.detach().double().numpy(), net.labels.double().numpy()
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"):
        try:
            radius = readout_radius(W, labels, x.detach().double().numpy(), float(y), net.kind)
        except ValueError:
            radius = 0.0
    return Certificate(float(radius) if np.isfinite(radius) else 0.0, "readout")


def boxes_certificate(
    trees: list[dict[str, Any]], net: BinaryReadout, reach: float, x: Tensor, y: float
) -> Certificate:
    """The certificate of boxes of class scores, claiming exactly what the checker grants it."""
    claim = Certificate(reach, "boxes", 2, reach, {"trees": trees})
    return replace(claim, radius=_granted_readout(claim, net, x, y))


def _granted_readout(certificate: Certificate, net: BinaryReadout, x: Tensor, y: float) -> float:
    """The radius that boxes prove: 0 for malformed ones, and where a computation fails."""
    W, labels = net.net.W.detach().double().numpy(), net.labels.double().numpy()
    point, trees = x.detach().double().numpy(), certificate.tree.get("trees")
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"):
        try:
            return proven_readout(W, labels, point, float(y), net.kind, certificate.reach, trees)
        except (ValueError, ArithmeticError):
            return 0.0


def check(certificate: Certificate, net: TwoLayerNet | BinaryReadout, x: Tensor, y: float) -> bool:
    """Whether the checker, from the weights of the network alone, grants the certificate its radius; a malformed one is refused."""
    if isinstance(net, BinaryReadout):
        if certificate.norm != 2 or certificate.kind not in ("readout", "boxes"):
            return False
        if certificate.kind == "boxes":
            return _granted_readout(certificate, net, x, y) >= certificate.radius
        return readout_certificate(net, x, y).radius >= certificate.radius
    form = power_form(net)
    if form is None:
        raise ValueError("Certificates exist for ReLU, pReLU and polynomial networks only.")
    return proven(certificate, form, x, y) >= certificate.radius


def proven(certificate: Certificate, form: PowerForm, x: Tensor, y: float) -> float:
    """The radius the checker grants: 0 for malformed certificates, and where a computation fails."""
    with THREADS.limit(limits=1, user_api="blas"):
        return granted(certificate, form.network, x.detach().double().numpy(), float(y))
