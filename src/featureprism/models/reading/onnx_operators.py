"""The operators of ONNX: those that only move values, those of constants, and those that follow the points.

Sizes and time are limited before anything is computed. What is not known becomes `Unknown`, an error only where the decision needs it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from featureprism.models.reading import graph
from featureprism.models.reading.graph import Value
from featureprism.models.reading.nodes import Tail, TooLarge, Unreadable, Windows, limited

MOST_CONSTANTS = 2**23  # numbers that are computed beside those that the file holds
MOST_SECONDS = 5.0  # of processor time
FLOATS = (1, 10, 11, 16)  # TensorProto: float32, float16, float64, bfloat16
DOMAINS = ("", "ai.onnx", "ai.onnx.ml")


@dataclass(frozen=True, eq=False)
class Label:
    """The position of the largest score, or its label."""

    value: Value
    classes: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Named:
    """Scores beside the labels they are for."""

    value: Value
    classes: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Unknown:
    """What an operator gives that is not known: an error only where the decision needs it."""

    error: Unreadable


Traced = Value | Label | Named | Unknown


@dataclass
class Allowance:
    """What may still be computed of a file."""

    numbers: int = MOST_CONSTANTS
    deadline: float = field(default_factory=lambda: time.thread_time() + MOST_SECONDS)

    def spend(self, shape: Sequence[int]) -> None:
        """Ask before an array of a shape is made."""
        self.numbers -= limited(shape) if 0 not in tuple(shape) else 0
        if self.numbers < 0:
            raise TooLarge("its constants are too large")
        if time.thread_time() > self.deadline:
            raise TooLarge(f"it takes longer than {MOST_SECONDS:.0f} seconds")


def result(node: Any, inputs: list[Any], attributes: dict[str, Any], allowance: Allowance) -> tuple[Any, ...]:
    """What an operator makes of traced values; what depends on no points is computed."""
    if unknown := next((v for v in inputs if isinstance(v, Unknown)), None):
        return (unknown,) * len(node.output)
    kind = node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"
    attributes |= {"outputs": len(node.output)} if kind == "Split" else {}
    try:
        allowance.spend(())
        if not any(isinstance(v, Traced) for v in inputs):
            step = CONSTANTS.get(kind) or MOVES.get(kind)
            with np.errstate(all="ignore"):  # what is not finite is refused with the finished network
                results = step and step(allowance, *inputs, **attributes)
        elif kind in MOVES:
            results = _moved(MOVES[kind], allowance, inputs, attributes)
        else:
            step = OPERATORS.get(kind)
            results = step and step(*inputs, **attributes)
    except Unreadable as error:
        results = Unknown(type(error)(f"{error} ({kind})"))
    except Exception:  # an operator on arguments that it does not take
        results = Unknown(Unreadable(f"the operator {kind} is used in a way that is not known"))
    if results is None:
        results = Unknown(Unreadable(f"the operator {kind} is not known"))
    return (
        results
        if isinstance(results, tuple)
        else (results,) * (len(node.output) if isinstance(results, Unknown) else 1)
    )


def _moved(
    move: Callable[..., Any], allowance: Allowance, inputs: list[Any], attributes: dict[str, Any]
) -> Any:
    """Something that only moves values, done with their positions."""
    value = inputs[0]
    if isinstance(value, Label | Named):
        return value
    if not isinstance(value, Value) or any(isinstance(v, Traced) for v in inputs[1:]):
        raise Unreadable("it picks values by values")
    index = move(allowance, value.index, *inputs[1:], **attributes)
    if isinstance(index, tuple):
        return tuple(graph.take([value], part) for part in index)
    return graph.take([value], index)


# What only moves values, of constants and of positions alike ----------------------------------------------------------------------


def _whole(values: Any) -> list[int]:
    return [int(v) for v in np.atleast_1d(np.asarray(values)).ravel()]


def _transpose(_: Allowance, a: np.ndarray, *, perm: Any = None) -> np.ndarray:
    return a.transpose(perm)


def _reshape(_: Allowance, a: np.ndarray, shape: Any, *, allowzero: int = 0) -> np.ndarray:
    wanted = _whole(shape)
    return a.reshape([a.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(wanted)])


def _flatten(_: Allowance, a: np.ndarray, *, axis: int = 1) -> np.ndarray:
    axis = axis + a.ndim if axis < 0 else axis
    return a.reshape(int(np.prod(a.shape[:axis])), -1)


def _squeeze(_: Allowance, a: np.ndarray, axes: Any = None) -> np.ndarray:
    return a.squeeze() if axes is None else a.squeeze(tuple(_whole(axes)))


def _unsqueeze(_: Allowance, a: np.ndarray, axes: Any) -> np.ndarray:
    return np.expand_dims(a, tuple(_whole(axes)))


def _slice(
    _: Allowance, a: np.ndarray, starts: Any, ends: Any, axes: Any = None, steps: Any = None
) -> np.ndarray:
    starts, ends = _whole(starts), _whole(ends)
    axes = range(len(starts)) if axes is None else _whole(axes)
    steps = [1] * len(starts) if steps is None else _whole(steps)
    parts = [slice(None)] * a.ndim
    for axis, first, last, step in zip(axes, starts, ends, steps, strict=True):
        last = None if step < 0 and last < -a.shape[axis] else last
        parts[axis] = slice(first, last, step)
    return a[tuple(parts)]


def _gather(allowance: Allowance, a: np.ndarray, indices: Any, *, axis: int = 0) -> np.ndarray:
    where = np.asarray(indices)
    allowance.spend((a.size // a.shape[axis], max(where.size, 1)))
    return np.asarray(np.take(a, where.astype(np.int64), axis=axis))


def _expand(allowance: Allowance, a: np.ndarray, shape: Any) -> np.ndarray:
    wanted = np.broadcast_shapes(a.shape, tuple(_whole(shape)))
    allowance.spend(wanted)
    return np.broadcast_to(a, wanted)


def _tile(allowance: Allowance, a: np.ndarray, repeats: Any) -> np.ndarray:
    times = _whole(repeats)
    allowance.spend([n * r for n, r in zip(a.shape, times, strict=True)])
    return np.tile(a, times)


def _split(
    _: Allowance, a: np.ndarray, split: Any = None, *, axis: int = 0, num_outputs: int = 0, outputs: int
) -> tuple[np.ndarray, ...]:
    count = num_outputs or outputs
    size = -(-a.shape[axis] // count)
    sizes = [size] * (count - 1) if split is None else _whole(split)[:-1]
    return tuple(np.split(a, np.cumsum(sizes), axis=axis))


def _depth_to_space(_: Allowance, a: np.ndarray, *, blocksize: int, mode: bytes = b"DCR") -> np.ndarray:
    n, c, h, w = a.shape
    b = blocksize
    if mode == b"DCR":
        parts = a.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = a.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // b**2, h * b, w * b)


MOVES: dict[str, Callable[..., Any]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Gather": _gather,
    "Expand": _expand,
    "Tile": _tile,
    "Split": _split,
    "DepthToSpace": _depth_to_space,
    "Identity": lambda _, a: a,
}


# What depends on no points ----------------------------------------------------------------------------------------------------------


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def step(allowance: Allowance, *arrays: Any) -> np.ndarray:
        allowance.spend(np.broadcast_shapes(*(np.shape(a) for a in arrays)))
        return np.asarray(function(*arrays))

    return step


def _constant(_: Allowance, **attributes: Any) -> np.ndarray:
    from onnx import numpy_helper

    (name, value), *_more = attributes.items()
    if name == "value":
        return numpy_helper.to_array(value)
    if name not in ("value_float", "value_floats", "value_int", "value_ints"):
        raise Unreadable("a constant holds no real numbers")
    return np.asarray(value)


def _constant_of_shape(allowance: Allowance, shape: Any, *, value: Any = None) -> np.ndarray:
    from onnx import numpy_helper

    allowance.spend(_whole(shape))
    fill = np.float32(0) if value is None else numpy_helper.to_array(value).reshape(())
    return np.full(_whole(shape), fill)


def _joined(allowance: Allowance, *arrays: Any, axis: int) -> np.ndarray:
    allowance.spend((sum(np.size(a) for a in arrays),))
    return np.concatenate(arrays, axis=axis)


def _cast_constant(allowance: Allowance, a: Any, *, to: int, **_: Any) -> np.ndarray:
    from onnx import helper

    allowance.spend(np.shape(a))
    return np.asarray(a).astype(helper.tensor_dtype_to_np_dtype(to))


def _range(allowance: Allowance, first: Any, last: Any, step: Any) -> np.ndarray:
    first, last, step = (np.asarray(v).reshape(()) for v in (first, last, step))
    allowance.spend((max(int((last - first) / step) + 1, 1),))
    return np.arange(first, last, step)


def _folded_product(allowance: Allowance, a: Any, b: Any) -> np.ndarray:
    allowance.spend((*a.shape[:-1], *b.shape[:-2], b.shape[-1]))
    if a.size * b.shape[-1] > 100 * MOST_CONSTANTS:
        raise TooLarge("its constants are too large")
    return a @ b


def _remainder(allowance: Allowance, a: Any, b: Any, *, fmod: int = 0) -> np.ndarray:
    return _elementwise(np.fmod if fmod else np.mod)(allowance, a, b)


CONSTANTS: dict[str, Callable[..., Any]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Concat": _joined,
    "Cast": _cast_constant,
    "Range": _range,
    "MatMul": _folded_product,
    "Shape": lambda _, a, start=0, end=None: np.array(np.shape(a))[start:end],
    "Size": lambda _, a: np.asarray(np.size(a)),
    "Mod": _remainder,
    "Dropout": lambda _, a, *__, **___: a,
    **{
        name: _elementwise(function)
        for name, function in {
            "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Sqrt": np.sqrt, "Abs": np.abs,
            "Reciprocal": np.reciprocal, "Exp": np.exp, "Log": np.log, "Floor": np.floor, "Ceil": np.ceil, "Pow": np.power,
            "Max": np.maximum, "Min": np.minimum, "Equal": np.equal, "Less": np.less, "Greater": np.greater,
            "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "Not": np.logical_not,
            "And": np.logical_and, "Or": np.logical_or, "Where": np.where, "Relu": lambda a: np.maximum(a, 0),
            "Div": lambda a, b: a / b if np.asarray(a).dtype.kind == "f" else np.trunc(a / b).astype(np.asarray(a).dtype),
        }.items()
    },
}  # fmt: skip


# What follows the points ------------------------------------------------------------------------------------------------------------


def _value(value: Any) -> Value:
    if not isinstance(value, Value):
        raise Unreadable(
            "layers follow its decision"
            if isinstance(value, Label | Named)
            else "it multiplies from the left"
        )
    return value


def _either(*values: Any) -> None:
    for v in values:
        if isinstance(v, Label | Named):
            raise Unreadable("layers follow its decision")


def _binary(step: Callable[..., Value]) -> Callable[..., Value]:
    def run(one: Any, other: Any) -> Value:
        _either(one, other)
        return step(one, other)

    return run


def _gemm(x: Any, B: Any, C: Any = None, *, alpha=1.0, beta=1.0, transA=0, transB=0) -> Value:
    value = _value(x)
    if transA:
        raise Unreadable("it transposes the points")
    W = alpha * graph.numbers(B)
    offset = None if C is None else beta * graph.numbers(C)
    return graph.dense(value, W if transB else W.T, offset)


def _batch_norm(x, weight, bias, mean, variance, *, epsilon=1e-5, training_mode=0, **_: Any) -> Value:
    if training_mode:
        raise Unreadable("it normalises by the batch: export it in eval mode")
    return graph.normalise(_value(x), mean, variance, epsilon, weight, bias)


def _dropout(x: Any, _ratio: Any = None, training: Any = None, **_: Any) -> Any:
    if training is not None and bool(np.asarray(training).any()):
        raise Unreadable("its dropout is random: export it in eval mode")
    return x


def _scaler(x: Any, *, offset=(0.0,), scale=(1.0,)) -> Value:
    factor = graph.numbers(scale)
    return graph.scale(_value(x), factor, -graph.numbers(offset) * factor)


def _clip(x: Any, low: Any = None, high: Any = None, **bounds: Any) -> Value:
    return graph.clip(_value(x), bounds.get("min", low), bounds.get("max", high))


def _many(step: Callable[..., Value]) -> Callable[..., Value]:
    def run(first: Any, *others: Any) -> Value:
        _either(first, *others)
        for other in others:
            first = (
                step(first, other)
                if isinstance(first, Value) or isinstance(other, Value)
                else _both(step, first, other)
            )
        return first

    return run


def _both(step: Callable[..., Value], one: Any, other: Any) -> Any:
    names = {graph.add: np.add, graph.maximum: np.maximum, graph.minimum: np.minimum}
    return names[step](one, other)


def _windows(value: Value, sizes: Sequence[int], attributes: dict[str, Any]) -> Windows:
    """auto_pad, ceil_mode, dilations, pads, strides of a convolution or pooling."""
    lengths = value.shape[-len(sizes) :]
    strides, dilations = attributes.get("strides", 1), attributes.get("dilations", 1)
    pads = attributes.get("pads") or [0] * 2 * len(sizes)
    ends = np.array(pads, dtype=np.int64).reshape(2, -1).T
    auto = attributes.get("auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        steps = np.broadcast_to(strides, len(sizes))
        reach = np.broadcast_to(dilations, len(sizes)) * (np.array(sizes) - 1) + 1
        total = np.maximum((-(-np.array(lengths) // steps) - 1) * steps + reach - np.array(lengths), 0)
        less = total // 2
        ends = np.stack([less, total - less] if auto == b"SAME_UPPER" else [total - less, less], axis=-1)
    windows = Windows.of(sizes, strides, ends, dilations)
    return windows.rounded_up(lengths) if attributes.get("ceil_mode") else windows


def _conv(x: Any, W: Any, B: Any = None, *, group: int = 1, **attributes: Any) -> Value:
    value, kernel = _value(x), graph.numbers(W)
    return graph.convolution(value, kernel, B, _windows(value, kernel.shape[2:], attributes), group)


def _average_pool(x: Any, *, kernel_shape: Any, count_include_pad: int = 0, **attributes: Any) -> Value:
    value = _value(x)
    if attributes.get("ceil_mode") and count_include_pad and any(attributes.get("pads", ())):
        raise Unreadable("its average pooling pads and rounds up")
    windows = _windows(value, kernel_shape, attributes)
    return graph.average_pool(
        value, windows, count_pads=bool(count_include_pad) and not attributes.get("ceil_mode")
    )


def _max_pool(x: Any, *, kernel_shape: Any, **attributes: Any) -> Value:
    return graph.max_pool(_value(x), _windows(_value(x), kernel_shape, attributes))


def _global_pool(how: str) -> Callable[..., Value]:
    return lambda x: graph.reduced(_value(x), list(range(2, len(_value(x).shape))), True, how)


def _reduce(how: str) -> Callable[..., Value]:
    def run(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
        if axes is None and noop_with_empty_axes:
            return _value(x)
        return graph.reduced(_value(x), axes, bool(keepdims), how)

    return run


def _pad(
    x: Any,
    pads: Any,
    constant: Any = None,
    axes: Any = None,
    *,
    mode: bytes = b"constant",
    value: float = 0.0,
) -> Value:
    given, ends = _value(x), np.array(_whole(pads)).reshape(2, -1).T
    every = np.zeros((len(given.shape), 2), dtype=np.int64)
    every[list(range(len(given.shape))) if axes is None else _whole(axes)] = ends
    fill = value if constant is None else float(np.asarray(constant).reshape(()))
    limited([n + int(e.sum()) for n, e in zip(given.shape, every, strict=True)])
    if mode != b"constant":
        known = {b"reflect": "reflect", b"edge": "edge", b"wrap": "wrap"}[mode]
        return graph.moved(given, lambda i: np.pad(i, every, mode=known))  # pyright: ignore[reportCallIssue, reportArgumentType]
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(given.shape, every, strict=True))
    index = np.pad(given.index[cut], np.maximum(every, 0), constant_values=-1)
    return graph.scale(graph.take([given], index), 1.0, fill * (index < 0))


def _prelu(x: Any, slope: Any) -> Value:
    return graph.leaky(_value(x), slope)


def _soften(kind: str) -> Callable[..., Value]:
    return lambda x, axis=-1: graph.tail(_value(x), kind, axis)


def _argmax(x: Any, *, axis: int = 0, **_: Any) -> Label:
    scores = x if isinstance(x, Named) else Named(_value(x))
    if scores.value.shape[axis] != scores.value.size or scores.value.size == 1:
        raise Unreadable("it is not over the classes")
    return Label(scores.value, scores.classes)


def _linear_classifier(
    x: Any,
    *,
    coefficients: list[float],
    intercepts: list[float] | None = None,
    post_transform: bytes = b"NONE",
    **others: Any,
) -> tuple[Label, Named]:
    classes = _labels(**others)
    kind = {b"NONE": "", b"SOFTMAX": "Softmax", b"LOGISTIC": "Sigmoid"}.get(post_transform)
    if kind is None or classes is None:
        raise Unreadable(f"post_transform {post_transform.decode()} is not known")
    rows = len(intercepts) if intercepts else len(classes)
    if rows != len(classes):
        raise Unreadable(f"it has {rows} rows for {len(classes)} classes")
    scores = graph.dense(_value(x), graph.numbers(coefficients).reshape(rows, -1), intercepts or None)
    return Label(scores, classes), Named(graph.tail(scores, kind) if kind else scores, classes)


def _labels(**attributes: Any) -> np.ndarray | None:
    """classlabels_ints, classlabels_int64s, classlabels_strings."""
    for name, values in attributes.items():
        if name.startswith("classlabels") and len(values):
            return np.array([v.decode() if isinstance(v, bytes) else v for v in values])
    return None


def _zip_map(x: Any, **labels: Any) -> Named:
    return Named(x.value if isinstance(x, Named) else _value(x), _labels(**labels))


def _extract(x: Any, y: Any) -> Label:
    """The label at a position; a column of the scores decides nothing."""
    if not isinstance(y, Label):
        raise Unreadable("it picks some of the scores")
    return Label(y.value, np.array(np.asarray(x).ravel().tolist()))


def _cast(x: Any, *, to: int, **_: Any) -> Any:
    if isinstance(x, Value) and to not in FLOATS:
        raise Unreadable("it rounds its values")
    return x


def _normalise(x: Any, **_: Any) -> Any:
    """Probabilities over their sum."""
    value = x.value if isinstance(x, Named) else _value(x)
    if not isinstance(value.node, Tail):
        raise Unreadable("it divides each point by its norm")
    return x


def _concat(*parts: Any, axis: int) -> Value:
    _either(*parts)
    return graph.concatenate(parts, axis)


OPERATORS: dict[str, Callable[..., Any]] = {
    "Gemm": _gemm,
    "MatMul": _binary(graph.product),
    "Add": _binary(graph.add),
    "Sub": _binary(graph.subtract),
    "Mul": _binary(graph.multiply),
    "Div": _binary(graph.divide),
    "Pow": _binary(graph.power),
    "Sum": _many(graph.add),
    "Max": _many(graph.maximum),
    "Min": _many(graph.minimum),
    "Neg": lambda x: graph.scale(_value(x), -1.0),
    "Relu": lambda x: graph.relu(_value(x)),
    "LeakyRelu": lambda x, alpha=0.01: graph.leaky(_value(x), alpha),
    "PRelu": _prelu,
    "Abs": lambda x: graph.absolute(_value(x)),
    "Clip": _clip,
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: graph.clip(graph.scale(_value(x), alpha, beta), 0.0, 1.0),
    "Tanh": lambda x: graph.smooth(_value(x), "tanh"),
    "Gelu": lambda x, approximate="none": graph.smooth(_value(x), "gelu", approximate),
    "Swish": lambda x, alpha=1.0: graph.scale(graph.smooth(graph.scale(_value(x), alpha), "silu"), 1 / alpha),
    "Sigmoid": lambda x: graph.tail(_value(x), "Sigmoid"),
    "Softmax": _soften("Softmax"),
    "LogSoftmax": _soften("LogSoftmax"),
    "ArgMax": _argmax,
    "Conv": _conv,
    "AveragePool": _average_pool,
    "MaxPool": _max_pool,
    "GlobalAveragePool": _global_pool("mean"),
    "GlobalMaxPool": _global_pool("max"),
    "ReduceMean": _reduce("mean"),
    "ReduceSum": _reduce("sum"),
    "ReduceMax": _reduce("max"),
    "BatchNormalization": _batch_norm,
    "Dropout": _dropout,
    "Cast": _cast,
    "Concat": _concat,
    "Pad": _pad,
    "Shape": lambda x, start=0, end=None: np.array(_value(x).shape)[start:end],
    "Scaler": _scaler,
    "LinearClassifier": _linear_classifier,
    "Normalizer": _normalise,
    "ZipMap": _zip_map,
    "ArrayFeatureExtractor": _extract,
}
