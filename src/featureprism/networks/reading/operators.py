"""ONNX operators on a chain of layers, and what becomes of it where a graph decides."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.networks.activations import ReLU
from featureprism.networks.reading.chain import Chain, Unreadable, joined

FLOATS = (1, 10, 11, 16)  # TensorProto: float32, float16, float64, bfloat16


class Size:
    """What depends on the number of points, in a shape."""


SIZE = Size()


@dataclass(frozen=True, eq=False)
class Label:
    """The position of the largest score, or its label."""

    chain: Chain
    classes: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Named:
    """Scores beside the labels they are for."""

    chain: Chain
    classes: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Unknown:
    """What an operator gives that is not known: an error only where the decision needs it."""

    told: str


Traced = Chain | Label | Named | Unknown


def _tensor(values: Any) -> Tensor:
    if isinstance(values, Traced) or values is None:
        raise Unreadable("it joins branches")
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise Unreadable("a constant holds no real numbers")
    return torch.as_tensor(array.astype(np.float64))


def _chain(value: Any) -> Chain:
    if not isinstance(value, Chain):
        raise Unreadable(
            "layers follow its decision" if isinstance(value, Traced) else "it multiplies from the left"
        )
    return value


def _gemm(x: Any, B: Any, C: Any = None, *, alpha=1.0, beta=1.0, transA=0, transB=0) -> Chain:
    if transA:
        raise Unreadable("it transposes the points")
    W = alpha * (_tensor(B) if transB else _tensor(B).T)
    return _chain(x).affine(W, None if C is None else beta * _tensor(C))


def _matmul(x: Any, B: Any) -> Chain:
    W = _tensor(B)
    if W.ndim > 2:
        raise Unreadable("a product is not with a matrix")
    return _chain(x).affine(W.T if W.ndim == 2 else W.unsqueeze(0))


def _add(x: Any, y: Any) -> Chain:
    return x.shift(_tensor(y)) if isinstance(x, Chain) else _chain(y).shift(_tensor(x))


def _sub(x: Any, y: Any) -> Chain:
    if isinstance(x, Chain):
        return x.shift(-_tensor(y))
    left, chain = _tensor(x), _chain(y)
    if chain.tail == "Sigmoid" and left.numel() == 1 and float(left) == 1:
        return chain.complement()
    return chain.scale(-1.0).shift(left)


def _mul(x: Any, y: Any) -> Chain:
    return x.scale(_tensor(y)) if isinstance(x, Chain) else _chain(y).scale(_tensor(x))


def _div(x: Any, y: Any) -> Chain:
    return _chain(x).scale(1 / _tensor(y))


def _pow(x: Any, p: Any) -> Chain:
    exponent = _tensor(p)
    if exponent.numel() != 1:
        raise Unreadable("it takes powers that are not one number")
    return _chain(x).power(float(exponent))


def _batch_norm(x, scale, B, mean, var, *, epsilon=1e-5, training_mode=0, **_: Any) -> Chain:
    if training_mode:
        raise Unreadable("it normalises by the batch: export it in eval mode")
    spread = (_tensor(var) + epsilon).sqrt()
    return _chain(x).shift(-_tensor(mean)).scale(_tensor(scale) / spread).shift(_tensor(B))


def _dropout(x: Any, _ratio: Any = None, training: Any = None, **_: Any) -> Any:
    if training is not None and bool(np.asarray(training).any()):
        raise Unreadable("its dropout is random: export it in eval mode")
    return x


def _scaler(x: Any, *, offset=(0.0,), scale=(1.0,)) -> Chain:
    return _chain(x).shift(-_tensor(offset)).scale(_tensor(scale))


def _soften(kind: str) -> Callable[..., Chain]:
    def soften(x: Any, *, axis: int = -1) -> Chain:
        if axis not in (1, -1):
            raise Unreadable("it is not over the classes")
        return _chain(x).end(kind)

    return soften


def _argmax(x: Any, *, axis: int = 0, **_: Any) -> Label:
    scores = x if isinstance(x, Named) else Named(_chain(x))
    if axis not in (1, -1) or scores.chain.width == 1:
        raise Unreadable("it is not over the classes")
    return Label(scores.chain, scores.classes)


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
    c = torch.zeros(rows) if not intercepts else _tensor(intercepts)
    chain = _chain(x).affine(_tensor(coefficients).reshape(rows, -1), c)
    return Label(chain, classes), Named(chain.end(kind) if kind else chain, classes)


def _labels(**attributes: Any) -> np.ndarray | None:
    """classlabels_ints, classlabels_int64s, classlabels_strings."""
    for name, values in attributes.items():
        if name.startswith("classlabels") and len(values):
            return np.array([v.decode() if isinstance(v, bytes) else v for v in values])
    return None


def _zip_map(x: Any, **labels: Any) -> Named:
    return Named(x.chain if isinstance(x, Named) else _chain(x), _labels(**labels))


def _extract(x: Any, y: Any) -> Label:
    """The label at a position; a column of the scores decides nothing."""
    if not isinstance(y, Label):
        raise Unreadable("it picks some of the scores")
    return Label(y.chain, np.array(np.asarray(x).ravel().tolist()))


def _cast(x: Any, *, to: int, **_: Any) -> Any:
    if isinstance(x, Chain) and to not in FLOATS:
        raise Unreadable("it rounds its values")
    return x


def _reshape(x: Any, shape: Any, **_: Any) -> Any:
    """(n, d) from whatever (n, ...): the points are rows already."""
    if not isinstance(x, Chain):
        return x
    dims = [] if shape is SIZE else np.asarray(shape).ravel().tolist()
    if (len(dims) == 2 and dims[1] in (-1, x.width)) or (dims == [-1] and x.width == 1):
        return x
    raise Unreadable("it is not to rows")


def _flatten(x: Any, *, axis: int = 1) -> Chain:
    if axis != 1:
        raise Unreadable("it joins points with each other")
    return _chain(x)


def _squeeze(x: Any, *_: Any, **__: Any) -> Any:
    if isinstance(x, Chain) and x.width is None:
        raise Unreadable("it is not of a single output")
    return x


def _normalise(x: Any, **_: Any) -> Any:
    """Probabilities over their sum."""
    chain = x.chain if isinstance(x, Named) else _chain(x)
    if not chain.tail:
        raise Unreadable("it divides each point by its norm")
    return x


def _concat(*parts: Any, axis: int) -> Chain:
    if axis not in (1, -1):
        raise Unreadable("it joins points with each other")
    return joined([_chain(p) for p in parts])


OPERATORS: dict[str, Callable[..., Any]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Neg": lambda x: _chain(x).scale(-1.0),
    "Pow": _pow,
    "Relu": lambda x: _chain(x).activate(ReLU()),
    "Tanh": lambda x: _chain(x).end("Tanh"),
    "Sigmoid": lambda x: _chain(x).end("Sigmoid"),
    "Softmax": _soften("Softmax"),
    "LogSoftmax": _soften("LogSoftmax"),
    "ArgMax": _argmax,
    "BatchNormalization": _batch_norm,
    "Dropout": _dropout,
    "Identity": lambda x: x,
    "Cast": _cast,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "Shape": lambda *_, **__: SIZE,
    "Scaler": _scaler,
    "LinearClassifier": _linear_classifier,
    "Normalizer": _normalise,
    "ZipMap": _zip_map,
    "ArrayFeatureExtractor": _extract,
}
