"""A network that was read, against the model itself: what was misread must never be certified."""

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.models.model import Model
from featureprism.models.reading.called import CalledScores
from featureprism.models.reading.graph import with_tail
from featureprism.models.reading.onnx_files import Found

CLOSE = {  # of margins of size 1: what folding layers may change, in the type of numbers that the model computes in
    torch.float64: 1e-7,
    torch.float32: 1e-3,
    torch.float16: 0.1,
    torch.bfloat16: 0.3,
}
ROUNDED = (
    1e-2  # times CLOSE, of the largest output: what rounding may change in a margin that is small beside it
)
REFERENCE = 32  # points on which an ONNX file is computed by the reference
CLEAR = 1e-5  # of the largest score: margins above it are no matter of rounding, in float32 either


@torch.no_grad()
def check_module(net: nn.Module, tail: str, module: CalledScores, x: Float[Tensor, "n d"]) -> None:
    """The outputs of a torch module."""
    _compare(net(x), tail, module.outputs(x), CLOSE.get(module.dtype, 0.1), "module")


def _compare(scores: Tensor, tail: str, own: Tensor, close: float, what: str) -> None:
    """Outputs (n,) or (n, k): every output, and every margin between two classes beside what that margin reaches."""
    read = with_tail(scores[:, 1] - scores[:, 0] if own.ndim == 1 else scores, tail)
    if read.shape != own.shape:
        raise ValueError(
            f"The {what} was not read rightly: it gives outputs of shape {tuple(own.shape)}, the network that was read "
            f"{tuple(read.shape)}; it is not measured."
        )
    size = float(own.abs().max())
    tiny = torch.finfo(torch.float64).tiny
    away = (read - own).abs()
    wrong = not float(away.max()) <= close * max(size, tiny)
    if own.ndim == 2 and not wrong:
        best = own.argmax(dim=1, keepdim=True)
        away = ((read - read.gather(1, best)) - (own - own.gather(1, best))).abs()
        reached = (own - own.gather(1, best)).abs().amax(dim=0)
        wrong = not bool((away.amax(dim=0) <= close * (reached + ROUNDED * size).clamp_min(tiny)).all())
    if wrong:
        raise ValueError(
            f"The {what} was not read rightly: its outputs differ by {float(away.max()):.3g}, of sizes up to {size:.3g}, from those "
            "of the network that was read; it is not measured."
        )


@torch.no_grad()
def check_estimator(found: Model, model: Any, x: Float[Tensor, "n d"], given: Any) -> None:
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
def check_onnx(found: Model, file: Found, x: Float[Tensor, "n d"]) -> str:
    """The scores of an ONNX file, where onnx's own reference knows its operators; else why they were not compared."""
    x = x[:REFERENCE]
    result = file.outputs(x.numpy())
    if result is None:
        return "not compared with the file: onnx's own evaluator does not run it"
    own = torch.as_tensor(np.ascontiguousarray(result))
    x = x[torch.arange(len(own) if own.ndim else 1) % len(x)]  # some files fix the number of points
    own = own.reshape(len(x), -1)
    own = own.squeeze(1) if own.shape[1] == 1 else own
    _compare(found.net(x), file.tail, own, CLOSE[torch.float32], "ONNX file")
    return ""
