"""torch modules as chains of layers: the forward pass is traced and every step is read, or named."""

import copy
import inspect
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_arg
from torch.nn import functional as F
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from featureprism.networks.activations import ReLU
from featureprism.networks.reading.chain import Chain, Unreadable


class Size:
    """A number that depends on the shape of the input, such as x.size(0)."""


SIZE = Size()
Known = Chain | Size


def trace(module: nn.Module) -> fx.GraphModule:
    """The forward pass as a graph, options at their defaults; Unreadable where it depends on values."""
    if hooked := [
        n or "the module" for n, m in module.named_modules() if m._forward_hooks or m._forward_pre_hooks
    ]:
        raise Unreadable(f"{hooked[0]} has forward hooks")
    if _kind(module) in MODULES:
        module = nn.Sequential(module)  # a layer alone would be traced into
    try:
        options = list(inspect.signature(module.forward).parameters.values())[1:]
        defaults = {p.name: p.default for p in options if p.default is not inspect.Parameter.empty}
        return fx.symbolic_trace(module, concrete_args=defaults or None)
    except Exception as error:  # whatever a forward pass does with something that is no tensor
        told = (str(error) or type(error).__name__).splitlines()[0]
        raise Unreadable(f"the forward pass of {type(module).__name__} cannot be traced ({told})") from error


def read_graph(traced: fx.GraphModule) -> Chain:
    """The chain that the traced forward pass computes from its first argument."""
    values: dict[fx.Node, Any] = {}
    for node in traced.graph.nodes:
        if node.op == "output":
            return _returned(values.get(node.args[0]) if isinstance(node.args[0], fx.Node) else None)
        try:
            values[node] = _value(traced, node, values)
        except Unreadable:
            raise
        except Exception as error:  # a step on arguments that it does not take
            raise Unreadable(f"its step {node.name} is used in a way that is not known") from error
    return _returned(None)


def _returned(value: Any) -> Chain:
    if not isinstance(value, Chain):
        raise Unreadable("it returns something else than one tensor of scores")
    return value


def _value(traced: fx.GraphModule, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """What one node of the graph gives."""
    args, kwargs = (map_arg(part, values.__getitem__) for part in (node.args, node.kwargs))
    if node.op == "placeholder":
        default = node.args[0] if node.args else None
        return default if values else Chain()
    inputs = [values[n] for n in node.all_input_nodes]
    if any(isinstance(v, Chain) for v in inputs):
        return _step(traced, node, args, kwargs)
    return SIZE if any(isinstance(v, Size) for v in inputs) else _constant(traced, node, args, kwargs)


def _constant(traced: fx.GraphModule, node: fx.Node, args: Any, kwargs: Any) -> Any:
    """What does not depend on the points is computed."""
    if node.op == "get_attr":
        return operator.attrgetter(str(node.target))(traced)
    if node.op == "call_module":
        return traced.get_submodule(str(node.target))(*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    assert callable(node.target)
    return node.target(*args, **kwargs)


def _step(traced: fx.GraphModule, node: fx.Node, args: Any, kwargs: Any) -> Known:
    """One step on the traced value."""
    if node.op == "call_module":
        layer = traced.get_submodule(str(node.target))
        if _kind(layer) not in MODULES or len(args) != 1 or kwargs:
            raise Unreadable(f"its layer {node.target} ({type(layer).__name__}) is not known")
        return MODULES[_kind(layer)](args[0], layer)
    name = node.target if isinstance(node.target, str) else _public_name(node.target)
    step = STEPS.get(name.removesuffix("_"))
    if step is None:
        raise Unreadable(f"its step {name} is not known")
    return step(*args, **kwargs)


def _public_name(function: Any) -> str:
    """The name of a function of torch or operator; others are not known by their name."""
    name = getattr(function, "__name__", "?")
    is_known = function in [getattr(home, name, None) for home in (torch, F, operator)] or function is getattr
    return name if is_known else f"function {name}"


def _linear(chain: Chain, weight: Tensor, bias: Tensor | None = None) -> Chain:
    return chain.affine(weight, bias)


def _matmul(chain: Chain, matrix: Tensor) -> Chain:
    if not isinstance(chain, Chain) or isinstance(matrix, Known) or matrix.ndim > 2:
        raise Unreadable("a product is not of the values with a matrix")
    return chain.affine(matrix.T if matrix.ndim == 2 else matrix.unsqueeze(0))


def _batch_norm(chain: Chain, layer: nn.Module) -> Chain:
    assert isinstance(layer, nn.BatchNorm1d)
    mean, variance = layer.running_mean, layer.running_var
    if mean is None or variance is None:
        raise Unreadable("its BatchNorm1d keeps no running statistics")
    chain = chain.shift(-mean).scale((variance.double() + layer.eps).rsqrt())
    return chain if layer.weight is None else chain.scale(layer.weight).shift(layer.bias)


def _soften(kind: str) -> Callable[..., Chain]:
    def soften(chain: Chain, dim: int | None = None, **_: Any) -> Chain:
        if dim not in (None, 1, -1):
            raise Unreadable(f"its {kind} is not over the classes")
        return chain.end(kind)

    return soften


def _flatten(chain: Chain, start_dim: int = 0, end_dim: int = -1) -> Chain:
    if (start_dim == 1 and end_dim in (-1, 1)) or chain.width == 1:
        return chain
    raise Unreadable("a flatten joins points with each other")


def _reshape(chain: Chain, *shape: Any) -> Chain:
    """(n, d) from whatever (n, ...): the points are rows already."""
    dims = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else list(shape)
    if len(dims) == 2 and (isinstance(dims[1], Size) or dims[1] in (-1, chain.width)):
        return chain
    if len(dims) == 2 and chain.width is None and isinstance(dims[1], int):
        return chain.scale(torch.ones(dims[1], dtype=torch.float64))  # now the size is known
    if len(dims) == 1 and chain.width == 1:
        return chain
    raise Unreadable("a view or reshape is not to rows")


def _squeeze(chain: Chain, dim: int | None = None) -> Chain:
    if chain.width is None or dim not in (None, 1, -1):
        raise Unreadable("a squeeze is not of a single output")
    return chain


def _item(chain: Chain, index: Any) -> Chain:
    if chain.width == 1 and index in ((slice(None), 0), (slice(None), -1), (Ellipsis, 0), (Ellipsis, -1)):
        return chain
    raise Unreadable("it picks some of the values")


def _attribute(_chain: Chain, name: str) -> Size:
    if name in ("shape", "dtype", "device", "ndim"):
        return SIZE
    raise Unreadable(f"its step .{name} is not known")


def _keep(chain: Chain, *_: Any, **__: Any) -> Chain:
    return chain


def _dropout(chain: Chain, _p: float = 0.5, training: bool = True, *_: Any, **__: Any) -> Chain:
    if training:
        raise Unreadable("its dropout is random in eval mode too")
    return chain


def _cast(chain: Chain, *to: Any, **__: Any) -> Chain:
    if any(isinstance(t, torch.dtype) and not t.is_floating_point for t in to):
        raise Unreadable("it rounds its values")
    return chain


def _pair(chain: Any, other: Any) -> None:
    if isinstance(chain, Known) and isinstance(other, Known):
        raise Unreadable("it joins branches")


def _add(left: Any, right: Any) -> Chain:
    _pair(left, right)
    return left.shift(right) if isinstance(left, Chain) else right.shift(left)


def _sub(left: Any, right: Any) -> Chain:
    _pair(left, right)
    return left.shift(-right) if isinstance(left, Chain) else right.scale(-1.0).shift(left)


def _mul(left: Any, right: Any) -> Chain:
    _pair(left, right)
    return left.scale(right) if isinstance(left, Chain) else right.scale(left)


def _div(left: Any, right: Any) -> Chain:
    _pair(left, right)
    if not isinstance(left, Chain):
        raise Unreadable("it divides by its values")
    return left.scale(1 / torch.as_tensor(right, dtype=torch.float64))


def _power(chain: Chain, exponent: Any) -> Chain:
    if not isinstance(exponent, int | float):
        raise Unreadable("it takes powers that are not one number")
    return chain.power(float(exponent))


def _relu(chain: Chain, **_: Any) -> Chain:
    return chain.activate(ReLU())


def _tanh(chain: Chain) -> Chain:
    return chain.end("Tanh")


def _sigmoid(chain: Chain) -> Chain:
    return chain.end("Sigmoid")


def _size(*_: Any) -> Size:
    return SIZE


STEPS: dict[str, Callable[..., Known]] = {
    **dict.fromkeys(("contiguous", "detach", "clone", "double", "float"), _keep),
    **dict.fromkeys(("to", "type"), _cast),
    **dict.fromkeys(("size", "dim"), _size),
    **dict.fromkeys(("view", "reshape"), _reshape),
    **dict.fromkeys(("matmul", "mm"), _matmul),
    **dict.fromkeys(("add", "iadd"), _add),
    **dict.fromkeys(("sub", "isub"), _sub),
    **dict.fromkeys(("mul", "imul"), _mul),
    **dict.fromkeys(("div", "truediv", "itruediv"), _div),
    "neg": lambda chain: chain.scale(-1.0),
    "linear": _linear,
    "relu": _relu,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "softmax": _soften("Softmax"),
    "log_softmax": _soften("LogSoftmax"),
    "flatten": _flatten,
    "squeeze": _squeeze,
    "dropout": _dropout,
    "pow": _power,
    "getitem": _item,
    "getattr": _attribute,
}
MODULES: dict[type[nn.Module], Callable[[Chain, Any], Chain]] = {
    nn.Linear: lambda chain, layer: chain.affine(layer.weight, layer.bias),
    nn.ReLU: lambda chain, _: _relu(chain),
    nn.Tanh: lambda chain, _: _tanh(chain),
    nn.Sigmoid: lambda chain, _: _sigmoid(chain),
    nn.Softmax: lambda chain, layer: _soften("Softmax")(chain, layer.dim),
    nn.LogSoftmax: lambda chain, layer: _soften("LogSoftmax")(chain, layer.dim),
    nn.Flatten: lambda chain, layer: _flatten(chain, layer.start_dim, layer.end_dim),
    nn.BatchNorm1d: _batch_norm,
    **dict.fromkeys((nn.Identity, nn.Dropout, nn.Dropout1d, nn.AlphaDropout), _keep),
}


def copied(module: nn.Module) -> nn.Module:
    """A copy in eval mode on the CPU; the module itself is left as it is."""
    if any(is_lazy(p) for p in module.parameters()):
        raise ValueError(
            f"The {type(module).__name__} has weights of unknown size; call it once on some points first."
        )
    try:
        return copy.deepcopy(getattr(module, "_orig_mod", module)).cpu().eval()
    except Exception as error:  # modules may hold anything
        told = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"The {type(module).__name__} cannot be copied: {told}") from error


def _kind(layer: nn.Module) -> type[nn.Module]:
    """The type of a layer, also where its weights are computed by a parametrisation."""
    return type(layer).__mro__[1] if parametrize.is_parametrized(layer) else type(layer)
