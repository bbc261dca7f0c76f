"""Proven sides of deep networks with one output: the sign decides, so each point has one rival."""

import time
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from featureprism.attacks import AttackedRadius
from featureprism.checker.certificate import Certificate
from featureprism.checker.deep import granted
from featureprism.checker.layers import Layers
from featureprism.records import Progress
from featureprism.verify.deep.prove import MOST_INPUTS, Asked, farthest_proofs


def proven_margins(
    model: Layers,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    attacked: AttackedRadius,
    request: tuple[float, float, tuple[float, float] | None],
    effort: tuple[float, int],
    progress: Progress,
) -> tuple[list[Certificate], list[int]]:
    """For every point the product of norms, or lines and quadratic proofs where they prove more; and the points an interrupt left.

    `model` has the scores 0 and f; `request`: the norm, the gap and the domain; `effort`: seconds a point, and the most cells.
    """
    norm, gap, domain = request
    proofs = [_norm_product(model, x[i], float(y[i]), norm) for i in range(len(x))]
    searchable = model.activation == "relu" and x.shape[1] <= MOST_INPUTS
    i = 0
    try:
        for i in range(len(x)):
            radius, known, own = float(attacked.radius[i]), proofs[i].radius, int(y[i] > 0)
            if radius > 0 and known < (1 - gap) * radius and searchable:
                asked = Asked(model, x[i].numpy(), own, 1 - own, norm, domain)
                limits = time.perf_counter() + effort[0], effort[1]
                better = farthest_proofs(asked, radius, gap, limits, known).get(1 - own)
                proofs[i] = better if better is not None and better.radius > known else proofs[i]
            proofs[i] = replace(proofs[i], radius=min(proofs[i].radius, radius))
            progress((i + 1) / len(x))
    except KeyboardInterrupt:
        return proofs, list(range(i, len(x)))
    return proofs, []


def _norm_product(model: Layers, x: Tensor, y: float, norm: float) -> Certificate:
    claim, own = Certificate(1.0, "norm product", norm), int(y > 0)
    return replace(claim, radius=granted(claim, model, x.numpy(), own, 1 - own))


def check_margin(certificate: Certificate, model: Layers, x: Tensor, y: float) -> bool:
    """Whether the checker grants the certificate its radius."""
    own = int(y > 0)
    return granted(certificate, model, x.detach().double().numpy(), own, 1 - own) >= certificate.radius > 0
