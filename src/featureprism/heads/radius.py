"""The robust radius of a head: the least over all rivals of the radius of one margin."""

from dataclasses import replace
from math import inf
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.certificates import margin_radius
from featureprism.certificates.canonical import power_form
from featureprism.certificates.record import proven
from featureprism.certificates.rungs import crown_radius
from featureprism.checker.certificate import Certificate
from featureprism.heads.network import HeadNet
from featureprism.records import Progress, RadiusBracket, silent
from featureprism.threads import one_thread

# cells of each proof, unless told otherwise: more prove more. A limit in cells repeats exactly, one in seconds does not
MAX_CELLS = 1
ROUNDING = 1e-9  # relative, taken off a cheap bound before the checker sees it


@one_thread()
def head_radius(
    net: HeadNet,
    x: Float[Tensor, "n d"],
    y: Int[Tensor, " n"],
    *,
    progress: Progress = silent,
    **effort: Any,
) -> RadiusBracket:
    """min over rivals c of the bracket of f_y - f_c; points that another class already wins or ties have radius 0.

    Rivals are tried in the order of their cheap lower bounds (CROWN, as the checker grants them) and skipped once that bound
    exceeds the best attack: they can change neither side.
    """
    effort = {"seconds_per_point": inf, "max_cells": MAX_CELLS, **effort}
    if net.num_classes == 2:
        return margin_radius(net.margin(1, 0), x, 2.0 * y.double() - 1, progress=progress, **effort)
    lower = torch.stack([_lower_bounds(net, x, y, c) for c in range(net.num_classes)], dim=1)
    order = lower.argsort(dim=1)
    certified, attacked = torch.full((len(x),), inf).double(), torch.full((len(x),), inf).double()
    witness, seconds = torch.zeros_like(x), 0.0
    method = [""] * len(x)
    for rank in range(net.num_classes - 1):
        rival = order[:, rank]
        near = lower.gather(1, rival.unsqueeze(1)).squeeze(1) < attacked
        for own, other in torch.stack([y, rival], dim=1)[near].unique(dim=0).tolist():
            rows = torch.nonzero(near & (y == own) & (rival == other))[:, 0]
            found = margin_radius(net.margin(own, other), x[rows], torch.ones(len(rows)).double(), **effort)
            seconds += found.seconds * len(rows)
            shorter = found.attacked < attacked[rows]
            assert found.witness is not None
            witness[rows[shorter]] = found.witness[shorter]
            for i, name in zip(rows[shorter].tolist(), torch.nonzero(shorter)[:, 0].tolist(), strict=True):
                method[i] = found.method[name]
            attacked[rows] = torch.minimum(attacked[rows], found.attacked)
            certified[rows] = torch.minimum(certified[rows], found.certified)
        progress((rank + 1) / (net.num_classes - 1))
    bracket = RadiusBracket(torch.minimum(certified, attacked), attacked, tuple(method), witness)
    return replace(bracket, seconds=seconds / max(1, len(x)))


def _lower_bounds(
    net: HeadNet, x: Float[Tensor, "n d"], y: Int[Tensor, " n"], rival: int
) -> Float[Tensor, " n"]:
    """CROWN's radius of f_y - f_rival, granted by the checker; inf where y is the rival."""
    bound = torch.full((len(x),), inf, dtype=torch.float64)
    reach = 4 * torch.linalg.vector_norm(x, dim=1).clamp_min(1e-3)
    for own in y.unique().tolist():
        if own == rival:
            continue
        rows = torch.nonzero(y == own)[:, 0]
        form = power_form(net.margin(own, rival))
        assert form is not None
        t, votes = x[rows] @ form.W.T + form.b, form.weight.expand(len(rows), -1)
        claims = crown_radius(form, t, votes, 2, reach[rows]) * (1 - ROUNDING)
        granted = [
            proven(Certificate(float(r), "crown"), form, x[i], 1.0) if r > 0 else 0.0
            for i, r in zip(rows.tolist(), claims, strict=True)
        ]
        bound[rows] = torch.tensor(granted, dtype=torch.float64)
    return bound
