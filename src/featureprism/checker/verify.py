"""The radius that proofs establish for every point, from the weights, the points and the proofs alone."""

from collections.abc import Callable, Sequence

import numpy as np

from featureprism.checker import deep
from featureprism.checker.certificate import granted
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.models import Model
from featureprism.checker.proofs import Proof
from featureprism.checker.quadratic import QuadraticScores


def verified_radii(
    model: Model,
    x: np.ndarray,
    labels: np.ndarray,
    proofs: Sequence[Proof],
    norm: float,
    progress: Callable[[float], None] = lambda _share: None,
) -> np.ndarray:
    """(n,) No perturbation below it makes another class win: the least of what is granted against every rival, 0 without a proof.

    A certificate that is granted less than it claims counts with nothing.
    """
    against = np.zeros((len(x), model.num_classes))
    against[np.arange(len(x)), labels] = np.inf
    in_pairs = sorted(
        proofs, key=lambda proof: (proof.own, proof.rival)
    )  # what a pair of classes needs is computed once
    for done, proof in enumerate(in_pairs):
        i, own, rival, claim = proof.point, proof.own, proof.rival, proof.certificate
        speaks = 0 <= i < len(x) and own == labels[i] and 0 <= rival < model.num_classes and rival != own
        if speaks and claim.norm == norm and claim.radius > 0 and _grant(model, x[i], proof) >= claim.radius:
            against[i, rival] = max(against[i, rival], claim.radius)
        progress((done + 1) / len(proofs))
    return against.min(axis=1)


def _grant(model: Model, x: np.ndarray, proof: Proof) -> float:
    """What the checker grants a proof; 0 where it refuses."""
    if isinstance(model, LinearScores | QuadraticScores):
        try:
            return model.radius(x, proof.own, proof.rival, proof.certificate.norm)
        except ValueError:
            return 0.0
    if isinstance(model, Layers):
        return deep.granted(proof.certificate, model, x, proof.own, proof.rival)
    network, sign = model.margin(proof.own, proof.rival)
    return granted(proof.certificate, network, x, sign)
