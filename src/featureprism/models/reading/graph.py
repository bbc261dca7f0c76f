"""A network while it is read: operations on values, in which everything that is linear in pieces is written exactly.

A `Value` is a node seen as an array of a shape, that of a batch of one point: reshaping costs nothing, and whatever only moves values
(transpose, slice, gather, pad, concatenate, repeat) is one `Take`.

    leaky(z) = a z + (1 - a)[z]₊    |z| = -z + 2[z]₊    clip(z) = l + [z - l]₊ - [z - h]₊    max(a, b) = b + [a - b]₊
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from featureprism.models.activations import SMOOTH, Activation, PowerReLU, ReLU, Tanh
from featureprism.models.reading.nodes import (
    CONVOLUTIONS,
    Activated,
    Conv,
    Dense,
    Input,
    Node,
    Scale,
    Sum,
    Tail,
    Take,
    Unreadable,
    Windows,
    begin_graph,
    limited,
)


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
    begin_graph()
    return Value(Input(limited(shape)), tuple(shape))


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
        names = " and ".join(str(tuple(s)) for s in shapes)
        raise Unreadable(f"values of the shapes {names} do not fit together") from error


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
        result = dense(one, matrix.T if matrix.ndim == 2 else matrix[None])
        return result if matrix.ndim == 2 else Value(result.node, result.shape[:-1])
    matrix = numbers(one)
    if matrix.ndim > 2:
        raise Unreadable("a product is not of the values with a matrix")
    rows = np.atleast_2d(matrix)
    if len(other.shape) == 1:
        result = dense(other, rows)
        return result if matrix.ndim == 2 else Value(result.node, ())
    result = dense(moved(other, lambda i: i.swapaxes(-1, -2)), rows)
    result = moved(result, lambda i: i.swapaxes(-1, -2))
    return result if matrix.ndim == 2 else moved(result, lambda i: i[..., 0, :])


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
        result = largest([moved(flat, lambda i, j=j: i[..., j]) for j in range(count)])
    else:
        result = dense(flat, np.full((1, count), 1 / count if how == "mean" else 1.0))
    return Value(
        result.node, tuple(1 if a in over else n for a, n in enumerate(value.shape)) if keep else kept
    )


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
    sums = convolution(value, kernel, None, windows, groups=shape[0])
    if divisor is None and not count_pads and any(map(any, windows.pads)):
        inside = (windows.indices((1, *shape[1:])) >= 0).sum(axis=2)
        return scale(sums, 1 / np.maximum(inside, 1).reshape(sums.shape[-len(shape) + 1 :]))
    return scale(sums, 1 / (divisor or math.prod(windows.sizes)))


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
    values_only, offset = take(values, index), np.concatenate(offsets, axis=axis)
    return scale(values_only, 1.0, offset) if offset.any() else values_only


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
