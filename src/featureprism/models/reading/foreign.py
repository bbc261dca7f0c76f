"""Models of others: read with the libraries that they come from and compared with what was read; only called where that fails."""

import contextlib
import inspect
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, fx, nn

from featureprism._inputs import as_points, point_shape
from featureprism.models.model import Model, NotANetwork
from featureprism.models.read import Probe
from featureprism.models.reading.estimators import read_estimator
from featureprism.models.reading.graph import Value, bare
from featureprism.models.reading.lowering import as_network
from featureprism.models.reading.modules import copied, plausible_shapes, read_module
from featureprism.models.reading.nodes import GraphScores, Node, Unreadable, with_tail
from featureprism.models.reading.onnx_files import OnnxScores, read_onnx

TAILS = ("sigmoid", "softmax", "log_softmax")
SHAPES = ("squeeze", "flatten", "view", "reshape")


class NotScores(ValueError):  # noqa: N818
    """A module that returns something else than one score, or one for every class."""


class CalledScores(nn.Module):
    """Scores (n, k) in float64 by calling the module itself on points of a shape; of a single output f the scores 0 and f."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self.shape, self.dtype = module, shape, dtype
        self.num_classes, self.is_single = 0, False

    def outputs(self, x: Float[Tensor, "n d"]) -> Tensor:
        """What the module itself says, (n,) or (n, k)."""
        out = self.module(x.reshape(len(x), *self.shape).to(self.dtype))
        if not isinstance(out, Tensor) or out.ndim not in (1, 2) or len(out) != len(x):
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise NotScores(
                f"A module must return scores of shape (n,) or (n, k) for n = {len(x)} points, got {got}."
            )
        out = out.double()
        return out.squeeze(1) if out.ndim == 2 and out.shape[1] == 1 else out

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The score of every class."""
        out = self.outputs(x)
        return torch.stack([torch.zeros_like(out), out], dim=1) if out.ndim == 1 else out


def numbers_of(module: nn.Module) -> torch.dtype:
    """The type of numbers that a module computes in."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)


def called(
    module: nn.Module, x: Float[Tensor, "n d"], shape: tuple[int, ...], its_dtype: torch.dtype
) -> CalledScores:
    """The module in float64 if it can compute so, otherwise in its its_dtype type of numbers."""
    error = None
    for dtype in (torch.float64, its_dtype):
        scores = CalledScores(module.to(dtype), shape, dtype)
        try:
            with torch.no_grad():
                out = scores.outputs(x[:2])
        except NotScores:
            raise
        except Exception as raised:  # whatever a forward pass says to points that it does not take
            error = raised
            continue
        scores.num_classes, scores.is_single = (2, True) if out.ndim == 1 else (out.shape[1], False)
        with contextlib.suppress(RuntimeError):  # compiled modules do not let it
            module.requires_grad_(False)
        return scores
    message = (str(error) or type(error).__name__).splitlines()[0]
    raise ValueError(f"The module does not take points of shape {shape}: {message}") from error


def refuse_probabilities(scores: CalledScores, x: Float[Tensor, "n d"]) -> None:
    """A single output decides by its sign; one that is never negative nor above 1 is a probability, which does not."""
    with torch.no_grad():
        out = scores.outputs(x)
    if out.ndim == 1 and bool(((out >= 0) & (out <= 1)).all()):
        raise ValueError(
            "The module's single output lies in [0, 1] on all points, as a probability does; return the logit, or both classes."
        )


def traced(module: nn.Module) -> fx.GraphModule:
    """The forward pass as a list of steps, options at their defaults; Unreadable where it depends on values."""
    try:
        options = list(inspect.signature(module.forward).parameters.values())[1:]
        defaults = {p.name: p.default for p in options if p.default is not inspect.Parameter.empty}
        return fx.symbolic_trace(module, concrete_args=defaults or None)
    except Exception as error:  # whatever a forward pass does with something that is no tensor
        raise Unreadable(f"the forward pass of {type(module).__name__} cannot be traced") from error


def drop_tail(scores: CalledScores, traced: fx.GraphModule) -> None:
    """Call the module only up to a sigmoid or softmax at the very end, whose slopes vanish; the softmax of a single output stays."""
    tails = TAILS[:1] if scores.is_single else TAILS
    node = next(node for node in traced.graph.nodes if node.op == "output").args[0]
    while isinstance(node, fx.Node) and _kind(traced, node) in SHAPES:
        node = node.args[0]
    if isinstance(node, fx.Node) and _kind(traced, node) in tails and _is_over_classes(traced, node):
        node.replace_all_uses_with(node.all_input_nodes[0])
        traced.graph.erase_node(node)
        traced.recompile()
        scores.module = traced


def _is_over_classes(traced: fx.GraphModule, node: fx.Node) -> bool:
    layer = traced.get_submodule(str(node.target)) if node.op == "call_module" else None
    given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    return len(node.all_input_nodes) == 1 and getattr(layer, "dim", given) in (None, 1, -1)


def _kind(traced: fx.GraphModule, node: fx.Node) -> str:
    """The step's name in small letters, as functions have it."""
    if node.op == "call_module":
        name = type(traced.get_submodule(str(node.target))).__name__
        return {"LogSoftmax": "log_softmax"}.get(name, name.lower())
    if node.op == "call_method":
        return str(node.target)
    return getattr(node.target, "__name__", "") if node.op == "call_function" else ""


SCORES = "logits"  # what most libraries call them


class Picked(nn.Module):
    """One output of a module, by name or position."""

    def __init__(self, module: nn.Module, output: str | int) -> None:
        super().__init__()
        self.module, self.output = module, output

    def forward(self, x: Any) -> Any:
        """That output."""
        out = self.module(x)
        return (
            out[self.output]
            if not isinstance(self.output, str) or isinstance(out, Mapping)
            else getattr(out, self.output)
        )


def with_output(model: Any, output: Any, X: Any) -> Any:
    """The model, or the part of it that gives the scores, where a module returns several things."""
    if not isinstance(model, nn.Module):
        if output is not None:
            raise ValueError("output is for torch modules that return a dict or a tuple.")
        return model
    if output is not None:
        return Picked(model, output).train(model.training)
    out = _first_outputs(model, X)
    if out is None or isinstance(out, Tensor):
        return model
    names = list(out) if isinstance(out, Mapping) else []
    if SCORES in names or (not names and hasattr(out, SCORES)):
        return Picked(model, SCORES).train(model.training)
    if isinstance(out, tuple | list) and len(out) == 1:
        return Picked(model, 0).train(model.training)
    known = f"the keys {', '.join(map(str, names))}" if names else f"a {type(out).__name__}"
    example = repr(names[0]) if names else "0"
    raise ValueError(
        f"The module returns {known}; name the output that holds the scores, as output={example}."
    )


@torch.no_grad()
def _first_outputs(module: nn.Module, X: Any) -> Any:
    """What it returns for one point; None where it cannot be called so, which the reader says better."""
    was = module.training
    try:
        x = as_points(X)[:1].reshape(1, *point_shape(X)).to(numbers_of(module))
        module.eval()
        return module(x)
    except Exception:  # the reader follows the module itself and names what is wrong
        return None
    finally:
        module.train(was)


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


def _compare(scores: Tensor, tail: str, given: Tensor, close: float, what: str) -> None:
    """Outputs (n,) or (n, k): every output, and every margin between two classes beside what that margin reaches."""
    read = with_tail(scores[:, 1] - scores[:, 0] if given.ndim == 1 else scores, tail)
    if read.shape != given.shape:
        raise ValueError(
            f"The {what} was not read rightly: it gives outputs of shape {tuple(given.shape)}, the network that was read "
            f"{tuple(read.shape)}; it is not measured."
        )
    size = float(given.abs().max())
    tiny = torch.finfo(torch.float64).tiny
    away = (read - given).abs()
    wrong = not float(away.max()) <= close * max(size, tiny)
    if given.ndim == 2 and not wrong:
        best = given.argmax(dim=1, keepdim=True)
        away = ((read - read.gather(1, best)) - (given - given.gather(1, best))).abs()
        reached = (given - given.gather(1, best)).abs().amax(dim=0)
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
def check_onnx(found: Model, file: OnnxScores, x: Float[Tensor, "n d"]) -> str:
    """The scores of an ONNX file, where onnx's given reference knows its operators; else why they were not compared."""
    x = x[:REFERENCE]
    result = file.outputs(x.numpy())
    if result is None:
        return "not compared with the file: onnx's given evaluator does not run it"
    given = torch.as_tensor(np.ascontiguousarray(result))
    x = x[torch.arange(len(given) if given.ndim else 1) % len(x)]  # some files fix the number of points
    given = given.reshape(len(x), -1)
    given = given.squeeze(1) if given.shape[1] == 1 else given
    _compare(found.net(x), file.tail, given, CLOSE[torch.float32], "ONNX file")
    return ""


def read_fitted(model: Any, probe: Probe) -> Model:
    """A scikit-learn estimator."""
    network, names = read_estimator(model)
    network = replace(network, classes=names)
    check_estimator(network, model, probe.rows(network.dim), probe.given)
    return network


def read_onnx_file(path: Path, probe: Probe) -> tuple[Model, str]:
    """An ONNX file, and why it was not compared with onnx's own evaluator where it was not."""
    file = read_onnx(path, probe.shape)
    try:
        found = replace(_network(file.scores), classes=file.classes)
    except Unreadable as error:
        raise NotANetwork(f"{path} cannot be read as a network: {error}.") from error
    return found, check_onnx(found, file, probe.rows(found.dim))


def read_foreign(module: nn.Module, probe: Probe) -> Model:
    """A torch module, followed step by step, and only called where that fails."""
    module, its_dtype = copied(module), numbers_of(module)
    shapes = [] if probe.shape is None else [probe.shape]
    if len(probe.shape or (1,)) == 1:  # another number of coordinates is reported as such
        shapes += plausible_shapes(module)
    try:
        value, shape = _followed(module.double(), shapes)
        scores, tail = bare(value)
        model = _network(scores)
    except Unreadable as error:
        return _called(module, probe, str(error), its_dtype)
    x = probe.rows(model.dim)
    check_module(model.net, tail, called(module, x, shape, its_dtype), x)
    return model


def _network(scores: Node) -> Model:
    """Dense layers where they exist and fit; otherwise the graph itself, and why it cannot be certified yet."""
    try:
        return as_network(scores)
    except Unreadable as error:
        return Model(GraphScores(scores), reason=str(error))


def _followed(module: nn.Module, shapes: Iterable[tuple[int, ...]]) -> tuple[Value, tuple[int, ...]]:
    """The scores of a module, and the first shape of points that it takes."""
    first: Unreadable | None = None
    for shape in shapes:
        try:
            return read_module(module, shape), shape
        except Unreadable as error:
            first = first or error
    raise first or Unreadable("no layer says how many inputs it takes")


def _called(module: nn.Module, probe: Probe, reason: str, its_dtype: torch.dtype) -> Model:
    """A module that can only be attacked, and why."""
    if probe.x is None or probe.shape is None:
        raise ValueError(
            f"The module cannot be read as layers: {reason}; give points (probe=X) to call it on."
        )
    scores = called(module, probe.x, probe.shape, its_dtype)
    with contextlib.suppress(Unreadable):  # what cannot be traced is called as it is
        drop_tail(scores, traced(module))
    refuse_probabilities(scores, probe.x)
    return Model(scores, reason=reason)
