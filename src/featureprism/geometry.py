"""Balls and subspaces: where perturbations live, and the few directions a network can see."""

from dataclasses import dataclass
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor

SAFE = 1e-15  # norms from here to 1/SAFE can be squared in single precision


@dataclass(frozen=True)
class LpBall:
    """Perturbations δ with ‖δ‖_p ≤ eps, p = 2 or ∞; eps is one radius or one per row (n,).

    >>> import torch
    >>> import featureprism as fp
    >>> fp.LpBall(p=2, eps=1.0).project(torch.tensor([[3.0, 4.0], [0.1, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.1000, 0.0000]])
    """

    p: float
    eps: float | Tensor

    def __post_init__(self) -> None:
        if self.p not in (2, inf):
            raise ValueError(f"p must be 2 or math.inf, got {self.p}.")
        eps = torch.as_tensor(self.eps, dtype=torch.float64)
        if not bool((torch.isfinite(eps) & (eps >= 0)).all()):
            raise ValueError(f"The radius eps must be finite and at least 0, got {self.eps}.")

    def _column(self, like: Tensor) -> Tensor:
        """eps as a column that broadcasts against rows of `like`."""
        eps = torch.as_tensor(self.eps, dtype=like.dtype, device=like.device)
        return eps.unsqueeze(-1)

    def norm(self, delta: Float[Tensor, "*s d"]) -> Float[Tensor, "*s"]:
        """‖δ‖_p, row by row."""
        return torch.linalg.vector_norm(delta, ord=self.p, dim=-1)

    def project(self, delta: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """Nearest point of the ball (in ℓ2), row by row."""
        eps = self._column(delta)
        if self.p == inf:
            return torch.minimum(torch.maximum(delta, -eps), eps)
        length = self.norm(delta).unsqueeze(-1)
        return delta * (eps / length.clamp_min(torch.finfo(delta.dtype).tiny)).clamp_max(1)

    def steepest(self, gradient: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """The δ of the ball with the largest ⟨gradient, δ⟩; zero where the gradient is zero."""
        if self.p == inf:
            return self._column(gradient) * gradient.sign()
        return self._column(gradient) * unit_rows(gradient)

    def stretch(self, delta: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
        """δ scaled to the edge of the ball, its direction kept; zero stays zero."""
        length = self.norm(delta).unsqueeze(-1)
        return delta * (self._column(delta) / torch.where(length > 0, length, torch.ones_like(length)))

    def sample(
        self, num_points: int, dim: int, *, generator: torch.Generator, dtype=torch.float64
    ) -> Float[Tensor, "n d"]:
        """Uniform draws from the ball: a uniform direction at radius eps·U^(1/d), or a uniform box."""
        shape = (num_points, dim)
        if self.p == inf:
            cube = 2 * torch.rand(shape, generator=generator, dtype=dtype) - 1
            return cube * self._column(cube)
        direction = unit_rows(torch.randn(shape, generator=generator, dtype=dtype))
        share = torch.rand(num_points, 1, generator=generator, dtype=dtype) ** (1 / dim)
        return direction * share * self._column(direction)


def row_norms(W: Float[Tensor, "*h d"]) -> Float[Tensor, "*h"]:
    """‖w_j‖ without under- or overflow: the largest entry is divided out before squaring."""
    largest = W.abs().amax(dim=-1, keepdim=True)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    return torch.linalg.vector_norm(W / scale, dim=-1) * scale.squeeze(-1)


def unit_rows(W: Float[Tensor, "*h d"]) -> Float[Tensor, "*h d"]:
    """w_j / ‖w_j‖ at any scale; a zero row stays zero."""
    length = torch.linalg.vector_norm(W, dim=-1, keepdim=True)
    if length.numel() and bool((length.min() > SAFE) & (length.max() < 1 / SAFE)):
        return W / length
    largest = W.abs().amax(dim=-1, keepdim=True)
    scaled = W / torch.where(largest > 0, largest, torch.ones_like(largest))
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return scaled / torch.where(length > 0, length, torch.ones_like(length))


def span_basis(W: Float[Tensor, "h d"]) -> Float[Tensor, "d r"]:
    """Orthonormal basis Q of the span of the rows of W (h > d gives r = d).

    x ↦ W x depends on x only through Qᵀx, so ℓ2 questions about such a network can be asked in r
    dimensions exactly. QR with zero rows dropped; nearly dependent rows cost a column, never accuracy.
    """
    rows = unit_rows(W)
    rows = rows[rows.abs().amax(dim=1) > 0]
    if rows.shape[0] >= rows.shape[1]:
        return torch.eye(W.shape[1], dtype=W.dtype, device=W.device)
    return torch.linalg.qr(rows.T, mode="reduced").Q
