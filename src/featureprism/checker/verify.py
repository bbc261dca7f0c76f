"""The radius that proofs establish for every point, from the weights, the points and the proofs alone."""

from collections.abc import Callable, Sequence

import numpy as np

from featureprism.checker import certificate as one_layer
from featureprism.checker import deep, slopes
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.models import Model, Scores, as_layers, demanding
from featureprism.checker.proofs import Proof
from featureprism.checker.quadratic import QuadraticScores


def verified_radii(
    model: Model,
    x: np.ndarray,
    labels: np.ndarray,
    proofs: Sequence[Proof],
    norm: float,
    progress: Callable[[float], None] = lambda _share: None,
    margins: np.ndarray | None = None,
) -> np.ndarray:
    """(n,) No perturbation below it makes another class win: the least of what is verified against every other, 0 without a proof.

    A certificate of which less is verified than it claims counts with nothing. With margins (n,) the class wins by more than these.
    """
    against = np.zeros((len(x), model.num_classes))
    against[np.arange(len(x)), labels] = np.inf
    asked = np.zeros(len(x)) if margins is None else margins
    in_pairs = sorted(proofs, key=lambda p: (p.own, p.rival))  # what a pair of classes needs is computed once
    for done, proof in enumerate(in_pairs):
        i, own, rival, claim = proof.point, proof.own, proof.rival, proof.certificate
        speaks = 0 <= i < len(x) and own == labels[i] and 0 <= rival < model.num_classes and rival != own
        if speaks and claim.norm == norm and claim.radius > 0 and claim.radius > against[i, rival]:
            strict = demanding(model, own, float(asked[i]))
            if verified_radius(strict, x[i], proof) >= claim.radius:
                against[i, rival] = claim.radius
        progress((done + 1) / len(proofs))
    return against.min(axis=1)


def verified_radius(model: Model, x: np.ndarray, proof: Proof) -> float:
    """The radius that is verified for one proof; 0 where it is refused."""
    certificate = proof.certificate
    if isinstance(model, LinearScores | QuadraticScores):
        if certificate.kind != "closed form":
            return 0.0
        try:
            if isinstance(model, LinearScores):
                return model.radius(x, proof.own, proof.rival, certificate.norm)
            multiplier = certificate.tree.get("numbers")
            return model.radius(x, proof.own, proof.rival, certificate.norm, multiplier)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return 0.0
    if certificate.kind == "relaxation":
        layers = as_layers(model)
        return 0.0 if layers is None else slopes.verified(certificate, layers, x, proof.own, proof.rival)
    if certificate.norm == 1:
        return 0.0  # no other kind speaks of it
    if isinstance(model, Layers):
        return deep.verified(certificate, model, x, proof.own, proof.rival)
    network, sign = model.margin(proof.own, proof.rival)
    return one_layer.verified(certificate, network, x, sign)


def is_one_layer(model: Model) -> bool:
    """Whether proofs about it have votes."""
    return isinstance(model, Scores) or hasattr(model, "network")
