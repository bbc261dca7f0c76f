"""Proofs with one multiplier for each layer's ball of values (SDP-CROWN, Chiu et al. 2025), found by gradients."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from featureprism._threads import one_blas_thread
from featureprism.checker.certificate import Certificate
from featureprism.checker.deep import spectral_norm, verified
from featureprism.checker.enclosed import SLACK, with_room
from featureprism.checker.layers import Layers
from featureprism.models.model import Model
from featureprism.verify.pairs import Method, Pairs
from featureprism.verify.query import OVERSHOOT, Limits, Query

STEPS, RATE, RATE_OF_BALLS, DECAY = 80, 0.05, 0.1, 0.98  # of Adam
ENOUGH = 1e-3  # of the margin at the point: a bound that is left over so much is checked at once


class Balls(Method):
    """A linear function below each layer, on the ball that its values lie in; costs a few products with each layer's weights."""

    is_cheap = True

    def applies(self, model: Model, query: Query) -> bool:
        layers = model.layers
        return (
            layers is not None and layers.activation == "relu" and query.norm == 2 and query.eps is not None
        )

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        model = pairs.model.layers
        assert model is not None
        goal = OVERSHOOT * pairs.goal()
        with one_blas_thread(), with_room():
            norms = np.array([spectral_norm(W) for W in model.weights[:-1]])
        weights = [torch.from_numpy(W).float() for W in model.weights]
        for i in torch.unique(pairs.point[rows]).tolist():
            if not limits.allow():
                return
            of_point = rows[pairs.point[rows] == i]
            targets, label = pairs.target[of_point], int(pairs.label[i])
            numbers = ball_multipliers(model, weights, pairs.x[i], label, targets, float(goal[i]), norms)
            for j, target, block in zip(of_point.tolist(), targets.tolist(), numbers, strict=True):
                if block is None:
                    continue
                claim = Certificate(float(goal[i]), "balls", 2.0, tree={"numbers": block})
                with one_blas_thread(), with_room():
                    radius = verified(claim, model, pairs.x[i].numpy(), label, target)
                if radius > 0:
                    pairs.keep(j, replace(claim, radius=radius * (1 - SLACK)))


def ball_multipliers(
    model: Layers,
    weights: list[Tensor],
    x: Tensor,
    label: int,
    targets: Tensor,
    radius: float,
    norms: np.ndarray,
) -> list[np.ndarray | None]:
    """Norms, λ and g for each target, where the bound seems positive."""
    biases = [torch.from_numpy(b).float() for b in model.biases]
    values, h = [], x.double()
    for W, b in zip(model.weights[:-1], model.biases[:-1], strict=True):
        values.append((torch.from_numpy(W) @ h + torch.from_numpy(b)).float())
        h = values[-1].double().clamp_min(0)
    at = x.float()
    rho = torch.from_numpy(radius * np.cumprod(norms)).float()
    C, offset = weights[-1][label] - weights[-1][targets], biases[-1][label] - biases[-1][targets]
    margin = offset + C @ h.float()
    n, count = len(targets), len(values)
    later = torch.from_numpy(np.cumprod(np.append(norms[1:], 1.0)[::-1])[::-1].copy()).float()
    start = 0.3 * C.norm(dim=1)[:, None] * later / rho
    lam = torch.log(start.clamp_min(1e-20)).requires_grad_()
    slopes = [(z > 0).float().expand(n, -1).clone().requires_grad_() for z in values]
    adam = torch.optim.Adam(
        [{"params": slopes, "lr": RATE}, {"params": [lam], "lr": RATE_OF_BALLS}], foreach=False
    )
    best = torch.full((n,), -torch.inf)
    kept: list[np.ndarray | None] = [None] * n
    with torch.enable_grad():
        for _ in range(STEPS):
            c, total, every = C, offset, []
            for k in range(count - 1, -1, -1):
                z, g, L = values[k], slopes[k] * c, lam[:, k].exp()
                shifted = g + L[:, None] * z
                phi = torch.minimum(c - shifted, shifted).clamp_max(0)
                total = (
                    total + L / 2 * (z @ z - rho[k] ** 2) - (phi * phi).sum(dim=1) / (2 * L) + g @ biases[k]
                )
                every.append(g)
                c = g @ weights[k]
            value = total + c @ at - radius * c.norm(dim=1)
            better = (value.detach() > best) & (value.detach() > 0)
            best = torch.where(better, value.detach(), best)
            if bool(better.any()):
                now = torch.cat(
                    [
                        torch.from_numpy(norms).expand(n, -1),
                        lam.detach().double().exp(),
                        *(g.detach().double() for g in reversed(every)),
                    ],
                    dim=1,
                )
                for j in torch.nonzero(better)[:, 0].tolist():
                    kept[j] = now[j].numpy().copy()
            if bool((best > ENOUGH * margin).all()):
                break
            adam.zero_grad()
            (-value.sum()).backward()
            adam.step()
            for group in adam.param_groups:
                group["lr"] *= DECAY
    return kept
