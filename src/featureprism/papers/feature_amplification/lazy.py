"""The lazy twin of a network: the same start, data and steps, but features that do not move."""

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.networks import TwoLayerNet


def lazy_outputs(
    net: TwoLayerNet, train: Dataset, x: Float[Tensor, "t d"], *, step_size: float, steps: int
) -> Float[Tensor, " t"]:
    """Outputs at x of f(x; W⁰) + ⟨∇f(x; W⁰), W - W⁰⟩ after descent on W: active neurons stay those of the start.

    In function space: f ← f + (α/n) K (y/(1+e^{yf})), K(x, x') = ⟨x, x'⟩ Σ_j a_j² 1{⟨w_j⁰, x⟩ > 0} 1{⟨w_j⁰, x'⟩ > 0}.
    """
    W, a = net.W.detach(), net.a.detach()

    def active(points: Tensor) -> Tensor:
        return (points @ W.T > 0).to(x.dtype) * a.abs()

    def kernel(points: Tensor) -> Tensor:
        return (points @ train.x.T) * (active(points) @ active(train.x).T)

    within, across = kernel(train.x), kernel(x)
    f, outputs = net(train.x).detach(), net(x).detach()
    for _ in range(steps):
        slopes = step_size / len(train.y) * train.y * torch.sigmoid(-train.y * f)
        f, outputs = f + within @ slopes, outputs + across @ slopes
    return outputs
