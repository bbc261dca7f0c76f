"""A network that was read, against the model itself: what was misread must never be certified."""

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.networks.reading.called import CalledScores
from featureprism.networks.reading.classifier import Classifier
from featureprism.networks.reading.graphs import Graph

CLOSE = {  # of values of size 1: what folding layers may change, in the type of numbers that the model computes in
    torch.float64: 1e-7,
    torch.float32: 1e-3,
    torch.float16: 0.1,
    torch.bfloat16: 0.3,
}
NUMBERS = {10: np.float16, 11: np.float64}  # of TensorProto; others are taken in float32
CLEAR = 1e-5  # of the largest score: margins above it are no matter of rounding, in float32 either


@torch.no_grad()
def check_module(net: nn.Module, tail: str, module: CalledScores, x: Float[Tensor, "n d"]) -> None:
    """The outputs of a torch module."""
    scores, own = net(x), module.outputs(x)
    read = _with_tail(scores[:, 1] - scores[:, 0] if own.ndim == 1 else scores, tail)
    _refuse(read, own, CLOSE.get(module.dtype, 0.1), "module")


def _with_tail(scores: Tensor, tail: str) -> Tensor:
    match tail:
        case "Sigmoid":
            return torch.sigmoid(scores)
        case "Tanh":
            return torch.tanh(scores)
        case "Softmax":
            return torch.softmax(scores, dim=1)
        case "LogSoftmax":
            return torch.log_softmax(scores, dim=1)
        case _:
            return scores


def _refuse(read: Tensor, own: Tensor, close: float, what: str) -> None:
    """Compare margins of the first class before every other, each by its own size: what all scores share decides nothing."""
    if read.shape == own.shape and own.ndim == 2:
        read, own = read[:, :1] - read[:, 1:], own[:, :1] - own[:, 1:]
    size = own.abs().amax(dim=0).clamp_min(torch.finfo(torch.float64).tiny)
    away = (read - own).abs().amax(dim=0) if read.shape == own.shape else torch.full_like(size, float("inf"))
    if not bool((away <= close * size).all()):
        worst = int((away / size).nan_to_num(float("inf")).argmax())
        most, of = float(away.reshape(-1)[worst]), float(size.reshape(-1)[worst])
        raise ValueError(
            f"The {what} was not read rightly: its margins differ by {most:.3g}, of sizes up to {of:.3g}, from those of the "
            "network that was read; it is not measured."
        )


@torch.no_grad()
def check_estimator(found: Classifier, model: Any, x: Float[Tensor, "n d"], given: Any) -> None:
    """The predictions of a scikit-learn estimator, where they are clear."""
    points = given.iloc[: len(x)] if hasattr(given, "iloc") else x.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of columns that a plain array does not have
        predicted = np.asarray(model.predict(points))
    scores = found.net(x)
    best = scores.topk(2, dim=1)
    clear = (best.values[:, 0] - best.values[:, 1] > CLEAR * scores.abs().amax(dim=1)).numpy()
    assert found.classes is not None
    wrong = clear & (found.classes[best.indices[:, 0].numpy()] != predicted)
    if wrong.any():
        raise ValueError(
            f"The {type(model).__name__} was not read rightly: {int(wrong.sum())} of {len(x)} predictions differ from those of the "
            "network that was read; it is not measured."
        )


@torch.no_grad()
def check_graph(found: Classifier, graph: Graph, x: Float[Tensor, "n d"]) -> str:
    """The scores of an ONNX file, where onnx's own reference knows its operators; else why they were not compared."""
    from onnx.reference import ReferenceEvaluator

    kind = graph.input.type.tensor_type
    batch = kind.shape.dim[0].dim_value if kind.shape.dim else 0
    x = x[torch.arange(batch or len(x)) % len(x)]  # some files fix the number of points
    rows = x.reshape(len(x), *(graph.shape or x.shape[1:])).numpy()
    rows = rows.astype(NUMBERS.get(kind.elem_type, np.float32))
    try:
        (result,) = ReferenceEvaluator(graph.until_scores()).run(None, {graph.input.name: rows})
        own = torch.as_tensor(np.asarray(result, dtype=np.float64))
    except Exception as error:  # an operator that the reference does not know
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return f"not compared with the file itself ({reason:.80})"
    scores = found.net(x)
    own = own.squeeze(1) if own.ndim == 2 and own.shape[1] == 1 else own
    read = _with_tail(scores[:, 1] - scores[:, 0] if own.ndim == 1 else scores, graph.chain.tail)
    _refuse(read, own, CLOSE[torch.float16 if kind.elem_type == 10 else torch.float32], "ONNX file")
    return ""
