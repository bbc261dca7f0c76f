"""Scores that are quadratic in the point: what the Bayes rule of Gaussian classes computes."""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.models.scores import as_scores, checked_parameter


class QuadraticScores(nn.Module):
    """Scores c_r + ⟨V_r, x⟩ - ½ xᵀA_r x: A (k, d, d) symmetric, V (k, d), c (k,). The largest wins."""

    def __init__(self, A: Float[Tensor, "k d d"], V: Float[Tensor, "k d"], c: Float[Tensor, " k"]) -> None:
        super().__init__()
        k, d = V.shape[:2]
        self.A = checked_parameter(A, "A", (k, d, d))
        self.V = checked_parameter(V, "V", (k, d))
        self.c = checked_parameter(c, "c", (k,))
        if not torch.equal(self.A.detach(), self.A.detach().mT):
            raise ValueError("The matrices A of quadratic scores must be symmetric.")

    @property
    def num_classes(self) -> int:
        """k."""
        return len(self.c)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The score of every class."""
        curved = torch.stack([((x @ A) * x).sum(dim=1) for A in self.A], dim=1)
        return self.c + x @ self.V.T - curved / 2

    def margin(self, own: int, rival: int) -> "QuadraticMargin":
        """f_own - f_rival as a function with one output."""
        A, V, c = (t.detach() for t in (self.A, self.V, self.c))
        return QuadraticMargin(A[own] - A[rival], V[own] - V[rival], float(c[own] - c[rival]))

    def after(self, W: Float[Tensor, "d e"], b: Float[Tensor, " d"]) -> "QuadraticScores":
        """The same scores of Wx + b, as a function of x."""
        A, V, c = (t.detach() for t in (self.A, self.V, self.c))
        bent = W.T @ A @ W
        slopes = V - A @ b
        return QuadraticScores((bent + bent.mT) / 2, slopes @ W, c + (V + slopes) @ b / 2)


class QuadraticMargin(nn.Module):
    """f(x) = c + ⟨v, x⟩ - ½ xᵀQx, with its gradient."""

    def __init__(self, Q: Float[Tensor, "d d"], v: Float[Tensor, " d"], c: float) -> None:
        super().__init__()
        self.Q, self.v, self.c = nn.Parameter(Q), nn.Parameter(v), c

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f(x)."""
        return self.c + x @ self.v - ((x @ self.Q) * x).sum(dim=1) / 2

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """f(x) and ∇f(x) = v - Qx."""
        return self(x), self.v - x @ self.Q


@as_scores.register
def _(module: QuadraticScores) -> nn.Module:
    return copy.deepcopy(module)
