"""Modules that are only called: what cannot be read as a chain can still be attacked."""

import contextlib
import inspect

import torch
from jaxtyping import Float
from torch import Tensor, fx, nn

from featureprism.models.reading.graph import Unreadable

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
    module: nn.Module, x: Float[Tensor, "n d"], shape: tuple[int, ...], own: torch.dtype
) -> CalledScores:
    """The module in float64 if it can compute so, otherwise in its own type of numbers."""
    error = None
    for dtype in (torch.float64, own):
        scores = CalledScores(module.to(dtype), shape, dtype)
        try:
            with torch.no_grad():
                out = scores.outputs(x[:2])
        except NotScores:
            raise
        except Exception as found:  # whatever a forward pass says to points that it does not take
            error = found
            continue
        scores.num_classes, scores.is_single = (2, True) if out.ndim == 1 else (out.shape[1], False)
        with contextlib.suppress(RuntimeError):  # compiled modules do not let it
            module.requires_grad_(False)
        return scores
    told = (str(error) or type(error).__name__).splitlines()[0]
    raise ValueError(f"The module does not take points of shape {shape}: {told}") from error


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
