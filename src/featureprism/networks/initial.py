"""Where training starts: Gaussian entries, shapes for balanced starts, nudges towards centres."""

from itertools import pairwise
from math import sqrt

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.geometry import row_norms, unit_rows
from featureprism.models.activations import Activation, ReLU
from featureprism.models.one_layer import TwoLayerNet
from featureprism.networks.grouped import GroupedNet
from featureprism.networks.plain import MLP


def gaussian_start(
    width: int, dim: int, std: float, activation: Activation, *, generator: torch.Generator
) -> TwoLayerNet:
    """A network whose entries of W and a are independent N(0, std²), without biases.

    Parameters
    ----------
    width : int
        Neurons.
    dim : int
        Dimension of the points.
    std : float
        Size of the first weights.
    activation : ReLU, PowerReLU, PolynomialReLU or Tanh
        φ.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    TwoLayerNet

    References
    ----------
    gmm-flow, Appendix B.2.

    Examples
    --------
    >>> import featureprism as fp
    >>> net = fp.networks.gaussian_start(8, 50, 1e-3, fp.networks.ReLU(), generator=fp.generator_for("start", 0))
    >>> net.W.shape, net.a.shape
    (torch.Size([8, 50]), torch.Size([8]))
    """
    W = std * torch.randn(width, dim, generator=generator, dtype=torch.float64)
    a = std * torch.randn(width, generator=generator, dtype=torch.float64)
    return TwoLayerNet(W, a, activation=activation)


def biased_start(width: int, dim: int, size: float, *, generator: torch.Generator) -> TwoLayerNet:
    """ReLU neurons with biases, all random: entries of (w_j, b_j) are N(0, size²/(d+1)), |v_j| is that of N(0, size²).

    Signs of v_j alternate, so that both are present at any width; the layers are not balanced.

    Parameters
    ----------
    width : int
        Number of neurons.
    dim : int
        Dimension of the points.
    size : float
        Scale of the weights.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    TwoLayerNet

    References
    ----------
    double-edged, Section 2.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.networks.biased_start(6, 3, 0.1, generator=fp.generator_for('start', 0)).W.shape
    torch.Size([6, 3])
    """
    lifted = size / sqrt(dim + 1) * torch.randn(width, dim + 1, generator=generator, dtype=torch.float64)
    a = size * torch.randn(width, generator=generator, dtype=torch.float64).abs()
    a[1::2] *= -1
    return TwoLayerNet(lifted[:, :-1], a, lifted[:, -1], activation=ReLU())


def voting_start(
    per_class: int, dim: int, std: float, activation: Activation, *, generator: torch.Generator
) -> TwoLayerNet:
    """2m neurons with N(0, std²) weights and biases, and output weights +1/m (the first m) and -1/m.

    Parameters
    ----------
    per_class : int
        Number m of neurons for each label.
    dim : int
        Dimension of the points.
    std : float
        Standard deviation of the initial weights.
    activation : ReLU, PowerReLU, PolynomialReLU or Tanh
        Activation φ of the neurons.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    TwoLayerNet
        Pass fixed=("a",) to `gradient_descent` to keep the output weights.

    References
    ----------
    feature-averaging, Section 3.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.networks.voting_start(2, 3, 0.1, fp.networks.ReLU(), generator=fp.generator_for('start', 0)).a.tolist()
    [0.5, 0.5, -0.5, -0.5]
    """
    W = std * torch.randn(2 * per_class, dim, generator=generator, dtype=torch.float64)
    b = std * torch.randn(2 * per_class, generator=generator, dtype=torch.float64)
    votes = torch.ones(per_class, dtype=torch.float64) / per_class
    return TwoLayerNet(W, torch.cat([votes, -votes]), b, activation=activation)


def unit_votes_start(
    width: int, dim: int, std: float, activation: Activation, *, generator: torch.Generator
) -> TwoLayerNet:
    """Entries of W are N(0, std²), output weights +1/√m for the first half and -1/√m for the second (0 for an odd one), without biases.

    Parameters
    ----------
    width : int
        Number of neurons.
    dim : int
        Dimension of the points.
    std : float
        Standard deviation of the initial weights.
    activation : ReLU, PowerReLU, PolynomialReLU or Tanh
        Activation φ of the neurons.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    TwoLayerNet
        Pass fixed=("a",) to `gradient_descent` to keep the output weights.

    References
    ----------
    feature-amplification, Section 2.2.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.networks.unit_votes_start(4, 3, 0.1, fp.networks.ReLU(), generator=fp.generator_for('start', 0)).a.tolist()
    [0.5, 0.5, -0.5, -0.5]
    """
    W = std * torch.randn(width, dim, generator=generator, dtype=torch.float64)
    a = torch.zeros(width, dtype=torch.float64)
    half = width // 2
    a[:half], a[half : 2 * half] = 1 / sqrt(width), -1 / sqrt(width)
    return TwoLayerNet(W, a, activation=activation)


def grouped_start(
    num_classes: int, per_class: int, dim: int, std: float, *, generator: torch.Generator
) -> GroupedNet:
    """A network with k outputs, each the sum of its neurons, with N(0, std²) entries.

    Parameters
    ----------
    num_classes : int
        Number k of outputs.
    per_class : int
        Neurons of each output.
    dim : int
        Dimension of the points.
    std : float
        Standard deviation of the initial weights.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    GroupedNet

    References
    ----------
    feature-averaging, Section 4.2.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.networks.grouped_start(3, 2, 5, 0.1, generator=fp.generator_for('start', 0))
    >>> net(torch.zeros(4, 5, dtype=torch.float64)).shape
    torch.Size([4, 3])
    """
    shape = (num_classes, per_class, dim)
    return GroupedNet(std * torch.randn(shape, generator=generator, dtype=torch.float64))


def gaussian_mlp(dim: int, width: int, depth: int, gain: float, *, generator: torch.Generator) -> MLP:
    """`depth` layers with entries N(0, gain²/fan-in); gain √2 keeps the scale of a ReLU network."""
    if depth < 2:
        raise ValueError(f"An MLP needs at least 2 layers, got {depth}.")
    sizes = [dim, *[width] * (depth - 1), 1]
    return MLP(
        [
            gain / sqrt(m) * torch.randn(n, m, generator=generator, dtype=torch.float64)
            for m, n in pairwise(sizes)
        ]
    )


def gaussian_shape(width: int, dim: int, *, generator: torch.Generator) -> Float[Tensor, "h d"]:
    """Weights w_j0 with independent N(0, 1) entries, to be scaled by `balanced`.

    Parameters
    ----------
    width : int
        Number of neurons.
    dim : int
        Dimension of the points.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    tensor (h, d)
        Rows of norm about √d.

    References
    ----------
    gmm-flow, Appendix B.1.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.networks.gaussian_shape(4, 3, generator=fp.generator_for('start', 0)).shape
    torch.Size([4, 3])
    """
    return torch.randn(width, dim, generator=generator, dtype=torch.float64)


def random_signs(width: int, *, generator: torch.Generator) -> Float[Tensor, " h"]:
    """±1 with equal probability."""
    return torch.randint(0, 2, (width,), generator=generator).double() * 2 - 1


def nudge_as_printed(
    shape: Float[Tensor, "h d"],
    centres: Float[Tensor, "k d"],
    strength: float,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "h d"]:
    """w_j0 ← w_j0 + δ(μ - w_j0), μ uniform over all centres. Source: gmm-flow, Appendix B.1.

    With entries N(0, 1) the shape has norm √D, so at D = 1000, δ = 0.05 this turns w_j0 by 0.0016.
    """
    target = torch.randint(len(centres), (len(shape),), generator=generator)
    return _towards(shape, centres[target], strength)


def nudge_to_own_class(
    shape: Float[Tensor, "h d"],
    signs: Float[Tensor, " h"],
    centres: Float[Tensor, "k d"],
    labels: Float[Tensor, " k"],
    strength: float,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "h d"]:
    """Turn every neuron a little towards a random centre of its class, keeping its norm.

    With u = w/‖w‖: w ← ‖w‖ v/‖v‖, v = u + δ(μ/‖μ‖ - u).

    Parameters
    ----------
    shape : tensor (h, d)
        Weights of the neurons.
    signs : tensor (h,)
        Signs of their output weights.
    centres : tensor (k, d)
        Centres of the clusters.
    labels : tensor (k,)
        Label of each centre, -1 or +1.
    strength : float
        How far to turn, δ.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    tensor (h, d)
        Weights of the same norms.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> shape = fp.networks.gaussian_shape(4, 50, generator=fp.generator_for('start', 0))
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> signs = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=shape.dtype)
    >>> turned = fp.networks.nudge_to_own_class(shape, signs, clusters.mu, clusters.labels, 0.5, generator=fp.generator_for('nudge', 0))
    >>> torch.allclose(turned.norm(dim=1), shape.norm(dim=1))
    True
    """
    target = own_class_targets(signs, labels, generator=generator)
    turned = unit_rows(_towards(unit_rows(shape), unit_rows(centres)[target], strength))
    return turned * row_norms(shape).unsqueeze(-1)


def own_class_targets(
    signs: Float[Tensor, " h"], labels: Float[Tensor, " k"], *, generator: torch.Generator
) -> Int[Tensor, " h"]:
    """For each neuron a cluster of the class of its sign, dealt out in turn after a shuffle.

    Every cluster gets a neuron as soon as its class has enough of them, as Definition 2 of gmm-flow asks.
    """
    target = torch.zeros(len(signs), dtype=torch.long)
    for sign in (1.0, -1.0):
        neurons, clusters = torch.nonzero(signs == sign)[:, 0], torch.nonzero(labels == sign)[:, 0]
        order = clusters[torch.randperm(len(clusters), generator=generator)]
        target[neurons] = order[torch.arange(len(neurons)) % len(order)]
    return target


def _towards(shape: Tensor, goal: Tensor, strength: float) -> Tensor:
    if not 0 <= strength <= 1:
        raise ValueError(f"The nudge must be between 0 and 1, got {strength}.")
    return shape + strength * (goal - shape)
