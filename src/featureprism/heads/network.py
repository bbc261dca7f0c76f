"""The network of a head: neurons that each speak for one class, so that every margin is a difference of convex functions."""

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
