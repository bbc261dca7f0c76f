"""Gradient attacks at a given radius: FGM and PGD, in the span of the first layer where that is exact."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featureprism._inputs import as_tensors, check_points
from featureprism.attacks.starts import Start
from featureprism.geometry import LpBall, products, span_basis
from featureprism.models.protocols import HasInputDirections, HasInputGradient

BALL_TOLERANCE = 1e-9  # relative; float64 projections of up to a few thousand coordinates
ZERO_GRADIENT = 1e-9  # a gradient below this share of the largest one gives no direction


@dataclass(frozen=True)
class AttackOutcome:
    """The perturbations that an attack ended with.

    Attributes
    ----------
    delta : tensor (n, d)
        Perturbations δ.
    flipped : tensor (n,) of bool
        Whether y f(x + δ) ≤ 0.
    zero_gradient_share : float
        Share of the points at which the gradient vanished.
    """

    delta: Float[Tensor, "n d"]
    flipped: Bool[Tensor, " n"]
    zero_gradient_share: float


Attack = Callable[[nn.Module, Tensor, Tensor, LpBall], AttackOutcome]


def in_double(net: Any) -> Any:
    """The network in float64: itself if it is, else a copy."""
    tensors = [*net.parameters(), *net.buffers()]
    return net if all(t.dtype == torch.float64 for t in tensors) else deepcopy(net).double()


def to_span(net: Any, x: Float[Tensor, "n d"]) -> tuple[Any, Tensor, Tensor | None]:
    """The network and points in the span of its first layer, float64; exact for ℓ2 questions.

    Modules without `input_directions` come back as they are, with None for the basis.
    """
    if not isinstance(net, HasInputDirections):
        return in_double(net), x.double(), None
    basis = span_basis(net.input_directions().double())
    if not basis.shape[1]:  # a network of zeros sees nothing; any one direction will do
        basis = torch.eye(x.shape[1], dtype=torch.float64)[:, :1]
    return net.in_coordinates(basis), products(x.double(), basis), basis


def margin_gradient(net: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """y f(x) and its gradient: closed where the network has one, by autograd otherwise."""
    if isinstance(net, HasInputGradient):
        value, gradient = net.input_gradient(x)
        return y * value, y.unsqueeze(1) * gradient
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        margin = y * net(x)
        (gradient,) = torch.autograd.grad(margin.sum(), x)
    return margin.detach(), gradient


def verified(
    net: Any, x: Tensor, y: Tensor, ball: LpBall, delta: Tensor, zero_gradient_share: float
) -> AttackOutcome:
    """The outcome, judged on the given network; a perturbation outside the ball is an error."""
    eps = torch.as_tensor(ball.eps, dtype=delta.dtype)
    if not bool((ball.norm(delta) <= eps * (1 + BALL_TOLERANCE)).all()):
        raise RuntimeError("An attack left its ball; its result is not a number to report.")
    with torch.no_grad():
        flipped = y * net(x + delta) <= 0
    return AttackOutcome(delta, flipped, zero_gradient_share)


def _prepare(net: Any, x: Tensor, y: Tensor, ball: LpBall) -> tuple[Any, Tensor, Tensor, Tensor | None]:
    check_points(x, y)
    if ball.p == 2:
        small, z, basis = to_span(net, x)
        return small, z, y.double(), basis
    return in_double(net), x.double(), y.double(), None


def _finish(
    net: Any, x: Tensor, y: Tensor, ball: LpBall, delta: Tensor, basis: Tensor | None, share: float
) -> AttackOutcome:
    full = delta if basis is None else delta @ basis.T
    return verified(in_double(net), x.double(), y.double(), ball, ball.project(full), share)


def fgm(net: nn.Module, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], ball: LpBall) -> AttackOutcome:
    """Fast gradient method: one step to the edge of the ball against the gradient of the margin, δ = -steepest(∇ y f(x)).

    Parameters
    ----------
    net : nn.Module
        The network, with one output f(x) for each point.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    ball : LpBall
        Norm and radius of the perturbations.

    Returns
    -------
    AttackOutcome
        The perturbations, and which points they flip.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 20, generator=fp.generator_for("points", 0))
    >>> net = fp.networks.averaging_classifier(clusters.mu, clusters.labels)
    >>> outcome = fp.attacks.fgm(net, data.x, data.y, fp.geometry.LpBall(2, 0.5))
    >>> bool((outcome.delta.norm(dim=1) <= 0.5 + 1e-9).all())
    True
    """
    small, z, signs, basis = _prepare(net, x, y, ball)
    _, gradient = margin_gradient(small, z, signs)
    return _finish(net, x, y, ball, ball.steepest(-gradient), basis, zero_share(gradient))


def pgd(
    net: nn.Module,
    x: Any,
    y: Any,
    ball: LpBall,
    *,
    starts: Sequence[Start] = (),
    steps: int = 40,
) -> AttackOutcome:
    """Projected gradient descent of the margin y f(x + δ), from zero and from every start; the least margin wins.

    Steps have length 2.5 eps/steps along the normalised gradient, in float64; for ℓ2 they stay in the span of the first layer.
    Without structured starts PGD often finds nothing on pReLU networks, whose gradients vanish.

    Parameters
    ----------
    net : nn.Module
        The network, with one output f(x) for each point.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    ball : LpBall
        Norm and radius of the perturbations.
    starts : sequence of Start, optional
        Starting points beside zero; see `structured_starts`.
    steps : int
        Steps from each start.

    Returns
    -------
    AttackOutcome
        For every point the perturbation with the least margin.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.networks.TwoLayerNet(torch.eye(2).double(), torch.tensor([1.0, -1.0]).double(), activation=fp.networks.ReLU())
    >>> x, y = torch.tensor([[3.0, 1.0]]).double(), torch.tensor([1.0]).double()  # √2 from the line x₁ = x₂
    >>> [bool(fp.attacks.pgd(net, x, y, fp.geometry.LpBall(2, eps)).flipped) for eps in (1.4, 1.5)]
    [False, True]
    """
    x, y = as_tensors(x, y)
    small, z, signs, basis = _prepare(net, x, y, ball)
    local = [s if basis is None else s.in_coordinates(basis) for s in starts]
    delta, _, share = descend(small, z, signs, ball, local, steps)
    return _finish(net, x, y, ball, delta, basis, share)


def descend(
    net: Any, x: Tensor, y: Tensor, ball: LpBall, starts: Sequence[Start], steps: int
) -> tuple[Tensor, Tensor, float]:
    """(best δ, its margin, share of zero gradients) of projected descent, where the points are."""
    first = [torch.zeros_like(x).unsqueeze(0), *(s.deltas(x, y, ball) for s in starts)]
    delta = ball.project(torch.cat(first))  # (s, n, d)
    num, (n, d) = delta.shape[0], x.shape
    signs = y.repeat(num)

    def look(delta: Tensor) -> tuple[Tensor, Tensor]:
        margin, gradient = margin_gradient(net, (x + delta).reshape(num * n, d), signs)
        return margin.reshape(num, n), gradient.reshape(num, n, d)

    margin, gradient = look(delta)
    if bool(torch.isnan(margin).any()):
        raise ValueError("The network gives NaN on these points; nothing can be said about its robustness.")
    share = zero_share(gradient)
    best, best_margin, free = delta.clone(), margin.clone(), replace(ball, box=None)
    for _ in range(steps):
        delta = ball.project(delta + 2.5 / steps * free.steepest(ball.open_at(delta, -gradient)))
        margin, gradient = look(delta)
        better = margin < best_margin
        best = torch.where(better.unsqueeze(-1), delta, best)
        best_margin = torch.minimum(best_margin, margin)
    least, winner = best_margin.min(dim=0)
    return best[winner, torch.arange(n)], least, max(share, zero_share(gradient))


def zero_share(gradient: Float[Tensor, "*s d"]) -> float:
    """Share of gradients too small to point anywhere."""
    length = torch.linalg.vector_norm(gradient, dim=-1)
    return float((length <= ZERO_GRADIENT * length.max()).double().mean())


def strongest_of(*attacks: Attack) -> Attack:
    """Combine attacks: all of them are tried, and for each point one that flips it is kept (else the first).

    Parameters
    ----------
    *attacks : callable
        Attacks with the arguments (net, x, y, ball).

    Returns
    -------
    callable
        An attack with the same arguments.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 20, generator=fp.generator_for("points", 0))
    >>> net = fp.networks.averaging_classifier(clusters.mu, clusters.labels)
    >>> u = clusters.labels @ clusters.mu
    >>> attack = fp.attacks.strongest_of(fp.attacks.fgm, fp.attacks.along(u))
    >>> attack(net, data.x, data.y, fp.geometry.LpBall(2, 6.0)).delta.shape
    torch.Size([20, 50])
    """

    def attack(net: nn.Module, x: Tensor, y: Tensor, ball: LpBall) -> AttackOutcome:
        outcomes = [one(net, x, y, ball) for one in attacks]
        flipped = torch.stack([o.flipped for o in outcomes])
        winner = flipped.to(torch.int8).argmax(dim=0)
        delta = torch.stack([o.delta for o in outcomes])[winner, torch.arange(len(x))]
        share = max(o.zero_gradient_share for o in outcomes)
        return AttackOutcome(delta, flipped.any(dim=0), share)

    return attack


Points = Float[Tensor, "n d"]
Labels = Float[Tensor, " n"]


def _scaled(ball: LpBall, scale: float) -> LpBall:
    return LpBall(ball.p, torch.as_tensor(ball.eps) * scale)


@dataclass(frozen=True)
class FastGradient:
    """Fast gradient method as an adversary of training: δ = argmin_{‖δ‖_p ≤ eps} ⟨y ∇f(x), δ⟩.

    Parameters
    ----------
    ball : LpBall
        Norm and radius of the perturbations.
    zero : float
        Gradients whose dual norm is smaller count as zero, and δ = 0 there (1/poly(d) in the paper).

    References
    ----------
    feature-purification, Section 4.
    """

    ball: LpBall
    zero: float = 0.0

    def __call__(self, net: Any, x: Points, y: Labels, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """x + δ and the labels, the radius multiplied by scale."""
        _, gradient = margin_gradient(net, x, y)
        delta = _scaled(self.ball, scale).steepest(-gradient)
        if self.zero > 0:
            size = torch.linalg.vector_norm(gradient, ord=2 if self.ball.p == 2 else 1, dim=1, keepdim=True)
            delta = delta * (size >= self.zero)
        return x + delta, y


@dataclass(frozen=True)
class ProjectedGradient:
    """PGD from zero: `steps` steps of 2.5 eps/steps along the steepest direction, projected; the last point is kept."""

    ball: LpBall
    steps: int = 7

    def __call__(self, net: Any, x: Points, y: Labels, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """x + δ and the labels, the radius multiplied by scale."""
        ball, delta = _scaled(self.ball, scale), torch.zeros_like(x)
        for _ in range(self.steps):
            _, gradient = margin_gradient(net, x + delta, y)
            delta = ball.project(delta - 2.5 / self.steps * ball.steepest(gradient))
        return x + delta, y


@dataclass(frozen=True)
class SmoothAdversary:
    """SmoothAdv-PGD ℓ2(ε, σ): descend log mean_i sigmoid(y f(x + δ + n_i)) over noise n_i ~ N(0, σ²I), then train at x + δ + n_i.

    Normalised gradients (a zero one is replaced by a random direction), steps of 2ε/steps. The rows come back `samples` times.
    σ is the noise of one coordinate. Source: Salman et al. 2019, as in feature-purification, footnote 14.
    """

    eps: float
    sigma: float
    generator: torch.Generator
    samples: int = 2
    steps: int = 4

    def __call__(self, net: Any, x: Points, y: Labels, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """x + δ + n_i and the labels, `samples` copies; ε multiplied by scale."""
        ball = LpBall(2, self.eps * scale)
        n, (rows, d) = self.samples, x.shape
        noise = self.sigma * torch.randn((n, rows, d), generator=self.generator, dtype=x.dtype)
        delta, signs = torch.zeros_like(x), y.repeat(n)
        for _ in range(self.steps):
            margin, gradient = margin_gradient(net, (x + delta + noise).reshape(n * rows, d), signs)
            p = torch.sigmoid(margin)
            pull = ((p * (1 - p)).unsqueeze(1) * gradient).reshape(n, rows, d).sum(dim=0)
            lost = torch.linalg.vector_norm(pull, dim=1, keepdim=True) == 0
            pull = torch.where(lost, torch.randn(pull.shape, generator=self.generator, dtype=x.dtype), pull)
            delta = ball.project(delta - 2 / self.steps * ball.steepest(pull))
        return (x + delta + noise).reshape(n * rows, d), signs
