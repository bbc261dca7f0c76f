"""Networks written down instead of trained: the constructions of feature-averaging and double-edged."""

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.models.activations import ReLU
from featureprism.models.one_layer import TwoLayerNet
from featureprism.networks.grouped import GroupedNet


def averaging_classifier(mu: Float[Tensor, "k d"], labels: Float[Tensor, " k"]) -> TwoLayerNet:
    """The network that averages the features of each class: f_FA(x) = [⟨Σ_{J₊} μ_j, x⟩]₊ - [⟨Σ_{J₋} μ_j, x⟩]₊.

    A point of label + breaks at min(u/√(|J₊| d), (u - v)/√(k d)), u and v being the two inner products: about √(d/k).

    Parameters
    ----------
    mu : tensor (k, d)
        Centres of the clusters.
    labels : tensor (k,)
        Label of each centre, -1 or +1.

    Returns
    -------
    TwoLayerNet
        Two neurons.

    References
    ----------
    feature-averaging, Definition 4.1.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> net = fp.networks.averaging_classifier(clusters.mu, clusters.labels)
    >>> net.W.shape
    torch.Size([2, 50])
    """
    sums = torch.stack([mu[labels > 0].sum(dim=0), mu[labels < 0].sum(dim=0)])
    return TwoLayerNet(sums, torch.tensor([1.0, -1.0], dtype=mu.dtype), activation=ReLU())


def decoupled_classifier(mu: Float[Tensor, "k d"], labels: Float[Tensor, " k"]) -> TwoLayerNet:
    """The network that keeps the clusters apart: f_dec(x) = Σ_j y_j [⟨μ_j, x⟩ - ‖μ_j‖²/2]₊.

    Parameters
    ----------
    mu : tensor (k, d)
        Centres of the clusters.
    labels : tensor (k,)
        Label of each centre, -1 or +1.

    Returns
    -------
    TwoLayerNet
        One neuron for each cluster.

    References
    ----------
    feature-averaging, Theorem D.3 (b = -d/2).

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> net = fp.networks.decoupled_classifier(clusters.mu, clusters.labels)
    >>> net.W.shape
    torch.Size([4, 50])
    """
    return TwoLayerNet(mu, labels.to(mu.dtype), -(mu**2).sum(dim=1) / 2, activation=ReLU())


def robust_margin_classifier(
    mu: Float[Tensor, "k d"], labels: Float[Tensor, " k"], dim: int | None = None
) -> TwoLayerNet:
    """N(x) = Σ_q y_q [4⟨μ_q, x⟩/d - 2]₊: it has margin 1 and is robust up to √d/8, but descent does not find it.

    For means of norm √d it is 4/d times `decoupled_classifier`; on orthogonal means it breaks at √d/2.

    Parameters
    ----------
    mu : tensor (k, d)
        Centres of the clusters.
    labels : tensor (k,)
        Label of each centre, -1 or +1.
    dim : int, optional
        The dimension d where the means are given in fewer coordinates.

    Returns
    -------
    TwoLayerNet
        One neuron for each cluster.

    References
    ----------
    double-edged, Theorem 4.1.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> net = fp.networks.robust_margin_classifier(clusters.mu, clusters.labels)
    >>> [round(value, 6) for value in net(clusters.mu).tolist()]
    [2.0, 2.0, -2.0, -2.0]
    """
    votes = labels.to(mu.dtype)
    return TwoLayerNet(4 * mu / (dim or mu.shape[1]), votes, torch.full_like(votes, -2.0), activation=ReLU())


def shared_features_net(mu: Float[Tensor, "k d"], labels: Float[Tensor, " k"]) -> GroupedNet:
    """k classes, h = 1, w_j = μ_j + Σ_{l of the class of j} μ_l: fine labels fitted perfectly, features still averaged.

    Clean accuracy 1 and cross-entropy 0 in floating point, yet the two-class read-out breaks near 2√(d/(k+6)). Source:
    feature-averaging, Proposition 4.8 (fine labels alone do not force decoupling; descent does).
    """
    same = (labels.unsqueeze(1) == labels).to(mu.dtype)
    return GroupedNet((mu + same @ mu).unsqueeze(1))
