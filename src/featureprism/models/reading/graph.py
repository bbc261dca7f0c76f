"""A network while it is read: a graph of few kinds of nodes, in which everything that is linear in pieces is written exactly.

A node maps flat rows (n, size) to flat rows. A `Value` is a node seen as an array of a shape, that of a batch of one point:
reshaping costs nothing, and whatever only moves values (transpose, slice, gather, pad, concatenate, repeat) is one `Take`.

    leaky(z) = a z + (1 - a)[z]₊    |z| = -z + 2[z]₊    clip(z) = l + [z - l]₊ - [z - h]₊    max(a, b) = b + [a - b]₊
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from featureprism.models.activations import SMOOTH, Activation, PowerReLU, ReLU, Tanh

MOST_VALUES, MOST_TOGETHER = (
    2**22,
    2**25,
)  # of one node, and of all nodes of a graph: larger networks are not read
CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


_made = ContextVar("_made", default=0)  # values of the graph that is being read


class Unreadable(ValueError):  # noqa: N818
    """What cannot be written with the nodes of a graph."""


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


@dataclass(frozen=True, eq=False)
class Value:
    """The values of a node as an array of a shape."""

    node: Node
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many values."""
        return self.node.size

    @property
    def index(self) -> np.ndarray:
        """The positions of the values, in the shape."""
        return np.arange(self.size).reshape(self.shape)


def start(shape: Sequence[int]) -> Value:
    """The points, each of a shape: a graph begins."""
    _made.set(0)
    return Value(Input(limited(shape)), tuple(shape))


def limited(shape: Sequence[int]) -> int:
    """The size of a shape; what is too large is refused before anything is allocated."""
    size = math.prod(int(length) for length in shape)
    if not 0 < size <= MOST_VALUES:
        raise Unreadable(f"an array of shape {tuple(int(s) for s in shape)[:8]} is empty or too large")
    _made.set(_made.get() + size)
    if _made.get() > MOST_TOGETHER:
        raise Unreadable("its values together are too large")
    return size


def numbers(values: Any) -> np.ndarray:
    """A constant in float64."""
    if isinstance(values, Value):
        raise Unreadable("it multiplies its values with each other")
    array = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise Unreadable("a constant holds no real numbers")
    return np.ascontiguousarray(array, dtype=np.float64)


def take(values: Sequence[Value], index: np.ndarray) -> Value:
    """Values at positions among all values, one after the other; -1 gives 0."""
    limited(index.shape)
    flat, size = np.ascontiguousarray(index, dtype=np.int64).reshape(-1), sum(v.size for v in values)
    if len(flat) == size and np.array_equal(flat, np.arange(size)) and len(values) == 1:
        return Value(values[0].node, index.shape)
    nodes = [v.node for v in values]
    kinds = {n.kind if isinstance(n, Tail) else "" for n in nodes}
    if kinds == {"Sigmoid"}:  # σ acts on each value alone
        inner = take([Value(n.inputs[0], (n.size,)) for n in nodes], index)
        return Value(Tail((inner.node,), "Sigmoid"), index.shape)
    return Value(Take(tuple(map(settled, nodes)), flat), index.shape)


def settled(node: Node) -> Node:
    """More follows: σ(z) = (1 + tanh(z/2))/2 was a hidden layer, a softmax in the middle is not known."""
    if not isinstance(node, Tail):
        return node
    if node.kind != "Sigmoid":
        raise Unreadable(f"layers follow its {node.kind}")
    half = np.full(node.size, 0.5)
    inner = Activated((Scale((node.inputs[0],), half, 0 * half),), Tanh())
    return Scale((inner,), half, half)


def moved(value: Value, move: Callable[[np.ndarray], np.ndarray]) -> Value:
    """The value after something that only moves values, given as a function of arrays."""
    return take([value], move(value.index))


def broadcast(value: Value, shape: Sequence[int]) -> Value:
    """Repeated along axes of length 1."""
    if tuple(shape) == value.shape:
        return value
    limited(shape)
    return moved(value, lambda index: np.broadcast_to(index, shape))


def _common(*shapes: Sequence[int]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(tuple(s) for s in shapes))
    except ValueError as error:
        told = " and ".join(str(tuple(s)) for s in shapes)
        raise Unreadable(f"values of the shapes {told} do not fit together") from error


def scale(value: Value, factor: Any = 1.0, shift: Any = 0.0) -> Value:
    """factor · value + shift, with constants of any shape that fits."""
    s, t = numbers(factor), numbers(shift)
    shape = _common(value.shape, s.shape, t.shape)
    limited(shape)
    value = broadcast(value, shape)
    s, t = (np.ascontiguousarray(np.broadcast_to(c, shape)).reshape(-1) for c in (s, t))
    node = value.node
    if isinstance(node, Tail) and node.kind == "Sigmoid" and bool((s == -1).all() and (t == 1).all()):
        return Value(Tail((Scale(node.inputs, s, 0 * t),), "Sigmoid"), shape)  # 1 - σ(z) = σ(-z)
    return Value(Scale((settled(node),), s, t), shape)


def add(one: Any, other: Any) -> Value:
    """The sum of two values, or of a value and a constant."""
    if not isinstance(one, Value):
        one, other = other, one
    if not isinstance(other, Value):
        return scale(one, 1.0, other)
    shape = _common(one.shape, other.shape)
    nodes = tuple(settled(broadcast(v, shape).node) for v in (one, other))
    return Value(Sum(nodes), shape)


def multiply(one: Any, other: Any) -> Value:
    """A value times a constant; z times σ(z) is SiLU."""
    if isinstance(one, Value) and isinstance(other, Value):
        for z, gate in ((one, other), (other, one)):
            if isinstance(gate.node, Tail) and gate.node.kind == "Sigmoid" and gate.node.inputs[0] is z.node:
                return smooth(z, "silu")
    return scale(one, other) if isinstance(one, Value) else scale(other, one)


def subtract(one: Any, other: Any) -> Value:
    """one - other."""
    if not isinstance(one, Value):
        return scale(other, -1.0, one)
    return add(one, scale(other, -1.0) if isinstance(other, Value) else -numbers(other))


def divide(one: Any, other: Any) -> Value:
    """A value over a constant."""
    if not isinstance(one, Value) or isinstance(other, Value):
        raise Unreadable("it divides by its values")
    with np.errstate(divide="ignore"):  # infinite factors are refused with the finished network
        return scale(one, 1 / numbers(other))


def dense(value: Value, W: Any, b: Any = None) -> Value:
    """W · + b along the last axis, W (m, h)."""
    W = numbers(W)
    if value.shape[-1:] != W.shape[1:]:
        width = value.shape[-1] if value.shape else 1
        raise Unreadable(f"a layer for {W.shape[-1]} values follows {width} values")
    offset = np.zeros(len(W)) if b is None else np.broadcast_to(numbers(b).reshape(-1), len(W)).copy()
    shape = (*value.shape[:-1], len(W))
    limited(shape)
    rows = math.prod(value.shape[:-1])
    return Value(Dense((settled(value.node),), W, offset, rows), shape)


def product(one: Any, other: Any) -> Value:
    """The matrix product of a value with a constant, from either side."""
    if isinstance(one, Value):
        matrix = numbers(other)
        if matrix.ndim > 2 and matrix.size == matrix.shape[-1] * matrix.shape[-2]:
            matrix = matrix.reshape(matrix.shape[-2:])
        if matrix.ndim not in (1, 2):
            raise Unreadable("a product is not of the values with a matrix")
        found = dense(one, matrix.T if matrix.ndim == 2 else matrix[None])
        return found if matrix.ndim == 2 else Value(found.node, found.shape[:-1])
    matrix = numbers(one)
    if matrix.ndim > 2:
        raise Unreadable("a product is not of the values with a matrix")
    rows = np.atleast_2d(matrix)
    if len(other.shape) == 1:
        found = dense(other, rows)
        return found if matrix.ndim == 2 else Value(found.node, ())
    found = dense(moved(other, lambda i: i.swapaxes(-1, -2)), rows)
    found = moved(found, lambda i: i.swapaxes(-1, -2))
    return found if matrix.ndim == 2 else moved(found, lambda i: i[..., 0, :])


def relu(value: Value) -> Value:
    """[z]₊."""
    node = settled(value.node)
    if isinstance(node, Activated) and isinstance(node.activation, ReLU):
        return value  # [[z]₊]₊ = [z]₊
    return Value(Activated((node,), ReLU()), value.shape)


def smooth(value: Value, name: str, approximate: Any = "none") -> Value:
    """tanh, gelu or silu of every value."""
    if approximate not in ("none", b"none"):
        raise Unreadable(f"its GELU is approximated ({approximate})")
    return activated(value, SMOOTH[name])


def tail(value: Value, kind: str, axis: int | None = None) -> Value:
    """Sigmoid of every value, or Softmax or LogSoftmax along the one axis that has several."""
    if kind != "Sigmoid":
        if value.size == 1:
            raise Unreadable(f"the {kind} of a single output is constant")
        length = value.shape[-1 if axis is None else axis]
        if length != value.size:
            raise Unreadable(f"its {kind} is not over the classes")
    return Value(Tail((settled(value.node),), kind), value.shape)


def power(value: Value, exponent: Any) -> Value:
    """[z]₊^p, directly after a ReLU."""
    p = numbers(exponent)
    if p.size != 1:
        raise Unreadable("it takes powers that are not one number")
    p, node = float(p.reshape(())), value.node
    if p == 1:
        return value
    if not (isinstance(node, Activated) and isinstance(node.activation, ReLU)) or not 1 < p < math.inf:
        raise Unreadable(f"the power {p:g} does not follow a ReLU")
    return Value(Activated(node.inputs, PowerReLU(p)), value.shape)


def leaky(value: Value, slope: Any) -> Value:
    """z where it is positive, slope · z where it is negative."""
    a = numbers(slope)
    return add(scale(value, a), scale(relu(value), 1 - a))


def absolute(value: Value) -> Value:
    """|z|."""
    return leaky(value, -1.0)


def clip(value: Value, low: Any = None, high: Any = None) -> Value:
    """Between two constants, or on one side of one."""
    if low is None and high is None:
        return value
    if low is None:
        top = numbers(high)
        return scale(relu(scale(value, -1.0, top)), -1.0, top)
    bottom = numbers(low)
    above = scale(relu(scale(value, 1.0, -bottom)), 1.0, bottom)
    if high is None:
        return above
    top = numbers(high)
    if (top < bottom).any():
        raise Unreadable("it clips to an empty interval")
    return subtract(above, relu(scale(value, 1.0, -top)))


def maximum(one: Any, other: Any) -> Value:
    """The larger of two values, or of a value and a constant."""
    if not isinstance(one, Value):
        one, other = other, one
    if not isinstance(other, Value):
        return clip(one, low=other)
    return add(other, relu(subtract(one, other)))


def minimum(one: Any, other: Any) -> Value:
    """The smaller of the two."""
    return scale(
        maximum(*(scale(v, -1.0) if isinstance(v, Value) else -numbers(v) for v in (one, other))), -1.0
    )


def largest(values: Sequence[Value]) -> Value:
    """The largest of several values, place by place; pairs first, so that the depth is the logarithm of their number."""
    values = list(values)
    while len(values) > 1:
        pairs = [maximum(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


def reduced(value: Value, axes: Any, keep: bool, how: str) -> Value:
    """The sum, mean or max over some axes; over all where none is named."""
    ndim = len(value.shape)
    chosen = range(ndim) if axes is None else np.atleast_1d(axes).tolist()
    over = sorted({int(a) % ndim for a in chosen})
    left = [a for a in range(ndim) if a not in over]
    count = math.prod(value.shape[a] for a in over)
    kept = tuple(value.shape[a] for a in left)
    flat = moved(value, lambda i: i.transpose(*left, *over).reshape(*kept, count))
    if how == "max":
        found = largest([moved(flat, lambda i, j=j: i[..., j]) for j in range(count)])
    else:
        found = dense(flat, np.full((1, count), 1 / count if how == "mean" else 1.0))
    return Value(
        found.node, tuple(1 if a in over else n for a, n in enumerate(value.shape)) if keep else kept
    )


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
        found = tuple(
            (length + sum(pad) - d * (k - 1) - 1) // s + 1
            for length, k, s, pad, d in zip(
                lengths, self.sizes, self.strides, self.pads, self.dilations, strict=True
            )
        )
        if min(found) < 1:
            raise Unreadable(f"a window of {self.sizes} does not fit into {tuple(lengths)} values")
        return found

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


def _image(value: Value, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The leading axes, all of length 1, and the shape (channels, *lengths) of a single image."""
    lead, shape = value.shape[: -axes - 1], value.shape[-axes - 1 :]
    if len(shape) != axes + 1 or math.prod(lead) != 1:
        raise Unreadable(f"values of shape {value.shape} are no image with channels")
    return lead, shape


def convolution(value: Value, kernel: Any, bias: Any, windows: Windows, groups: int = 1) -> Value:
    """The convolution with a kernel (out, channels/groups, *sizes)."""
    kernel = numbers(kernel)
    lead, shape = _image(value, kernel.ndim - 2)
    if kernel.shape[1] * groups != shape[0] or len(kernel) % groups or len(shape) - 1 not in CONVOLUTIONS:
        raise Unreadable(f"a convolution for {kernel.shape[1] * groups} channels follows {shape[0]} channels")
    offset = np.zeros(len(kernel)) if bias is None else numbers(bias).reshape(-1)
    out = (*lead, len(kernel), *windows.counts(shape[1:]))
    limited(out)
    return Value(Conv((settled(value.node),), shape, kernel, offset, windows, groups), out)


def average_pool(value: Value, windows: Windows, *, count_pads: bool, divisor: float | None = None) -> Value:
    """The mean of every window; `count_pads`: whether what lies outside counts as zeros."""
    _, shape = _image(value, len(windows.sizes))
    limited((shape[0], *windows.sizes))
    kernel = np.ones((shape[0], 1, *windows.sizes))
    found = convolution(value, kernel, None, windows, groups=shape[0])
    if divisor is None and not count_pads and any(map(any, windows.pads)):
        inside = (windows.indices((1, *shape[1:])) >= 0).sum(axis=2)
        return scale(found, 1 / np.maximum(inside, 1).reshape(found.shape[-len(shape) + 1 :]))
    return scale(found, 1 / (divisor or math.prod(windows.sizes)))


def max_pool(value: Value, windows: Windows) -> Value:
    """The largest value of every window; a place outside is replaced by one inside, which changes no maximum."""
    lead, shape = _image(value, len(windows.sizes))
    out = (*lead, shape[0], *windows.counts(shape[1:]))
    limited((*out, *windows.sizes))
    seen = windows.indices(shape)  # (channels, places, window)
    inside = seen.max(axis=2, keepdims=True)
    if inside.min() < 0:
        raise Unreadable("a window lies outside of the values")
    seen = np.where(seen < 0, inside, seen)
    return largest([take([value], seen[:, :, j].reshape(out)) for j in range(seen.shape[2])])


def normalise(
    value: Value, mean: Any, variance: Any, eps: float, weight: Any = None, bias: Any = None
) -> Value:
    """Batch normalisation with fixed statistics of every channel, the second axis."""
    axes = (1,) * max(len(value.shape) - 2, 0)
    spread = np.sqrt(numbers(variance) + eps)
    factor = (1.0 if weight is None else numbers(weight)) / spread
    shift = -numbers(mean) * factor + (0.0 if bias is None else numbers(bias))
    return scale(value, *(c.reshape(-1, *axes) for c in (factor, shift)))


def concatenate(parts: Sequence[Any], axis: int) -> Value:
    """Values and constants side by side."""
    limited((sum(p.size for p in parts),))
    arrays, offsets, values, first = [], [], [], 0
    for part in parts:
        if isinstance(part, Value):
            arrays.append(part.index + first)
            offsets.append(np.zeros(part.shape))
            values.append(part)
            first += part.size
        else:
            constant = numbers(part)
            arrays.append(np.full(constant.shape, -1))
            offsets.append(constant)
    index = np.concatenate(arrays, axis=axis)
    found, offset = take(values, index), np.concatenate(offsets, axis=axis)
    return scale(found, 1.0, offset) if offset.any() else found


def activated(value: Value, activation: Activation) -> Value:
    """φ of every value."""
    return Value(Activated((settled(value.node),), activation), value.shape)


def bare(value: Value) -> tuple[Node, str]:
    """The node before a function that does not change which score is largest, and the name of that function."""
    node = value.node
    if isinstance(node, Tail):
        return node.inputs[0], node.kind
    if isinstance(node, Activated) and isinstance(node.activation, Tanh):
        return node.inputs[0], "Tanh"
    return node, ""


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
