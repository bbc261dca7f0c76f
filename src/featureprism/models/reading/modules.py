"""torch modules as graphs: the forward pass is run once on a symbol instead of points, and every step is written down, or named."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy

from featureprism.models.reading import graph
from featureprism.models.reading.graph import Value
from featureprism.models.reading.nodes import Unreadable, Windows, limited


class UnknownStep(Unreadable, AttributeError):  # noqa: N818
    """A step of a forward pass that cannot be read."""


def read_module(module: nn.Module, shape: tuple[int, ...]) -> Value:
    """What the module computes from one point of a shape."""
    symbol = Symbol(graph.start((1, *shape)))
    try:
        with torch.no_grad():
            out = module(symbol)
    except Unreadable:
        raise
    except Exception as error:  # whatever a forward pass does with something that is no tensor
        message = (str(error) or type(error).__name__).splitlines()[0]
        raise Unreadable(
            f"the forward pass of {type(module).__name__} cannot be followed ({message})"
        ) from error
    if not isinstance(out, Symbol):
        raise Unreadable("it returns something else than one tensor of scores")
    return out.value


def plausible_shapes(module: nn.Module) -> Iterator[tuple[int, ...]]:
    """Shapes of points that the layers of a module may take, where no point says it."""
    seen = [
        getattr(layer, name, None) for layer in module.modules() for name in ("in_features", "num_features")
    ]
    seen += [p.shape[-1] for p in module.parameters() if p.ndim == 2]
    yield from ((d,) for d in dict.fromkeys(seen) if isinstance(d, int) and d > 0)


class Symbol:
    """Stands for a tensor (1, ...) in a forward pass: torch's functions on it are looked up in `STEPS`."""

    dtype, device, is_cuda, requires_grad, layout = (
        torch.float64,
        torch.device("cpu"),
        False,
        False,
        torch.strided,
    )

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def shape(self) -> torch.Size:
        """The lengths of all axes."""
        return torch.Size(self.value.shape)

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.value.shape)

    @property
    def T(self) -> "Symbol":  # noqa: N802
        """The transposed matrix."""
        return _called("t", self)

    def size(self, dim: int | None = None) -> Any:
        """The lengths of all axes, or of one."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """How many axes there are."""
        return self.ndim

    def numel(self) -> int:
        """How many values there are."""
        return self.value.size

    def is_floating_point(self) -> bool:
        """Always."""
        return True

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator["Symbol"]:
        return iter(_called("unbind", self))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__") or name.removesuffix("_") not in STEPS:
            raise UnknownStep(f"its step .{name} is not known")
        return lambda *args, **kwargs: _called(name, self, *args, **kwargs)

    def __bool__(self, *_: Any) -> bool:
        raise Unreadable("its forward pass depends on the values of the points")

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "?")
        name = (
            name
            if name in STEPS
            else name.strip("_") + ("_" if name.endswith("_") and name[0] != "_" else "")
        )
        return _called(name, *args, **(kwargs or {}))


def _operator(name: str) -> Callable[..., Any]:
    return lambda self, *others: _called(name, self, *others)


for _name in ("add", "sub", "mul", "truediv", "matmul", "pow", "neg", "getitem", "abs"):
    setattr(Symbol, f"__{_name}__", _operator(_name))
    setattr(Symbol, f"__r{_name}__", _operator(f"r{_name}"))
for _name in ("iadd", "isub", "imul", "itruediv"):
    setattr(Symbol, f"__{_name}__", _operator(_name[1:] + "_"))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "float", "int"):
    setattr(Symbol, f"__{_name}__", Symbol.__bool__)
Symbol.__hash__ = object.__hash__  # pyright: ignore[reportAttributeAccessIssue]


def _called(name: str, *args: Any, **kwargs: Any) -> Any:
    """One step; what writes into its first argument does so."""
    step = STEPS.get(name.removesuffix("_"))
    if step is None:
        raise UnknownStep(f"its step {name} is not known")
    inplace = kwargs.pop("inplace", False) or (name.endswith("_") and args and isinstance(args[0], Symbol))
    try:
        found = step(*(_plain(a) for a in args), **{k: _plain(v) for k, v in kwargs.items()})
    except Unreadable as error:
        raise Unreadable(str(error)) from error
    except Exception as error:  # a step on arguments that it does not take
        message = (str(error) or type(error).__name__).splitlines()[0]
        raise Unreadable(f"its step {name} is used in a way that is not known ({message})") from error
    if isinstance(found, tuple | list):
        return tuple(Symbol(v) for v in found)
    if inplace:
        args[0].value = found
        return args[0]
    return Symbol(found)


def _plain(argument: Any) -> Any:
    if isinstance(argument, Symbol):
        return argument.value
    if isinstance(argument, list | tuple) and any(isinstance(a, Symbol) for a in argument):
        return [_plain(a) for a in argument]
    return argument


def _moving(move: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch that only moves values, run on their positions."""

    def step(value: Value, *args: Any, **kwargs: Any) -> Any:
        found = move(torch.from_numpy(value.index), *args, **kwargs)
        if isinstance(found, Tensor):
            return graph.take([value], found.numpy())
        return tuple(graph.take([value], part.numpy()) for part in found)

    return step


def _swapped(step: Callable[..., Any]) -> Callable[..., Any]:
    return lambda one, other: step(other, one)


def _keep(value: Value, *_: Any, **__: Any) -> Value:
    return value


def _cast(value: Value, *to: Any, **kwargs: Any) -> Value:
    if any(isinstance(t, torch.dtype) and not t.is_floating_point for t in (*to, *kwargs.values())):
        raise Unreadable("it rounds its values")
    return value


def _dropout(value: Value, *args: Any, **kwargs: Any) -> Value:
    """p, then whether it is random now."""
    if kwargs.get("training", args[1] if len(args) > 1 else True):
        raise Unreadable("its dropout is random in eval mode too")
    return value


def _add(one: Any, other: Any, *, alpha: float = 1) -> Value:
    return graph.add(one, other if alpha == 1 else graph.multiply(other, alpha))


def _sub(one: Any, other: Any, *, alpha: float = 1) -> Value:
    return graph.subtract(one, other if alpha == 1 else graph.multiply(other, alpha))


def _batch_norm(value: Value, mean: Any, variance: Any, *args: Any, **kwargs: Any) -> Value:
    names = ("weight", "bias", "training", "momentum", "eps")
    given = dict(zip(names, args, strict=False)) | kwargs
    if mean is None or variance is None or given.get("training"):
        raise Unreadable("its batch normalisation keeps no running statistics")
    eps, weight, bias = given.get("eps", 1e-5), given.get("weight"), given.get("bias")
    return graph.normalise(value, mean, variance, eps, weight, bias)


def _conv(value: Value, weight: Any, bias: Any = None, stride=1, padding=0, dilation=1, groups=1) -> Value:
    sizes = tuple(weight.shape[2:])
    if isinstance(padding, str):
        spread = np.broadcast_to(dilation, len(sizes)) * (np.array(sizes) - 1) * (padding == "same")
        padding = np.stack([spread // 2, spread - spread // 2], axis=-1)
    return graph.convolution(value, weight, bias, Windows.of(sizes, stride, padding, dilation), groups)


def _pool_windows(
    value: Value, axes: int, size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Windows:
    sizes = tuple(np.broadcast_to(size, axes).tolist())
    windows = Windows.of(sizes, sizes if stride in (None, [], ()) else stride, padding, dilation)
    return windows.rounded_up(value.shape[-axes:]) if ceil else windows


def _average_pool(axes: int) -> Callable[..., Value]:
    def step(
        value: Value,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ) -> Value:
        if ceil_mode and count_include_pad and np.any(padding):
            raise Unreadable("its average pooling pads and rounds up")
        windows = _pool_windows(value, axes, kernel_size, stride, padding, 1, ceil_mode)
        counted = count_include_pad and not ceil_mode
        return graph.average_pool(value, windows, count_pads=counted, divisor=divisor_override)

    return step


def _max_pool(axes: int) -> Callable[..., Value]:
    def step(
        value: Value, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
    ) -> Value:
        if return_indices:
            raise Unreadable("its pooling returns positions")
        return graph.max_pool(
            value, _pool_windows(value, axes, kernel_size, stride, padding, dilation, ceil_mode)
        )

    return step


def _adaptive(axes: int, how: str) -> Callable[..., Value]:
    """Pooling to a given number of windows, where they are all of one size."""

    def step(value: Value, output_size: Any, *_: Any, **__: Any) -> Value:
        lengths = value.shape[-axes:]
        wanted = output_size if isinstance(output_size, tuple | list) else (output_size,) * axes
        counts = [length if n is None else n for n, length in zip(wanted, lengths, strict=True)]
        if any(length % n for n, length in zip(counts, lengths, strict=True)):
            raise Unreadable("its adaptive pooling has windows of different sizes")
        sizes = tuple(length // n for n, length in zip(counts, lengths, strict=True))
        windows = Windows.of(sizes, sizes, 0, 1)
        return (
            graph.max_pool(value, windows)
            if how == "max"
            else graph.average_pool(value, windows, count_pads=True)
        )

    return step


def _prelu(value: Value, weight: Any) -> Value:
    slope = graph.numbers(weight)
    axes = (1,) * max(len(value.shape) - 2, 0)
    return graph.leaky(value, slope.reshape(-1, *axes) if slope.size > 1 else slope.reshape(()))


def _clamp(value: Value, min: Any = None, max: Any = None) -> Value:
    low, high = (None if isinstance(c, float) and np.isinf(c) else c for c in (min, max))
    if isinstance(low, Value) or isinstance(high, Value):
        raise Unreadable("it clips to bounds that depend on the points")
    return graph.clip(value, low, high)


def _softmax(kind: str) -> Callable[..., Value]:
    return lambda value, dim=None, *_, **__: graph.tail(value, kind, dim)


def _reduce(how: str) -> Callable[..., Value]:
    return lambda value, dim=None, keepdim=False, **_: graph.reduced(value, dim, keepdim, how)


def _largest(value: Value, dim: Any = None, *_: Any, **__: Any) -> Value:
    if isinstance(dim, Value | Tensor):
        return graph.maximum(value, dim)
    if dim is not None:
        raise Unreadable("its max returns positions; use amax")
    return graph.reduced(value, None, False, "max")


def _cat(parts: Any, dim: int = 0, axis: int | None = None) -> Value:
    return graph.concatenate(parts, dim if axis is None else axis)


def _stack(parts: Any, dim: int = 0) -> Value:
    opened = [
        graph.moved(p, lambda i: np.expand_dims(i, dim)) if isinstance(p, Value) else p.unsqueeze(dim)
        for p in parts
    ]
    return graph.concatenate(opened, dim)


def _pad(image: Value, pad: Any, mode: str = "constant", value: float | None = None) -> Value:
    index = torch.from_numpy(image.index)
    if mode != "constant":
        return graph.take([image], F.pad(index.double(), pad, mode=mode).long().numpy())
    added = np.zeros(len(image.shape), dtype=np.int64)
    added[: len(pad) // 2] = np.reshape(pad, (-1, 2)).sum(axis=1)
    limited((np.array(image.shape) + added[::-1]).tolist())
    found = F.pad(index, pad, value=-1).numpy()
    return graph.scale(graph.take([image], found), 1.0, (value or 0.0) * (found < 0))


def _item(value: Value, index: Any) -> Value:
    if any(isinstance(i, Value) for i in (index if isinstance(index, tuple) else (index,))):
        raise Unreadable("it picks values by values")
    return graph.take([value], torch.from_numpy(value.index)[index].numpy())


MOVES: tuple[str, ...] = (
    *(
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "expand",
        "view_as",
        "reshape_as",
        "expand_as",
    ),
    *("transpose", "permute", "movedim", "swapaxes", "t", "flip", "roll", "repeat", "tile", "unfold"),
    *("narrow", "select", "index_select", "chunk", "split", "unbind"),
)  # methods of tensors that only move values
STEPS: dict[str, Callable[..., Any]] = {
    **{name: _moving(getattr(Tensor, name)) for name in MOVES},
    **{move.__name__: _moving(move) for move in (F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle)},
    **dict.fromkeys(
        ("contiguous", "detach", "clone", "double", "float", "half", "cpu", "requires_grad"), _keep
    ),
    **dict.fromkeys(("to", "type"), _cast),
    **dict.fromkeys(
        ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"), _dropout
    ),
    **dict.fromkeys(("matmul", "mm"), graph.product),
    **dict.fromkeys(("add", "radd"), _add),
    **dict.fromkeys(("mul", "rmul", "multiply"), graph.multiply),
    **dict.fromkeys(("div", "truediv", "divide"), graph.divide),
    **dict.fromkeys(("sub", "subtract"), _sub),
    **dict.fromkeys(("rsub",), _swapped(_sub)),
    **dict.fromkeys(("rtruediv", "rdiv"), _swapped(graph.divide)),
    **dict.fromkeys(("rmatmul",), _swapped(graph.product)),
    **dict.fromkeys(("neg", "negative"), lambda value: graph.scale(value, -1.0)),
    **dict.fromkeys(("abs", "absolute"), graph.absolute),
    **dict.fromkeys(("clamp", "clip"), _clamp),
    **dict.fromkeys(("clamp_min",), lambda value, low: graph.clip(value, low=low)),
    **dict.fromkeys(("clamp_max",), lambda value, high: graph.clip(value, high=high)),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    **{f"avg_pool{i}d": _average_pool(i) for i in (1, 2, 3)},
    **{f"max_pool{i}d": _max_pool(i) for i in (1, 2, 3)},
    **{f"adaptive_avg_pool{i}d": _adaptive(i, "mean") for i in (1, 2, 3)},
    **{f"adaptive_max_pool{i}d": _adaptive(i, "max") for i in (1, 2, 3)},
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    **dict.fromkeys(("max",), _largest),
    **dict.fromkeys(("amax",), _reduce("max")),
    **dict.fromkeys(("mean",), _reduce("mean")),
    **dict.fromkeys(("sum",), _reduce("sum")),
    "linear": graph.dense,
    "relu": graph.relu,
    "relu6": lambda value: graph.clip(value, 0.0, 6.0),
    "hardtanh": lambda value, min_val=-1.0, max_val=1.0: graph.clip(value, min_val, max_val),
    "hardsigmoid": lambda value: graph.clip(graph.scale(value, 1 / 6, 0.5), 0.0, 1.0),
    "leaky_relu": lambda value, negative_slope=0.01: graph.leaky(value, negative_slope),
    "prelu": _prelu,
    "maximum": graph.maximum,
    "minimum": graph.minimum,
    "tanh": lambda value: graph.smooth(value, "tanh"),
    "gelu": lambda value, approximate="none": graph.smooth(value, "gelu", approximate),
    "silu": lambda value: graph.smooth(value, "silu"),
    "sigmoid": lambda value: graph.tail(value, "Sigmoid"),
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "batch_norm": _batch_norm,
    "pow": graph.power,
    "stack": _stack,
    "pad": _pad,
    "getitem": _item,
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
        message = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"The {type(module).__name__} cannot be copied: {message}") from error
