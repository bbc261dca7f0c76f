"""A certificate: a small plain record that anyone can check."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController
from torch import Tensor

from featureprism.certificates.canonical import PowerForm, power_form
from featureprism.certificates.cheap_checker import crown_proves, lipschitz_radius, readout_radius
from featureprism.certificates.checker import proven_radius
from featureprism.certificates.search import Node
from featureprism.networks import BinaryReadout, TwoLayerNet

THREADS = ThreadpoolController()  # small matrices: numpy's threads would only fight torch's
ARRAYS = ("slope", "centre", "kappa", "nu_floor", "nu_ceiling")


@dataclass(frozen=True)
class Certificate:
    """No perturbation below `radius` flips the point: which bound, and its parameters.

    kind "cells": a tree of cuts {cut, value, below, above} whose leaves carry multipliers, about perturbations up to `reach`;
    "lipschitz", "crown" and "readout" need no parameters. `norm` is 2 or inf (CROWN only).
    """

    radius: float
    kind: str
    norm: float = 2
    reach: float = 0.0
    tree: dict[str, Any] = field(default_factory=dict)


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


def cells_certificate(node: Node, form: PowerForm, reach: float, x: Tensor, y: float) -> Certificate:
    """The certificate of a tree, claiming exactly what the checker grants it."""
    tree = tree_of(node)
    return Certificate(
        proven(Certificate(reach, "cells", 2, reach, tree), form, x, y), "cells", 2, reach, tree
    )


def readout_certificate(net: BinaryReadout, x: Tensor, y: float) -> Certificate:
    """The Lipschitz bound of a read-out, as the checker grants it."""
    W, labels = net.net.W.detach().double().numpy(), net.labels.double().numpy()
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"):
        radius = readout_radius(W, labels, x.detach().double().numpy(), float(y))
    return Certificate(float(radius) if np.isfinite(radius) else 0.0, "readout")


def check(certificate: Certificate, net: TwoLayerNet | BinaryReadout, x: Tensor, y: float) -> bool:
    """Whether the checker, from the definition of the network alone, grants the certificate its radius."""
    if isinstance(net, BinaryReadout):
        granted = readout_certificate(net, x, y).radius
        return certificate.kind == "readout" and granted >= certificate.radius
    form = power_form(net)
    if form is None:
        raise ValueError("Certificates exist for ReLU, pReLU and polynomial networks only.")
    return proven(certificate, form, x, y) >= certificate.radius


def proven(certificate: Certificate, form: PowerForm, x: Tensor, y: float) -> float:
    """The radius the checker grants, 0 where a computation fails."""
    network = (form.W.numpy(), form.b.numpy(), form.weight.numpy(), form.p)
    point = (x.detach().double().numpy(), float(y))
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"):
        if certificate.kind == "lipschitz":
            radius = lipschitz_radius(*network, *point)
        elif certificate.kind == "crown":
            dual = 2 if certificate.norm == 2 else 1
            radius = certificate.radius if crown_proves(certificate.radius, dual, *network, *point) else 0.0
        else:
            radius = proven_radius(certificate.tree, certificate.reach, *network, *point)
    return radius if np.isfinite(radius) else 0.0
