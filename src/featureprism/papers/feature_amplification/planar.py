"""Descent in the plane: the points that activate a neuron are half a turn, so sums over points become differences of running sums."""

from collections.abc import Sequence
from math import pi

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.networks import TwoLayerNet
from featureprism.training.trajectory import Ended, Trajectory


def planar_descent(
    net: TwoLayerNet,
    x: Float[Tensor, "n 2"],
    y: Float[Tensor, " n"],
    *,
    step_size: float,
    steps: int,
    record: Sequence[int] = (),
) -> Trajectory[TwoLayerNet]:
    """What `first_layer_descent` does with a ReLU network of two inputs, in (n + m) log(nm) operations a step in place of nm."""
    order = angles(x).argsort()
    x, y = x[order], y[order]
    around, W, a = angles(x), net.W.detach(), net.a.detach()
    wanted, times, nets = {*record, steps}, [], []
    for step in range(steps + 1):
        if step in wanted:
            times.append(step)
            nets.append(TwoLayerNet(W, net.a, activation=net.activation))
        if step < steps:
            facing = angles(W)
            ranks = facing.argsort()
            voting = half_turn_sums(facing[ranks], (a.unsqueeze(1) * W)[ranks], around)  # (n, 2)
            slopes = y * torch.sigmoid(-y * (voting * x).sum(dim=1)) / len(y)
            pulls = half_turn_sums(around, slopes.unsqueeze(1) * x, facing)  # (m, 2)
            W = W + step_size * a.unsqueeze(1) * pulls
    ended = Ended.TIME_REACHED if bool(torch.isfinite(W).all()) else Ended.DIVERGED
    return Trajectory(times, nets, ended, work=steps)


def angles(x: Float[Tensor, "n 2"]) -> Float[Tensor, " n"]:
    """From -π to π."""
    return torch.atan2(x[:, 1], x[:, 0])


def half_turn_sums(
    sorted_angles: Float[Tensor, " n"], values: Float[Tensor, "n k"], at: Float[Tensor, " m"]
) -> Float[Tensor, "m k"]:
    """The sum of the values less than a quarter turn from each angle asked for."""
    running = torch.cat([torch.zeros_like(values[:1]), values.cumsum(dim=0)])

    def up_to(angle: Tensor) -> Tensor:
        turns = torch.floor((angle + pi) / (2 * pi))
        place = torch.searchsorted(sorted_angles, angle - 2 * pi * turns)
        return running[place] + turns.unsqueeze(1) * running[-1]

    return up_to(at + pi / 2) - up_to(at - pi / 2)
