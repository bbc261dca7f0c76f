"""The network of a head: neurons that each speak for one class, so that every margin is a difference of convex functions."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.models.activations import PowerReLU, ReLU
from featureprism.models.scores import ScoreNet


class HeadNet(ScoreNet):
    """Scores f_c(x) = Σ_{j of class c} a_j [⟨w_j, x⟩ + b_j]₊^p with a_j ≥ 0, one for each of C classes.

    W (h, d), b (h,), a (h,); `owner` (h,) gives the class of each neuron. The largest score wins.
    """

    a: Tensor
    owner: Tensor

    def __init__(
        self,
        W: Float[Tensor, "h d"],
        b: Float[Tensor, " h"],
        a: Float[Tensor, " h"],
        owner: Int[Tensor, " h"],
        num_classes: int,
        p: float,
    ) -> None:
        if not bool((a >= 0).all()):
            raise ValueError("The votes of a head's neurons must not be negative.")
        V = a.unsqueeze(1) * nn.functional.one_hot(owner, num_classes).to(a.dtype)
        super().__init__(W, V, b, activation=ReLU() if p == 1 else PowerReLU(float(p)))
        self.register_buffer("a", a.detach().clone())
        self.register_buffer("owner", owner.detach().clone())

    @property
    def p(self) -> float:
        """The power of the neurons."""
        return float(self.activation.p)


class MergedHead(nn.Module):
    """f(x) = LSE of the scores of the positive classes minus LSE of the others: the sign of Σ p_c over J₊ minus over J₋.

    `sign[c]` is +1 or -1. Source: feature-averaging, Section 4.2.
    """

    sign: Tensor

    def __init__(self, net: HeadNet, sign: Float[Tensor, " c"]) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("sign", sign)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The difference of the two log-sum-exps."""
        scores = self.net(x)
        positive, negative = (torch.logsumexp(scores[:, self.sign == s], dim=1) for s in (1, -1))
        return positive - negative

    def lipschitz(self) -> float:
        """max_{c ∈ J₊} ‖W_c‖ ‖a_c‖ + max_{c ∈ J₋} ‖W_c‖ ‖a_c‖ for ReLU scores: ∇f is a mean of ∇f_c minus a mean of others."""
        assert self.net.p == 1
        size = torch.stack(
            [
                torch.linalg.matrix_norm(self.net.W[self.net.owner == c].detach(), 2)
                * torch.linalg.vector_norm(self.net.a[self.net.owner == c].detach())
                for c in range(self.net.num_classes)
            ]
        )
        return float(size[self.sign == 1].max() + size[self.sign == -1].max())
