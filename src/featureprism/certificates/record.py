"""A certificate: a small plain record that anyone can check."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.certificates.canonical import PowerForm, power_form
from featureprism.certificates.checker import proven_radius
from featureprism.certificates.search import Node
from featureprism.networks import TwoLayerNet

ARRAYS = ("slope", "centre", "kappa", "nu_floor", "nu_ceiling")


@dataclass(frozen=True)
class Certificate:
    """No perturbation below `radius` flips the point: a tree of cuts {cut, value, below, above} whose leaves carry the multipliers.

    `reach` bounds the perturbations the cells speak of; radius ≤ reach.
    """

    radius: float
    reach: float
    tree: dict[str, Any]


def tree_of(node: Node) -> dict[str, Any]:
    """The plain form of a search tree."""
    if node.below is not None and node.above is not None:
        return {
            "cut": node.neuron,
            "value": node.value,
            "below": tree_of(node.below),
            "above": tree_of(node.above),
        }
    arrays = {name: getattr(node.proof, name)[0].numpy().copy() for name in ARRAYS}
    return {"tau": float(node.proof.tau), **arrays}


def certificate_of(node: Node, form: PowerForm, reach: float, x: Tensor, y: float) -> Certificate:
    """The certificate of a tree, claiming exactly what the checker grants it."""
    tree = tree_of(node)
    return Certificate(_proven(tree, reach, form, x, y), reach, tree)


def check(certificate: Certificate, net: TwoLayerNet, x: Tensor, y: float) -> bool:
    """Whether the checker, from the definition of the network alone, grants the certificate its radius."""
    form = power_form(net)
    if form is None:
        raise ValueError("Certificates of cells exist for ReLU, pReLU and polynomial networks only.")
    return _proven(certificate.tree, certificate.reach, form, x, y) >= certificate.radius


def _proven(tree: dict[str, Any], reach: float, form: PowerForm, x: Tensor, y: float) -> float:
    arrays = (form.W, form.b, form.weight)
    with np.errstate(all="ignore"), torch.no_grad():
        radius = proven_radius(
            tree, reach, *(v.numpy() for v in arrays), form.p, x.double().numpy(), float(y)
        )
    return radius if np.isfinite(radius) else 0.0
