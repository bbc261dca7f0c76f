"""Modules that return a dict, a tuple or a record of outputs: which of them are the scores."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from featureprism._inputs import as_points, point_shape
from featureprism.models.reading.called import numbers_of

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
