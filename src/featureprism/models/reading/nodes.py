"""The nodes of a graph that a network is read into: affine maps, an activation, and the function of the scores at the end.

A node maps flat rows (n, size) to flat rows; `matrices` gives an affine one as sparse matrices. Sizes are limited before anything is
allocated: a file may ask for any.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from featureprism.models.activations import Activation

MOST_VALUES = 2**22  # of one node
MOST_TOGETHER = 2**25  # of all nodes of a graph: larger networks are not read
CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


_values_made = ContextVar("_values_made", default=0)  # values of the graph that is being read


class Unreadable(ValueError):  # noqa: N818
    """What cannot be written with the nodes of a graph."""


class TooLarge(Unreadable):
    """What would fill the memory or never end: it is not run either."""


def begin_graph() -> None:
    """Count the values of another graph."""
    _values_made.set(0)


def limited(shape: Sequence[int]) -> int:
    """The size of a shape; what is too large is refused before anything is allocated."""
    size = math.prod(int(length) for length in shape)
    if not 0 < size <= MOST_VALUES:
        raise TooLarge(f"an array of shape {tuple(int(s) for s in shape)[:8]} is empty or too large")
    _values_made.set(_values_made.get() + size)
    if _values_made.get() > MOST_TOGETHER:
        raise TooLarge("its values together are too large")
    return size


@dataclass(frozen=True)
class Windows:
    """Where the windows of a convolution or a pooling lie, axis by axis."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    def __post_init__(self) -> None:
        if min((*self.sizes, *self.strides, *self.dilations)) < 1 or any(min(p) < 0 for p in self.pads):
            raise Unreadable("a window has a length, stride or dilation below 1")

    @classmethod
    def of(cls, sizes: Sequence[int], strides: Any, pads: Any, dilations: Any) -> "Windows":
        """One number stands for all axes, and one pad for both ends of an axis."""
        each = [
            tuple(int(v) for v in np.broadcast_to(np.asarray(part, dtype=np.int64), len(sizes)))
            for part in (sizes, strides, dilations)
        ]
        ends = np.asarray(pads, dtype=np.int64)
        ends = ends if ends.ndim == 2 else np.stack(np.broadcast_arrays(ends, ends), axis=-1)
        ends = tuple((int(a), int(b)) for a, b in np.broadcast_to(ends, (len(sizes), 2)))
        return cls(each[0], each[1], ends, each[2])

    def counts(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """How many windows fit along each axis."""
        limited([length + sum(pad) for length, pad in zip(lengths, self.pads, strict=True)])
        counts = tuple(
            (length + sum(pad) - d * (k - 1) - 1) // s + 1
            for length, k, s, pad, d in zip(
                lengths, self.sizes, self.strides, self.pads, self.dilations, strict=True
            )
        )
        if min(counts) < 1:
            raise Unreadable(f"a window of {self.sizes} does not fit into {tuple(lengths)} values")
        return counts

    def rounded_up(self, lengths: Sequence[int]) -> "Windows":
        """Padded at the ends so that the last window begins inside, as pooling with ceil_mode does."""
        pads = []
        for length, k, s, (a, b), d in zip(
            lengths, self.sizes, self.strides, self.pads, self.dilations, strict=True
        ):
            reach = d * (k - 1) + 1
            count = -(-(length + a + b - reach) // s) + 1
            count -= (count - 1) * s >= length + a
            pads.append((a, max(b, (count - 1) * s + reach - length - a)))
        return Windows(self.sizes, self.strides, tuple(pads), self.dilations)

    def indices(self, shape: Sequence[int]) -> np.ndarray:
        """(channels, places, window): the positions in an array (channels, *lengths) that each window sees, -1 outside of it."""
        index = np.arange(math.prod(shape)).reshape(tuple(shape))
        index = np.pad(index, ((0, 0), *self.pads), constant_values=-1)
        reach = tuple(d * (k - 1) + 1 for k, d in zip(self.sizes, self.dilations, strict=True))
        axes = tuple(range(1, len(shape)))
        seen = np.lib.stride_tricks.sliding_window_view(index, reach, axes)
        steps = (slice(None), *(slice(None, None, s) for s in (*self.strides, *self.dilations)))
        seen = seen[steps]
        return seen.reshape(shape[0], math.prod(seen.shape[1 : len(shape)]), -1)


class Node(ABC):
    """A step from the flat values of its inputs to `size` flat values; abstract."""

    inputs: tuple["Node", ...]
    size: int

    @abstractmethod
    def forward(self, *values: Tensor) -> Tensor:
        """(n, size) from the (n, size) of every input."""


class Affine(Node):
    """A node that is affine in all its inputs together; abstract."""

    @abstractmethod
    def num_entries(self) -> int:
        """How many entries its matrices have that may differ from 0."""

    @abstractmethod
    def matrices(self) -> tuple[sparse.csr_array, ...]:
        """(size, size of the input) for each input."""

    def offset(self) -> np.ndarray:
        """What is added, (size,)."""
        return np.zeros(self.size)


@dataclass(frozen=True, eq=False)
class Input(Node):
    """The coordinates of a point."""

    size: int
    inputs: tuple[Node, ...] = ()

    def forward(self, *values: Tensor) -> Tensor:
        raise AssertionError("the input of a graph is given")


@dataclass(frozen=True, eq=False)
class Dense(Affine):
    """W · + b on every one of `rows` rows of the input."""

    inputs: tuple[Node, ...]
    W: np.ndarray  # (m, h)
    b: np.ndarray  # (m,)
    rows: int

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rows * len(self.W)

    def forward(self, *values: Tensor) -> Tensor:
        z = values[0].reshape(-1, self.W.shape[1]) @ torch.from_numpy(self.W).T + torch.from_numpy(self.b)
        return z.reshape(len(values[0]), self.size)

    def num_entries(self) -> int:
        return self.rows * self.W.size

    def matrices(self) -> tuple[sparse.csr_array, ...]:
        W = sparse.csr_array(self.W)
        return (W if self.rows == 1 else sparse.csr_array(sparse.kron(sparse.eye_array(self.rows), W)),)

    def offset(self) -> np.ndarray:
        return np.tile(self.b, self.rows)


@dataclass(frozen=True, eq=False)
class Conv(Affine):
    """A convolution of an input of shape `shape` = (channels, *lengths) in any number of axes."""

    inputs: tuple[Node, ...]
    shape: tuple[int, ...]
    kernel: np.ndarray  # (out, channels/groups, *sizes)
    bias: np.ndarray  # (out,)
    windows: "Windows"
    groups: int

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.bias) * math.prod(self.windows.counts(self.shape[1:]))

    def forward(self, *values: Tensor) -> Tensor:
        x, w = values[0].reshape(-1, *self.shape), self.windows
        x = F.pad(x, [p for pair in reversed(w.pads) for p in pair])
        kernel, bias = torch.from_numpy(self.kernel), torch.from_numpy(self.bias)
        convolve = CONVOLUTIONS[len(self.shape) - 1]
        return convolve(x, kernel, bias, w.strides, 0, w.dilations, self.groups).flatten(1)

    def num_entries(self) -> int:
        return self.size * math.prod(self.kernel.shape[1:])

    def matrices(self) -> tuple[sparse.csr_array, ...]:
        channels, out = self.shape[0] // self.groups, len(self.bias) // self.groups
        patches = self.windows.indices(self.shape)  # (channels, places, window)
        places = patches.shape[1]
        rows, columns, entries = [], [], []
        for group in range(self.groups):
            part = patches[group * channels : (group + 1) * channels]
            for o in range(group * out, (group + 1) * out):
                weights = self.kernel[o].reshape(channels, 1, -1)
                inside = part >= 0
                row = np.broadcast_to(o * places + np.arange(places)[:, None], part.shape)
                rows.append(row[inside])
                columns.append(part[inside])
                entries.append(np.broadcast_to(weights, part.shape)[inside])
        where = np.concatenate(rows), np.concatenate(columns)
        shape = (self.size, math.prod(self.shape))
        return (sparse.csr_array((np.concatenate(entries), where), shape=shape),)

    def offset(self) -> np.ndarray:
        return np.repeat(self.bias, self.size // len(self.bias))


@dataclass(frozen=True, eq=False)
class Take(Affine):
    """Some of the values of all inputs, one after the other; the index -1 stands for 0."""

    inputs: tuple[Node, ...]
    index: np.ndarray

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.index)

    def forward(self, *values: Tensor) -> Tensor:
        every = torch.cat([*values, values[0].new_zeros(len(values[0]), 1)], dim=1)
        return every[:, torch.from_numpy(self.index)]

    def num_entries(self) -> int:
        return len(self.index)

    def matrices(self) -> tuple[sparse.csr_array, ...]:
        parts, first = [], 0
        for node in self.inputs:
            rows = np.flatnonzero((self.index >= first) & (self.index < first + node.size))
            where = rows, self.index[rows] - first
            parts.append(sparse.csr_array((np.ones(len(rows)), where), shape=(self.size, node.size)))
            first += node.size
        return tuple(parts)


@dataclass(frozen=True, eq=False)
class Scale(Affine):
    """Every value times a factor, plus an offset."""

    inputs: tuple[Node, ...]
    factor: np.ndarray
    shift: np.ndarray

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.factor)

    def forward(self, *values: Tensor) -> Tensor:
        return values[0] * torch.from_numpy(self.factor) + torch.from_numpy(self.shift)

    def num_entries(self) -> int:
        return self.size

    def matrices(self) -> tuple[sparse.csr_array, ...]:
        return (sparse.csr_array(sparse.diags_array(self.factor)),)

    def offset(self) -> np.ndarray:
        return self.shift


@dataclass(frozen=True, eq=False)
class Sum(Affine):
    """The sum of inputs of the same size."""

    inputs: tuple[Node, ...]

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inputs[0].size

    def forward(self, *values: Tensor) -> Tensor:
        return sum(values[1:], start=values[0])

    def num_entries(self) -> int:
        return len(self.inputs) * self.size

    def matrices(self) -> tuple[sparse.csr_array, ...]:
        return (sparse.csr_array(sparse.eye_array(self.size)),) * len(self.inputs)


@dataclass(frozen=True, eq=False)
class Activated(Node):
    """φ of every value."""

    inputs: tuple[Node, ...]
    activation: Activation

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inputs[0].size

    def forward(self, *values: Tensor) -> Tensor:
        return self.activation.value(values[0])


@dataclass(frozen=True, eq=False)
class Tail(Node):
    """A function of the scores that does not change which is largest: Sigmoid, Softmax or LogSoftmax. It drops out at the end."""

    inputs: tuple[Node, ...]
    kind: str

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inputs[0].size

    def forward(self, *values: Tensor) -> Tensor:
        return with_tail(values[0], self.kind)


def with_tail(scores: Tensor, kind: str) -> Tensor:
    """The function of a tail, or the scores themselves."""
    match kind:
        case "Sigmoid":
            return torch.sigmoid(scores)
        case "Tanh":
            return torch.tanh(scores)
        case "Softmax":
            return torch.softmax(scores, dim=-1)
        case "LogSoftmax":
            return torch.log_softmax(scores, dim=-1)
        case _:
            return scores


def ordered(output: Node) -> list[Node]:
    """Every node that the output needs, each after its inputs."""
    order: dict[Node, None] = {}
    waiting = [(output, False)]
    while waiting:
        node, ready = waiting.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
        else:
            waiting.append((node, True))
            waiting.extend((before, False) for before in node.inputs)
    return list(order)


def evaluate(order: Sequence[Node], x: Tensor) -> Tensor:
    """(n, size) of the last node at points (n, d), differentiable."""
    values: dict[Node, Tensor] = {}
    for node in order:
        values[node] = x if isinstance(node, Input) else node.forward(*(values[i] for i in node.inputs))
    return values[order[-1]]


class GraphScores(nn.Module):
    """Scores (n, k) of a graph that is too large for dense layers, or has several activations; of one output f the scores 0 and f."""

    def __init__(self, output: Node) -> None:
        super().__init__()
        self.order = ordered(output)
        self.num_classes = max(output.size, 2)

    @property
    def dim(self) -> int:
        """The number of coordinates of a point."""
        return next(node.size for node in self.order if isinstance(node, Input))

    def forward(self, x: Tensor) -> Tensor:
        """The score of every class."""
        out = evaluate(self.order, x.double())
        return torch.cat([torch.zeros_like(out), out], dim=1) if out.shape[1] == 1 else out
