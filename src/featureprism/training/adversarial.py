"""Clean or adversarial training of any module: Adam on the logistic loss, at points that an adversary may move first."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from featureprism.training.trajectory import Ended, Trajectory

Batch = tuple[Tensor, Tensor]
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # the usual constants of Adam


class Moments(NamedTuple):
    """Running means of a gradient and of its square."""

    first: Tensor
    second: Tensor


@torch.no_grad()
def adam_step(parameter: Tensor, gradient: Tensor, moments: Moments, step: int, step_size: float) -> None:
    """One step of Adam in place, `step` counted from 1; torch's own takes seconds to import. Source: Kingma & Ba, ICLR 2015."""
    moments.first.lerp_(gradient, 1 - FIRST)
    moments.second.mul_(SECOND).addcmul_(gradient, gradient, value=1 - SECOND)
    size = (moments.second / (1 - SECOND**step)).sqrt_().add_(TINY)
    parameter.addcdiv_(moments.first, size, value=-step_size / (1 - FIRST**step))


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
    parameters = [p for p in net.parameters() if p.requires_grad]
    moments = [Moments(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    loss = torch.zeros(())
    for step in range(1, steps + 1):
        x, y = draw()
        if perturb is not None:
            x, y = perturb(net, x, y, 1.0)
        loss = torch.nn.functional.softplus(-y * net(x)).mean()
        gradients = torch.autograd.grad(loss, parameters)
        for parameter, gradient, own in zip(parameters, gradients, moments, strict=True):
            adam_step(parameter, gradient, own, step, step_size)
    ended = Ended.TIME_REACHED if bool(torch.isfinite(loss.detach())) else Ended.DIVERGED
    return Trajectory([steps], [net], ended, work=steps)
