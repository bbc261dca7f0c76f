"""The grouped multi-class network, and the two-class classifier one reads off it."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.geometry import row_norms, unit_rows
from featureprism.models.activations import ReLU, relu_power
from featureprism.models.model import Model, as_model, plain
from featureprism.models.one_layer import TwoLayerNet
from featureprism.models.scores import ScoreNet


class GroupedNet(nn.Module):
    """f_j(x) = (1/h) Σ_r [⟨w_{j,r}, x⟩]₊, one group of h neurons for each of k classes; no biases, second layer fixed.

    W (k, h, d), or a stack (s, k, h, d) whose outputs are (s, n, k). Source: feature-averaging, Section 4.2.
    """

    W: Tensor

    def __init__(self, W: Float[Tensor, "*s k h d"]) -> None:
        super().__init__()
        if W.ndim not in (3, 4) or not bool(torch.isfinite(W).all()):
            raise ValueError(f"Need finite weights (k, h, d) or (s, k, h, d), got {tuple(W.shape)}.")
        self.W = nn.Parameter(W.detach().clone())

    def __getitem__(self, index: int) -> "GroupedNet":
        return GroupedNet(self.W[index])

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "*s n k"]:
        """The k logits of every point."""
        return group_means((x @ self.W.flatten(-3, -2).mT).unflatten(-1, self.W.shape[-3:-1]))

    def equivalent_weights(self) -> Float[Tensor, "*s k d"]:
        """(1/h) Σ_r w_{j,r}: what the paper compares with the features for h > 1."""
        return self.W.detach().mean(dim=-2)


def group_means(z: Float[Tensor, "*n k h"]) -> Float[Tensor, "*n k"]:
    """Logits from pre-activations: the mean of [z]₊ over each group."""
    return relu_power(z, 1).mean(dim=-1)


READOUTS = ("log-sum-exp", "max")
FAR = 1e3  # times the longest point, or the length at which a logit is 1


class BinaryReadout(nn.Module):
    """Two classes from a network with one output for each cluster: f(x) = LSE_{j ∈ J₊} f_j(x) - LSE_{j ∈ J₋} f_j(x).

    It has the sign of Σ_{J₊} p_j - Σ_{J₋} p_j and is a difference of convex functions of x. For summed logits see `summed_readout`.

    Parameters
    ----------
    net : GroupedNet
        A network with one output for each cluster.
    labels : tensor (k,)
        Label of each centre, -1 or +1.
    kind : str
        "log-sum-exp", or "max" for maxima instead.

    References
    ----------
    feature-averaging, Section 4.2.
    """

    labels: Tensor

    def __init__(self, net: GroupedNet, labels: Float[Tensor, " k"], kind: str = "log-sum-exp") -> None:
        super().__init__()
        if labels.shape != net.W.shape[:1] or not bool((labels.abs() == 1).all()):
            raise ValueError(f"Need a label -1 or +1 for each of the {net.W.shape[0]} classes.")
        if bool((labels == labels[0]).all()):
            raise ValueError("Both labels must occur among the classes.")
        if kind not in READOUTS:
            raise ValueError(f"Unknown read-out {kind!r}; choose one of {', '.join(READOUTS)}.")
        self.net, self.kind = net, kind
        self.register_buffer("labels", labels.detach().clone())

    def _mean_of(self, logits: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """LSE (or the largest) over the chosen classes of each point, and its gradient in the logits."""
        masked = logits.masked_fill(~chosen, -torch.inf)
        if self.kind == "max":
            largest, at = masked.max(dim=-1)
            return largest, nn.functional.one_hot(at, logits.shape[-1]).to(logits.dtype)
        return masked.logsumexp(dim=-1), masked.softmax(dim=-1)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The difference of the two log-sum-exps, or of the two maxima."""
        logits, positive = self.net(x), self.labels > 0
        return self._mean_of(logits, positive)[0] - self._mean_of(logits, ~positive)[0]

    @torch.no_grad()
    def convex_parts(
        self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"], Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """P, ∇P, N, ∇N of y f = P - N: the log-sum-exps of the own and of the other classes."""
        k, h, d = self.net.W.shape
        z = x @ self.net.W.reshape(k * h, d).T
        logits, slope = group_means(z.unflatten(-1, (k, h))), relu_power(z, 0).unflatten(-1, (k, h)) / h
        own = self.labels == y.unsqueeze(1)
        parts = []
        for chosen in (own, ~own):
            value, weight = self._mean_of(logits, chosen)
            parts += [value, (weight.unsqueeze(-1) * slope).flatten(1) @ self.net.W.reshape(k * h, d)]
        return parts[0], parts[1], parts[2], parts[3]

    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """f(x) and ∇f(x)."""
        P, slope_P, N, slope_N = self.convex_parts(x, torch.ones(len(x), dtype=x.dtype))
        return P - N, slope_P - slope_N

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.net.W.detach().flatten(0, 1)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "BinaryReadout":
        """The same function of z = basisᵀ x, exact when the basis spans the rows of W."""
        return BinaryReadout(GroupedNet(self.net.W.detach().to(basis.dtype) @ basis), self.labels, self.kind)

    def between_classes(self, limit: int = 64) -> Float[Tensor, "k d"]:
        """Unit directions u_j - u_l from every negative class l to every positive class j, the first `limit` of them."""
        U = unit_rows(self.net.equivalent_weights().double())
        pairs = U[self.labels > 0].unsqueeze(1) - U[self.labels < 0].unsqueeze(0)
        return pairs.reshape(-1, U.shape[1])[:limit]

    @torch.no_grad()
    def far_in_targets(
        self, z: Float[Tensor, "n d"], y: Float[Tensor, " n"], limit: int
    ) -> Float[Tensor, "s n d"]:
        """Perturbations so far along the weights u_l of target classes that N is about the logit of that class alone.

        There N's tangent is f_l ≤ N, and the first convex-concave step finds the shortest flip that class l makes; of many classes
        those whose linear estimate (P - f_l)/‖∇P - u_l‖ at the point is least.
        """
        V, logits = self.net.equivalent_weights().to(z.dtype), self.net(z)
        P, slope, _, _ = self.convex_parts(z, y)
        away = slope.unsqueeze(1) - V  # (n, k, d)
        estimate = (P.unsqueeze(1) - logits) / row_norms(away.flatten(0, 1)).clamp_min(1e-300).reshape(
            logits.shape
        )
        estimate = torch.where(self.labels != y.unsqueeze(1), estimate, torch.inf)
        num_targets = int((self.labels > 0).sum()), int((self.labels < 0).sum())
        count = min(limit, *num_targets)  # the same for both labels
        nearest = estimate.argsort(dim=1)[:, :count].T  # (s, n)
        far = FAR * row_norms(z) + FAR / row_norms(V).clamp_min(1e-300).min()
        return far.unsqueeze(1) * unit_rows(V)[nearest]

    def proof_methods(self) -> tuple[Any, ...]:
        """A Lipschitz bound, then boxes of class scores."""
        from featureprism.networks.readout_proofs import Readout

        return (Readout(),)


def summed_readout(net: GroupedNet, labels: Float[Tensor, " k"]) -> TwoLayerNet:
    """f(x) = Σ_{j ∈ J₊} f_j(x) - Σ_{j ∈ J₋} f_j(x): logits summed instead of probabilities, which is a two-layer network."""
    k, h, d = net.W.shape
    votes = labels.to(net.W.dtype).repeat_interleave(h) / h
    return TwoLayerNet(net.W.detach().reshape(k * h, d), votes, activation=ReLU())


@as_model.register
def _(net: GroupedNet) -> Model | None:
    if net.W.ndim > 3:
        raise ValueError(f"A stack of {len(net.W)} networks was given; choose one, as net[0].")
    k, h, _ = net.W.shape
    votes = torch.eye(k, dtype=net.W.dtype).repeat_interleave(h, dim=0) / h
    return as_model(ScoreNet(net.W.detach().flatten(0, 1), votes, activation=ReLU()))


@as_model.register
def _(net: BinaryReadout) -> Model:
    return Model(plain(net), has_one_output=True)
