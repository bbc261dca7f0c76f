"""Proven sides of deep networks with one output: the sign decides, so each point has one rival."""

import time
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from featureprism.attacks import AttackedRadius
from featureprism.certificates.deep import MOST_INPUTS, Asked, farthest_proofs, norm_certificates
from featureprism.checker.certificate import Certificate
from featureprism.checker.layers import Layers
from featureprism.records import Progress


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
    own = [int(label > 0) for label in y]
    proofs = norm_certificates(model, x.numpy(), own, [1 - o for o in own], norm)
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
