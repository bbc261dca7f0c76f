"""Clean or adversarial training of any module: Adam on the logistic loss, at points that an adversary may move first."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from featureprism.records import Ended, Trajectory

Batch = tuple[Tensor, Tensor]


def logistic_descent(
    net: nn.Module,
    draw: Callable[[], Batch],
    *,
    steps: int,
    step_size: float,
    perturb: Callable[[Any, Tensor, Tensor, float], Batch] | None = None,
) -> Trajectory[nn.Module]:
    """Adam on mean log(1 + e^(-y f)) over drawn batches, in place; the gradient does not flow through the perturbation."""
    if steps < 0 or not step_size > 0:
        raise ValueError(f"Need steps ≥ 0 and step_size > 0, got {steps} and {step_size}.")
    optimiser = torch.optim.Adam(net.parameters(), lr=step_size)
    loss = torch.zeros(())
    for _ in range(steps):
        x, y = draw()
        if perturb is not None:
            x, y = perturb(net, x, y, 1.0)
        optimiser.zero_grad()
        loss = torch.nn.functional.softplus(-y * net(x)).mean()
        loss.backward()
        optimiser.step()
    ended = Ended.TIME_REACHED if bool(torch.isfinite(loss.detach())) else Ended.DIVERGED
    return Trajectory([steps], [net], ended, work=steps)
