"""Attacks that travel: one direction for all points, and perturbations of one network tried on another."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism._inputs import check_points
from featureprism.attacks.gradient import Attack, AttackOutcome, in_double, margin_gradient, to_span, verified
from featureprism.geometry import LpBall
from featureprism.models.scores import PairMargins

UNIVERSAL_STEPS = 60


@torch.no_grad()
def universal_direction(
    net: nn.Module, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], eps: float
) -> Float[Tensor, " d"]:
    """A unit direction u such that moving every point by -y eps u flips as many of them as possible.

    Normalised descent of Σ_i softplus(y_i f(x_i - y_i eps u)/s), s the median margin, from the mean of y_i ∇f(x_i) and from the
    mean of y_i x_i; the direction with the most flips on the way wins.

    Parameters
    ----------
    net : nn.Module
        The network, with one output f(x) for each point.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    eps : float
        Length of the perturbation.

    Returns
    -------
    tensor (d,)
        A unit vector u; use it as a start with `Along(u)`.

    Examples
    --------
    >>> import featureprism as fp
    >>> from featureprism.networks import PolynomialClassifier
    >>> clusters = fp.data.orthonormal_clusters(50, 3, 3, 0.05, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 30, generator=fp.generator_for("data", 0))
    >>> linear = PolynomialClassifier(clusters.mu, clusters.labels, 1.0)
    >>> u = fp.attacks.universal_direction(linear, data.x, data.y, eps=0.6)
    >>> mean = clusters.labels @ clusters.mu / 6**0.5  # Σ y μ, as a unit vector
    >>> round(float(u @ mean.to(u)), 1)
    0.9
    """
    check_points(x, y)
    if not eps > 0:
        raise ValueError(f"The radius eps must be positive, got {eps}.")
    small, z, basis = to_span(net, x)
    y = y.double()
    clean, gradient = margin_gradient(small, z, y)
    scale = clean.abs().median().clamp_min(1e-12)
    u = torch.nn.functional.normalize(torch.stack([(y.unsqueeze(1) * v).mean(dim=0) for v in (gradient, z)]))
    best, most = u[0], -1.0
    for step in range(UNIVERSAL_STEPS):
        moved = z - eps * y.unsqueeze(1) * u.unsqueeze(1)  # (2, n, r)
        margin, gradient = margin_gradient(small, moved.flatten(0, 1), y.repeat(2))
        flips = (margin <= 0).reshape(2, -1).double().mean(dim=1)
        if float(flips.max()) > most:
            best, most = u[flips.argmax()].clone(), float(flips.max())
        pull = torch.sigmoid(margin / scale) * y.repeat(2)
        ascent = (pull.unsqueeze(1) * gradient).reshape(2, len(z), -1).mean(dim=1)  # of how much u flips
        rate = 0.3 * (1 - step / UNIVERSAL_STEPS)
        u = torch.nn.functional.normalize(u + rate * torch.nn.functional.normalize(ascent))
    return best if basis is None else basis @ best


@torch.no_grad()
def universal_shift(
    scores: nn.Module, x: Float[Tensor, "n d"], label: Int[Tensor, " n"], eps: float
) -> Float[Tensor, " d"]:
    """A unit direction u, found over a sample, such that x + eps u leaves its class `label` for as many points as possible, any class.

    Normalised descent of Σ_i softplus(m_i/s), m_i = f_label - max of the others and s its median size, from one start for each class
    (the mean of the gradients of f_c - f_label); the direction that fools most on the way wins.
    """
    if not eps > 0:
        raise ValueError(f"The radius eps must be positive, got {eps}.")
    x = x.double()
    k = int(scores(x[:1]).shape[1])
    towards = torch.arange(k).repeat_interleave(len(x))
    every, owner = x.repeat(k, 1), label.repeat(k)
    _, gradient = margin_gradient(PairMargins(scores, owner, towards), every, torch.ones(len(every)).double())
    u = torch.nn.functional.normalize(-gradient.reshape(k, len(x), -1).mean(dim=1))
    best, most = u[0], -1.0
    for step in range(UNIVERSAL_STEPS):
        moved = (x + eps * u.unsqueeze(1)).flatten(0, 1)
        others = scores(moved).scatter(1, owner.unsqueeze(1), -torch.inf)
        margins = PairMargins(scores, owner, others.argmax(dim=1))
        margin, gradient = margin_gradient(margins, moved, torch.ones(len(moved)).double())
        fooled = (margin <= 0).reshape(k, -1).double().mean(dim=1)
        if float(fooled.max()) > most:
            best, most = u[fooled.argmax()].clone(), float(fooled.max())
        pull = torch.sigmoid(margin / margin.abs().median().clamp_min(1e-12))
        descent = (pull.unsqueeze(1) * gradient).reshape(k, len(x), -1).mean(dim=1)
        rate = 0.3 * (1 - step / UNIVERSAL_STEPS)
        u = torch.nn.functional.normalize(u - rate * torch.nn.functional.normalize(descent))
    return best


@torch.no_grad()
def flip_rate(
    net: nn.Module, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], z: Float[Tensor, " d"]
) -> float:
    """Share of the points that one perturbation flips, the same for all up to the sign of the label.

    Parameters
    ----------
    net : nn.Module
        The network, with one output f(x) for each point.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    z : tensor (d,)
        The perturbation.

    Returns
    -------
    float
        Share of the points with y f(x - y z) ≤ 0.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 20, generator=fp.generator_for("points", 0))
    >>> net = fp.networks.averaging_classifier(clusters.mu, clusters.labels)
    >>> u = clusters.labels @ clusters.mu
    >>> fp.attacks.flip_rate(net, data.x, data.y, 6 * u / u.norm())
    1.0
    """
    return float((y * net(x - y.unsqueeze(1) * z) <= 0).double().mean())


def flipping_norm(
    net: nn.Module,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    direction: Float[Tensor, " d"],
    share: float = 0.5,
) -> float:
    """The least length at which one direction flips a share of the points, by bisection.

    This assumes that the rate grows with the length, as it does along the directions of interest (double-edged, Lemma D.6).

    Parameters
    ----------
    net : nn.Module
        The network, with one output f(x) for each point.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    direction : tensor (d,)
        Direction of the perturbation.
    share : float
        Share of the points that has to flip.

    Returns
    -------
    float
        The least length t, to a relative 1e-6; inf if 16 max‖x‖ is not enough.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 20, generator=fp.generator_for("points", 0))
    >>> net = fp.networks.averaging_classifier(clusters.mu, clusters.labels)
    >>> u = clusters.labels @ clusters.mu
    >>> norm = fp.attacks.flipping_norm(net, data.x, data.y, u)
    >>> print(f'{norm / (50 / 4) ** 0.5:.2f} of √(d/k)')
    1.01 of √(d/k)
    """
    check_points(x, y)
    unit = direction / torch.linalg.vector_norm(direction)
    low, high = 0.0, 16 * float(torch.linalg.vector_norm(x, dim=1).max())
    if flip_rate(net, x, y, high * unit) < share:
        return float("inf")
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if flip_rate(net, x, y, middle * unit) >= share else (middle, high)
    return high


def transfer(
    delta: Float[Tensor, "n d"], net: nn.Module, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], ball: LpBall
) -> AttackOutcome:
    """Perturbations made for one network, tried on another: which points they flip there."""
    check_points(x, y)
    return verified(in_double(net), x.double(), y.double(), ball, delta.double(), float("nan"))


def along(direction: Float[Tensor, " d"]) -> Attack:
    """The attack that moves every point by -y times one direction to the edge of the ball, without looking at the network.

    Parameters
    ----------
    direction : tensor (d,)
        Where to move; its length does not matter.

    Returns
    -------
    callable
        An attack with the arguments (net, x, y, ball).

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 20, generator=fp.generator_for("points", 0))
    >>> net = fp.networks.averaging_classifier(clusters.mu, clusters.labels)
    >>> attack = fp.attacks.along(clusters.labels @ clusters.mu)
    >>> outcome = attack(net, data.x, data.y, fp.geometry.LpBall(2, 5.0))
    >>> outcome.delta.shape
    torch.Size([20, 50])
    """

    def attack(net: nn.Module, x: Tensor, y: Tensor, ball: LpBall) -> AttackOutcome:
        check_points(x, y)
        x, y = x.double(), y.double()
        delta = ball.steepest(-y.unsqueeze(1) * direction.double())
        return verified(in_double(net), x, y, ball, delta, float("nan"))

    return attack
