"""Our ±1 networks in the form other tools expect."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class TwoLogits(nn.Module):
    """x ↦ (-f(x)/2, f(x)/2): class 0 is label -1, class 1 is label +1, and the logit difference is f(x).

    Tools that attack or verify classifiers need one logit per class; a single output makes them fail or, worse, call everything
    robust. Inputs are unbounded: tools that clamp to [0, 1] must be told so.
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
