"""Our ±1 networks in the form other tools expect."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class TwoLogits(nn.Module):
    """x ↦ (-f(x)/2, f(x)/2): class 0 is label -1, class 1 is label +1, and the difference of the logits is f(x).

    Tools that attack or verify classifiers need one logit for each class; a single output makes them fail or, worse, call everything
    robust. Inputs are unbounded: a tool that clamps them to [0, 1] by default has to be configured not to.

    Parameters
    ----------
    net : nn.Module
        A network with one output.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n 2"]:
        """Two logits for every point."""
        f = self.net(x)
        return torch.stack([-f, f], dim=-1) / 2

    @property
    def one_output(self) -> nn.Module:
        """The network of f."""
        return self.net
