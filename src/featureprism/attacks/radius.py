"""The smallest perturbation an attack can find, point by point, and the curve it draws."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._inputs import check_points
from featureprism.attacks.boundary import convex_concave, shortened, slide, turned, valleys
from featureprism.attacks.gradient import descend, in_double, margin_gradient, to_span, verified, zero_share
from featureprism.attacks.minimum_norm import minimum_norm
from featureprism.attacks.starts import FAN, Start
from featureprism.geometry import Box, LpBall, Sides, products
from featureprism.models.protocols import HasClassStarts
from featureprism.models.scores import TwoScores

RAY_STEPS, RAY_DECADES = 36, 3  # where the first flip of a ray is looked for: 12 radii a decade
RAY_HALVINGS = 14  # of the interval between two of these radii
KEPT_RAYS = 12  # per point, the shortest ones go on to PGD
GIVEN = 4  # of the shortest rays, starts of the minimum-norm attack
RIVALS = 10  # of these, the ones that convex-concave steps get to try
BEYOND_ROUNDING = (
    1e-9  # of a witness: turned ones lie so close to the boundary that rounding alone could take them back
)


@dataclass(frozen=True)
class AttackedRadius:
    """Upper bounds of the robust radius, each with its perturbation.

    Attributes
    ----------
    radius : tensor (n,)
        Norm of a verified perturbation that flips the point: 0 if it is misclassified, inf if none was found.
    delta : tensor (n, d)
        The perturbations.
    zero_gradient_share : float
        Share of the points at which the gradient vanished.
    blind_share : float
        Share of the flipped points that PGD from zero misses even at 1.1 times their radius.
    """

    radius: Float[Tensor, " n"]
    delta: Float[Tensor, "n d"]
    zero_gradient_share: float
    blind_share: (
        float  # of the flipped points, those that PGD from zero misses even at 1.1 times their radius
    )

    @property
    def half(self) -> float:
        """The radius at which half of the points are flipped: the median."""
        return float(self.radius.median())

    def accuracy(self, radii: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
        """Attacked robust accuracy: the share of points that no found perturbation up to r flips."""
        return (self.radius.unsqueeze(0) > radii.unsqueeze(1)).double().mean(dim=1)


@dataclass(frozen=True)
class _Given:
    """Start from known perturbations (s, n, d), stretched to the edge of the ball."""

    known: Tensor

    def deltas(self, x: Tensor, y: Tensor, ball: LpBall) -> Tensor:
        return ball.stretch(self.known)

    def in_coordinates(self, basis: Tensor) -> "_Given":
        return _Given(self.known @ basis)


@torch.no_grad()
def minimal_radius(
    net: nn.Module,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    starts: Sequence[Start],
    upper: float | Float[Tensor, " n"],
    norm: float = 2,
    steps: int = 20,
    rounds: int = 8,
    domain: Sides | None = None,
) -> AttackedRadius:
    """The smallest perturbation that flips each point, as far as attacks can find it.

    First the gradient and each start are followed up to `upper` for their first flip. Then, `rounds` times, PGD from
    zero, the shortest rays and the best perturbation so far attacks halfway between the largest radius that held and
    the smallest that did not; a success is shortened along its ray to the boundary (for ℓ∞ a minimum-norm attack goes
    on from the shortest rays instead). Last, perturbations slide along the boundary towards the point, and for ℓ2
    convex-concave steps finish on networks that are a difference of convex functions.

    Parameters
    ----------
    net : nn.Module
        The network, with one output f(x) for each point.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    starts : sequence of Start
        Starting points, see `structured_starts`.
    upper : float or tensor (n,)
        Largest radius to try.
    norm : 2 or inf
        Norm of the perturbations.
    steps : int
        Steps of each PGD attack.
    rounds : int
        Bisections of the radius.
    domain : pair of bounds, optional
        Every coordinate of a perturbed point stays between the two.

    Returns
    -------
    AttackedRadius
        Upper bounds of the robust radius, verified on the given network.

    Examples
    --------
    >>> import featureprism as fp
    >>> from featureprism.networks import PolynomialClassifier
    >>> clusters = fp.data.orthonormal_clusters(50, 2, 2, 0.0, generator=fp.generator_for("centres", 0))
    >>> points = fp.data.sample_balanced(clusters, 1, generator=fp.generator_for("test", 0))
    >>> F = PolynomialClassifier(clusters.mu, clusters.labels, 3.0)
    >>> starts = fp.attacks.structured_starts(F, clusters.mu, clusters.labels)
    >>> found = fp.attacks.minimal_radius(F, points.x, points.y, starts=starts, upper=1.0)
    >>> [round(r, 3) for r in found.radius.tolist()]  # √2/2: no classifier reaches further
    [0.707, 0.707, 0.707, 0.707]
    """
    check_points(x, y)
    if not bool((torch.as_tensor(upper) > 0).all()):
        raise ValueError(f"The largest radius to try must be positive, got {upper}.")
    # a box has no meaning in a span
    in_span = norm == 2 and domain is None
    small, z, basis = to_span(net, x) if in_span else (in_double(net), x.double(), None)
    signs, ball = y.double(), LpBall(norm, upper, Box.around(z, domain))
    local = [s if basis is None else s.in_coordinates(basis) for s in starts]
    lengths, rays = _first_flips(small, z, signs, local, ball)
    if norm == 2 or not rounds:
        radius, delta, share = _bisected(small, z, signs, lengths, rays, ball, rounds, steps)
    else:
        radius, delta, share = _fast_minimum_norm(small, z, signs, rays, ball, domain)
    delta = _drawn_in(small, z, signs, delta, rays, ball)
    found = torch.isfinite(radius)
    blind = _blind_share(small, z, signs, replace(ball, eps=1.1 * ball.norm(delta)), found)
    full = delta if basis is None else products(delta, basis.T)
    return _checked(net, x, y, full, found, share, blind, norm)


def _bisected(
    net: Any, z: Tensor, y: Tensor, lengths: Tensor, rays: Tensor, ball: LpBall, rounds: int, steps: int
) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"], float]:
    """Rounds of PGD between the radii that held and those that did not: the shortest norm, its flip, the share of zero gradients."""
    radius, shortest = lengths.min(dim=0)
    delta = rays[shortest, torch.arange(len(z))]
    upper = torch.as_tensor(ball.eps, dtype=z.dtype)
    low, share = 0.5 * torch.minimum(radius, upper), 0.0
    for _ in range(rounds):
        middle = replace(ball, eps=(low + torch.minimum(radius, upper)) / 2)
        found, margin, zero = descend(net, z, y, middle, [_Given(rays), _Given(delta.unsqueeze(0))], steps)
        share = max(share, zero)
        shorter = shortened(net, z, y, found)
        length = ball.norm(shorter)
        better = (margin <= 0) & (length < radius)
        radius = torch.where(better, length, radius)
        delta = torch.where(better.unsqueeze(1), shorter, delta)
        # a failure raises the floor; a success may open shorter ones below it
        low = torch.where(better, torch.minimum(low, 0.8 * radius), torch.as_tensor(middle.eps))
    return radius, delta, share


def _fast_minimum_norm(
    net: Any, z: Tensor, y: Tensor, rays: Tensor, ball: LpBall, domain: Sides | None
) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"], float]:
    """The minimum-norm attack from zero and from the shortest rays: norms, flips, the share of zero gradients."""
    label = (y > 0).long()
    flips = minimum_norm(
        TwoScores(net),
        z,
        label,
        1 - label,
        torch.arange(len(z)),
        norm=ball.p,
        domain=domain,
        reach=torch.as_tensor(ball.eps, dtype=z.dtype).expand(len(z)),
        starts=rays[:GIVEN],
    )
    _, gradient = margin_gradient(net, z, y)
    found = torch.isfinite(flips.length)
    delta = torch.where(found.unsqueeze(1), flips.delta, rays[0])
    return flips.length, delta, zero_share(gradient)


def _drawn_in(
    net: Any, z: Tensor, y: Tensor, delta: Tensor, rays: Tensor, ball: LpBall
) -> Float[Tensor, "n d"]:
    """Witnesses moved along the boundary towards their points."""
    if ball.p == 2:
        far = (
            [net.far_in_targets(z, y, RIVALS)] if isinstance(net, HasClassStarts) and ball.box is None else []
        )
        delta = _best_of(net, z, y, torch.cat([delta.unsqueeze(0), rays[:RIVALS], *far]), ball.box)
    delta = slide(net, z, y, delta, ball.box, ball.p)
    if ball.p == 2:
        delta = convex_concave(net, z, y, delta, box=ball.box)
    if _can_turn(ball.p, z.shape[1], ball.box):
        delta = _shortest_turned(net, z, y, torch.cat([delta.unsqueeze(0), rays]))
    return delta


def _best_of(
    net: Any, z: Tensor, y: Tensor, witnesses: Float[Tensor, "s n d"], box: Box | None
) -> Float[Tensor, "n d"]:
    """The witness that is shortest after a few convex-concave steps: the nearest on the ray need not be the nearest in the end."""
    s, n, d = witnesses.shape
    wide = None if box is None else Box(box.low.repeat(s, 1), box.high.repeat(s, 1))
    flat = convex_concave(net, z.repeat(s, 1), y.repeat(s), witnesses.reshape(s * n, d), steps=2, box=wide)
    return _shortest_flip(net, z, y, flat.reshape(s, n, d))


def _shortest_turned(
    net: Any, z: Tensor, y: Tensor, witnesses: Float[Tensor, "s n d"]
) -> Float[Tensor, "n d"]:
    """The shortest of several witnesses of every point, after each was turned."""
    s, n, d = witnesses.shape
    flat = turned(net, z.repeat(s, 1), y.repeat(s), witnesses.reshape(s * n, d))
    return _shortest_flip(net, z, y, (1 + BEYOND_ROUNDING) * flat.reshape(s, n, d))


def _shortest_flip(net: Any, z: Tensor, y: Tensor, witnesses: Float[Tensor, "s n d"]) -> Float[Tensor, "n d"]:
    """The shortest perturbation of every point that flips it; the first where none does."""
    s, n, d = witnesses.shape
    flips = (y.repeat(s) * net(z.repeat(s, 1) + witnesses.reshape(s * n, d)) <= 0).reshape(s, n)
    length = torch.linalg.vector_norm(witnesses, dim=2)
    winner = torch.where(flips, length, torch.full_like(length, torch.inf)).argmin(dim=0)
    return witnesses[winner, torch.arange(n)]


def _checked(
    net: Any, x: Tensor, y: Tensor, delta: Tensor, found: Tensor, share: float, blind: float, norm: float
) -> AttackedRadius:
    """Radii measured again on the original network: what does not flip there is not a witness."""
    length = torch.linalg.vector_norm(delta, ord=norm, dim=1)
    outcome = verified(in_double(net), x.double(), y.double(), LpBall(norm, length), delta, share)
    radius = torch.where(found & outcome.flipped, length, torch.full_like(length, torch.inf))
    return AttackedRadius(radius, delta, share, blind)


def _blind_share(net: Any, z: Tensor, y: Tensor, ball: LpBall, found: Tensor) -> float:
    """Share of the flipped points on which plain PGD, without starts, fails at a radius beyond the witness."""
    wrong_by_attack = found & (ball.norm(torch.zeros_like(z)) < torch.as_tensor(ball.eps))
    if not bool(wrong_by_attack.any()):
        return 0.0
    _, margin, _ = descend(net, z, y, ball, (), 40)
    return float((margin > 0)[wrong_by_attack].double().mean())


def _first_flips(
    net: Any, z: Tensor, y: Tensor, starts: Sequence[Start], ball: LpBall
) -> tuple[Float[Tensor, "s n"], Float[Tensor, "s n d"]]:
    """The few shortest flips among the gradient and all starts: norms (inf: none) and perturbations.

    In a box a ray goes on along the sides that it meets.
    """
    _, gradient = margin_gradient(net, z, y)
    free, inside = replace(ball, box=None), ball.box.clip if ball.box is not None else _as_it_is
    rays = torch.cat([free.steepest(-gradient).unsqueeze(0), *(s.deltas(z, y, free) for s in starts)])
    num, (n, r) = len(rays), z.shape
    first = torch.full((num, n), torch.inf, dtype=z.dtype)
    shares = torch.logspace(0, -RAY_DECADES, RAY_STEPS + 1, dtype=z.dtype)  # from the edge inwards
    for share in (*shares, torch.zeros_like(shares[0])):
        margin = y.repeat(num) * net((z + inside(share * rays)).reshape(num * n, r))
        first = torch.where(margin.reshape(num, n) <= 0, share, first)
    found = torch.isfinite(first)
    reach = inside(torch.where(found, first, torch.ones_like(first)).unsqueeze(-1) * rays)
    points, signs = z.repeat(num, 1), y.repeat(num)
    flat = shortened(net, points, signs, reach.reshape(num * n, r), float(shares[1]), halvings=RAY_HALVINGS)
    length = torch.where(found, ball.norm(flat).reshape(num, n), first)
    # only now: the shares alone would tie
    if _can_turn(ball.p, r, ball.box):
        length, kept = valleys(length, flat.reshape(num, n, r), KEPT_RAYS)
    else:
        length, kept = length.sort(dim=0)
    kept = kept[:KEPT_RAYS]
    witnesses = flat.reshape(num, n, r)[kept, torch.arange(n)]  # (s, n, r)
    return length[:KEPT_RAYS], witnesses


def _can_turn(norm: float, dim: int, box: Box | None) -> bool:
    """Whether all directions are looked at."""
    return norm == 2 and dim in FAN and box is None


def _as_it_is(delta: Tensor) -> Tensor:
    return delta
