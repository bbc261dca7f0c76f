"""An adversary with a fixed budget of labels, who knows the start, the points and the training."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.data import NoisySample
from featureprism.models.one_layer import stack
from featureprism.networks import TwoLayerNet
from featureprism.training import first_layer_descent


def worst_flips(
    net: TwoLayerNet,
    sample: NoisySample,
    influence: Float[Tensor, " n"],
    budget: int,
    *,
    step_size: float,
    steps: int,
) -> Bool[Tensor, " n"]:
    """The flips of at most `budget` labels that lose most clean points, among one plan for each cluster to begin with.

    Labels of one cluster decide on its side, the first step apart; so a plan takes half of a cluster, the labels that count most
    (`label_influence`) first, before it goes on to the next smallest. Each plan is tried, by training on it; the best is kept.
    """
    data = sample.data
    sizes = torch.bincount(data.cluster, minlength=4)
    plans = torch.stack(
        [_plan(data.cluster, influence, sizes, first, budget) for first in range(4)]
    )  # (4, n)
    labels = torch.where(plans, -sample.clean, sample.clean)
    nets = first_layer_descent(stack([net] * 4), data.x, labels, step_size=step_size, steps=steps).last
    with torch.no_grad():
        margin = sample.clean * nets(data.x)
        lost = ((margin <= 0) & ~plans).sum(dim=1)
        close = (margin * ~plans).sum(dim=1)  # between plans that lose as many
    return plans[torch.where(lost == lost.max(), -close, -torch.inf).argmax()]


def label_influence(
    net: TwoLayerNet, sample: NoisySample, *, step_size: float, steps: int
) -> Float[Tensor, " n"]:
    """y_i ∂M/∂y_i: what the label of a point adds to M, the mean margin of its own cluster after training on clean labels."""
    x, cluster, clean = sample.data.x, sample.data.cluster, sample.clean
    y = clean.clone().requires_grad_()
    W, a = net.W.detach(), net.a.detach()
    for _ in range(steps):
        z = x @ W.T
        slope = y * torch.sigmoid(-y * (torch.relu(z) @ a))  # (n,), -∂loss/∂f
        W = W + step_size / len(x) * a.unsqueeze(1) * (((z > 0).to(z.dtype) * slope.unsqueeze(1)).T @ x)
    margin = clean * (torch.relu(x @ W.T) @ a)
    gains = torch.zeros_like(clean)
    for c in range(4):
        own = cluster == c
        (gain,) = torch.autograd.grad(margin[own].mean(), y, retain_graph=c < 3)
        gains[own] = (gain * clean)[own]
    return gains


def _plan(cluster: Tensor, influence: Tensor, sizes: Tensor, first: int, budget: int) -> Tensor:
    """Half of the first cluster, then of the others from the smallest on, then what is left of them, up to the budget."""
    others = [c for c in sizes.argsort().tolist() if c != first]
    rank = torch.empty_like(influence)
    for place, c in enumerate([first, *others]):
        members = torch.nonzero(cluster == c)[:, 0]
        members = members[influence[members].argsort(descending=True)]
        half = (len(members) + 1) // 2
        turn = place + 4.0 * (
            torch.arange(len(members)) >= half
        )  # the second halves come after all the first
        rank[members] = turn.to(rank.dtype) + torch.arange(len(members)) / (2 * len(members))
    return torch.zeros(len(cluster), dtype=torch.bool).index_fill(0, rank.argsort()[:budget], True)
