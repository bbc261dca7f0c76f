"""A network while it is being read: finished hidden layers, then the affine map of the last of them that is still growing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from featureprism.networks.activations import Activation, PowerReLU, ReLU, Tanh
from featureprism.networks.scores import LayeredScores, LinearScores, ScoreNet, scores_of
from featureprism.records import LARGEST


class Unreadable(ValueError):  # noqa: N818
    """What cannot be part of a chain of affine maps and one activation."""


def _one() -> Tensor:
    return torch.tensor(1.0, dtype=torch.float64)


def _zero() -> Tensor:
    return torch.tensor(0.0, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Chain:
    """Wφ(…) + b. W is a matrix (m, h), a diagonal (h,) or a number, b a vector or a number: sizes may still be unknown.

    `tail`: a function of the scores that was seen last and does not change which is largest; it drops out where it ends the network.
    """

    W: Tensor = field(default_factory=_one)
    b: Tensor = field(default_factory=_zero)
    layers: tuple[tuple[Tensor, Tensor], ...] = ()
    activation: Activation | None = None
    tail: str = ""

    @property
    def width(self) -> int | None:
        """How many values there are by now; None where no layer has said it."""
        if self.W.ndim:
            return len(self.W)
        if self.b.ndim:
            return len(self.b)
        return (
            replace(self, W=self.layers[-1][0], b=self.layers[-1][1], layers=()).width
            if self.layers
            else None
        )

    def affine(self, V: Tensor, c: Tensor | None = None) -> "Chain":
        """V · + c, V (m, h)."""
        self, V = self._settled(), V.detach().double()
        self._fits(V.shape[1])
        b = V @ self.b if self.b.ndim else V.sum(dim=1) * self.b
        W = V @ self.W if self.W.ndim == 2 else V * self.W
        return replace(self, W=W, b=b if c is None else b + self._row(c, len(V)))

    def scale(self, factor: Tensor | float) -> "Chain":
        """Each value times its factor, or all times one."""
        self = self._settled()
        s = self._row(factor, self.width)
        if s.ndim:
            self._fits(len(s))
        return replace(
            self, W=s.unsqueeze(-1) * self.W if s.ndim and self.W.ndim == 2 else s * self.W, b=s * self.b
        )

    def shift(self, offset: Tensor | float) -> "Chain":
        """Each value plus its offset, or all plus one."""
        self = self._settled()
        t = self._row(offset, self.width)
        if t.ndim:
            self._fits(len(t))
        return replace(self, b=self.b + t)

    def activate(self, activation: Activation) -> "Chain":
        """φ of every value: a hidden layer is finished."""
        self = self._settled()
        if isinstance(activation, ReLU) and self._is_bare_relu():
            return self  # [[z]₊]₊ = [z]₊
        if self.activation not in (None, activation):
            raise Unreadable(f"it mixes the activations {_name(self.activation)} and {_name(activation)}")
        return Chain(layers=(*self.layers, (self.W, self.b)), activation=activation)

    def power(self, p: float) -> "Chain":
        """[z]₊^p, directly after the only ReLU."""
        self = self._settled()
        if p == 1:
            return self
        if not self._is_bare_relu() or len(self.layers) != 1 or not 1 < p < float("inf"):
            raise Unreadable(f"the power {p:g} does not follow the ReLU of a single hidden layer")
        return replace(self, activation=PowerReLU(float(p)))

    def end(self, tail: str) -> "Chain":
        """Sigmoid, Tanh, Softmax or LogSoftmax of the scores: the decision is the same, unless more layers follow."""
        self = self._settled()
        if "Softmax" in tail and self.width == 1:
            raise Unreadable(f"the {tail} of a single output is constant")
        return replace(self, tail=tail)

    def complement(self) -> "Chain":
        """1 - σ(z) = σ(-z)."""
        assert self.tail == "Sigmoid"
        return replace(replace(self, tail="").scale(-1.0), tail="Sigmoid")

    def _settled(self) -> "Chain":
        """More follows: tanh, or σ(z) = (1 + tanh(z/2))/2, was a hidden layer; a softmax in the middle is not known."""
        bare = replace(self, tail="") if self.tail else self
        match self.tail:
            case "":
                return bare
            case "Tanh":
                return bare.activate(Tanh())
            case "Sigmoid":
                return bare.scale(0.5).activate(Tanh()).scale(0.5).shift(0.5)
            case tail:
                raise Unreadable(f"layers follow its {tail}")

    def _is_bare_relu(self) -> bool:
        untouched = self.W.ndim == 0 and self.b.ndim == 0 and float(self.W) == 1 and float(self.b) == 0
        return untouched and isinstance(self.activation, ReLU)

    def _fits(self, size: int) -> None:
        if self.width not in (None, size):
            raise Unreadable(f"a layer for {size} values follows {self.width} values")

    def _row(self, values: Tensor | float, width: int | None) -> Tensor:
        """A number or a vector, from a number or a tensor of shape (), (1,), (h,), (1, h)."""
        v = torch.as_tensor(values, dtype=torch.float64).detach()
        if v.numel() == 1 and (v.ndim == 0 or width != 1):
            return v.reshape(())
        if v.ndim > 2 or v.numel() != v.shape[-1]:
            raise Unreadable(f"a constant of shape {tuple(v.shape)} is not one number per value")
        return v.reshape(-1)

    def network(self, dim: int | None = None) -> LinearScores | ScoreNet | LayeredScores:
        """The network that was read; a tail drops out. `dim`: the size of the input, where it is known."""
        maps = [*self.layers, (self.W, self.b)]
        widths = _widths(maps, dim)
        weights, biases = [], []
        for (W, b), size, into in zip(maps, widths[1:], widths[:-1], strict=True):
            weights.append(W if W.ndim == 2 else torch.diag(W.expand(into)))
            biases.append(b.expand(size))
        largest = max(float(t.abs().max()) for t in (*weights, *biases))
        if LARGEST < largest < float("inf"):
            raise ValueError(
                f"It has weights up to {largest:.3g}, which overflow when squared; scale them down."
            )
        if len(weights) > 2 and isinstance(self.activation, PowerReLU):
            raise Unreadable("several hidden layers are known with ReLU or tanh only")
        net = scores_of(weights, biases, self.activation or ReLU())
        return net.requires_grad_(False).eval()


def joined(parts: Sequence[Chain]) -> Chain:
    """The values of several chains on the same hidden layers, side by side."""
    first = parts[0]
    same = all(p.layers is first.layers and p.tail == first.tail and p.W.ndim == 2 for p in parts)
    if not same:
        raise Unreadable("it joins branches")
    W = torch.cat([p.W for p in parts])
    return replace(first, W=W, b=torch.cat([p.b.expand(len(p.W)) for p in parts]))


def _widths(maps: Sequence[tuple[Tensor, Tensor]], dim: int | None) -> list[int]:
    """Sizes between the maps, the input's first; maps that are no matrices keep the size."""
    widths: list[int | None] = [None] * (len(maps) + 1)
    for i, (W, b) in enumerate(maps):
        if W.ndim == 2:
            widths[i], widths[i + 1] = W.shape[1], W.shape[0]
        elif W.ndim or b.ndim:
            widths[i] = widths[i + 1] = max(W.numel(), b.numel())
    for i in reversed(range(len(maps))):
        widths[i] = widths[i] or widths[i + 1]
    widths[0] = widths[0] or dim
    for i in range(len(maps)):
        widths[i + 1] = widths[i + 1] or widths[i]
    known = [w for w in widths if w is not None]
    if len(known) < len(widths):
        raise Unreadable("no layer says how many inputs it takes")
    return known


def _name(activation: Activation | None) -> str:
    return type(activation).__name__
