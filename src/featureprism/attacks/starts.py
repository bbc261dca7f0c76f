"""Where an attack begins: structured and random perturbations.

Gradients of these networks vanish on the way to the other clusters, so starting points must carry the structure.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import LpBall, row_norms, unit_rows
from featureprism.models.one_layer import TwoLayerNet
from featureprism.models.protocols import HasClassStarts

FAN = {2: 360, 3: 1000}  # directions in two and three dimensions
SAME_GROUP = 0.9  # neurons of one sign with a larger cosine count as one direction


@runtime_checkable
class Start(Protocol):
    """A family of first perturbations."""

    def deltas(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], ball: LpBall) -> Float[Tensor, "s n d"]:
        """s perturbations of every point, inside the ball."""
        ...

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "Start":
        """The same starts for points given as basisᵀ x."""
        ...


@dataclass(frozen=True)
class Towards:
    """Start from each point straight towards every target of the other class, as far as the ball allows.

    Parameters
    ----------
    targets : tensor (k, d)
        Points to move to, such as centres of clusters.
    labels : tensor (k,)
        Label of each target, -1 or +1.
    """

    targets: Float[Tensor, "k d"]
    labels: Float[Tensor, " k"]

    def deltas(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], ball: LpBall) -> Float[Tensor, "s n d"]:
        """eps · (target - x)/‖target - x‖, targets of the shorter class repeated."""
        groups = {sign: torch.nonzero(self.labels == -sign)[:, 0] for sign in (1.0, -1.0)}
        count = max(len(g) for g in groups.values())
        choices = torch.zeros(count, len(x), dtype=torch.long)
        for sign, group in groups.items():
            if len(group):
                choices[:, y == sign] = group[torch.arange(count) % len(group)].unsqueeze(1)
        return ball.steepest(self.targets[choices] - x)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "Towards":
        """The same starts for points given as basisᵀ x."""
        return Towards(self.targets @ basis, self.labels)


@dataclass(frozen=True)
class Along:
    """Start from -y times one universal direction, or from each of several, as far as the ball allows.

    Parameters
    ----------
    direction : tensor (d,) or (k, d)
        The direction, or several of them as rows.
    """

    direction: Float[Tensor, "*k d"]

    def deltas(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], ball: LpBall) -> Float[Tensor, "s n d"]:
        """-y · eps · direction/‖direction‖."""
        directions = self.direction.reshape(-1, 1, x.shape[1])  # (s, 1, d)
        return ball.steepest(-y.unsqueeze(1) * directions)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "Along":
        """The same start for points given as basisᵀ x."""
        return Along(self.direction @ basis)


@dataclass(frozen=True)
class AlongEach:
    """Every pair along directions of its own, as far as the ball allows."""

    directions: Float[Tensor, "s m d"]

    def deltas(self, x: Float[Tensor, "m d"], y: Float[Tensor, " m"], ball: LpBall) -> Float[Tensor, "s m d"]:
        """eps · direction/‖direction‖."""
        return ball.steepest(self.directions)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "AlongEach":
        """The same starts for points given as basisᵀ x."""
        return AlongEach(self.directions @ basis)


@dataclass(frozen=True)
class AtRandom:
    """Start from uniform draws in the ball of the full space, projected where the attack works in a span.

    A draw from the r-dimensional ball would move pre-activations √(D/r) times further.

    Parameters
    ----------
    num : int
        Starts of each point.
    generator : torch.Generator
        Source of randomness, see `generator_for`.
    basis : tensor (d, r), optional
        Orthonormal basis of the span in which the attack works.
    """

    num: int
    generator: torch.Generator
    basis: Float[Tensor, "d r"] | None = None

    def deltas(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], ball: LpBall) -> Float[Tensor, "s n d"]:
        """`num` independent draws for every point."""
        dim = x.shape[1] if self.basis is None else self.basis.shape[0]
        unit = LpBall(ball.p, 1.0).sample(self.num * len(x), dim, generator=self.generator, dtype=x.dtype)
        draws = (unit if self.basis is None else unit @ self.basis).reshape(self.num, *x.shape)
        return draws * torch.as_tensor(ball.eps, dtype=x.dtype).unsqueeze(-1)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "AtRandom":
        """The same draws, projected."""
        return AtRandom(self.num, self.generator, basis)


def fan(dim: int) -> Float[Tensor, "s d"]:
    """Unit directions that leave no cone of two or three dimensions out: a circle, or a spiral on the sphere."""
    number = torch.arange(FAN[dim], dtype=torch.float64) + 0.5
    if dim == 2:
        angle = 2 * torch.pi * number / FAN[2]
        return torch.stack([angle.cos(), angle.sin()], dim=1)
    height, angle = 1 - 2 * number / FAN[3], torch.pi * (1 + 5**0.5) * number
    width = (1 - height**2).sqrt()
    return torch.stack([width * angle.cos(), width * angle.sin(), height], dim=1)


def neuron_groups(net: TwoLayerNet, limit: int = 24) -> tuple[Float[Tensor, "k d"], Float[Tensor, " k"]]:
    """Directions of the strongest neurons, near-parallel ones of one sign counted once, with their signs."""
    U, signs = unit_rows(net.W.detach().double()), torch.sign(net.a.detach().double())
    strength = net.a.detach().abs().double() * row_norms(net.W.detach().double())
    chosen: list[int] = []
    for j in strength.argsort(descending=True).tolist():
        if strength[j] == 0 or len(chosen) == limit:
            break
        alike = [i for i in chosen if signs[i] == signs[j]]
        if not alike or float((U[alike] @ U[j]).max()) < SAME_GROUP:
            chosen.append(j)
    return U[chosen], signs[chosen]


def structured_starts(
    net: torch.nn.Module,
    centres: Float[Tensor, "k d"] | None = None,
    labels: Float[Tensor, " k"] | None = None,
) -> tuple[Start, ...]:
    """Starting points that a plain attack would miss.

    They lead towards every centre and group of neurons of the other class, away from every one of the point's class,
    and along the universal directions Σ_k labels_k μ_k of the centres and Σ_j a_j w_j of the neurons.

    Parameters
    ----------
    net : nn.Module
        The network, with one output f(x) for each point.
    centres : tensor (k, d), optional
        Centres of the clusters, where they are known.
    labels : tensor (k,), optional
        Label of each centre, -1 or +1.

    Returns
    -------
    tuple of Start
        Starting points for `pgd` and `minimal_radius`.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthonormal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> net = fp.networks.gaussian_start(10, 50, 0.1, fp.networks.PolynomialReLU(3), generator=fp.generator_for("start", 0))
    >>> len(fp.attacks.structured_starts(net, clusters.mu, clusters.labels)) > 0
    True
    """
    starts: list[Start] = []
    if centres is not None and labels is not None:
        starts += [Towards(centres.double(), labels.double()), Along(labels.double() @ centres.double())]
    if isinstance(net, TwoLayerNet):
        groups, signs = neuron_groups(net)
        if centres is not None and labels is not None:  # a neuron on a centre is the same start once more
            same = (groups @ unit_rows(centres.double()).T) * (
                signs.unsqueeze(1) == labels.double()
            ) > SAME_GROUP
            groups, signs = groups[~same.any(dim=1)], signs[~same.any(dim=1)]
        starts.append(Along((net.a.detach() @ net.W.detach()).double()))
        starts += [Towards(groups, signs), Along(signs.unsqueeze(1) * groups)] if len(groups) else []
    if isinstance(net, HasClassStarts):
        starts.append(Along(net.between_classes()))
    return tuple(starts)
