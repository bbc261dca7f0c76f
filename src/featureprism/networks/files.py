"""Networks and data as .npz files, so that anyone can bring their own."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from featureprism.networks.activations import Activation, PolynomialReLU, PowerReLU, ReLU, Tanh
from featureprism.networks.two_layer import TwoLayerNet
from featureprism.records import check_points

NAMES = ("relu", "prelu", "polynomial", "tanh")


def _open(path: Path, needed: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise ValueError(f"Cannot read {path} as an .npz file: {error}.") from error
    missing = [name for name in needed if name not in found]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(found) or 'nothing'}.")
    return found


def _activation(name: str, p: float | None) -> Activation:
    if name in ("prelu", "polynomial") and p is None:
        raise ValueError(f"The activation {name!r} needs p.")
    if name == "relu":
        return ReLU()
    if name == "tanh":
        return Tanh()
    if name == "prelu":
        return PolynomialReLU(float(p or 1))
    if name == "polynomial":
        return PowerReLU(float(p or 1))
    raise ValueError(f"Unknown activation {name!r}; choose one of {', '.join(NAMES)}.")


def load_net(path: Path) -> TwoLayerNet:
    """A network from W (h, d), a (h,), optional b (h,), activation (relu, prelu, polynomial, tanh) and p."""
    found = _open(path, ("W", "a", "activation"))
    activation = _activation(str(found["activation"]), float(found["p"]) if "p" in found else None)
    tensors = [torch.as_tensor(found[name]).double() for name in ("W", "a", "b") if name in found]
    return TwoLayerNet(*tensors, activation=activation)


def save_net(path: Path, net: TwoLayerNet) -> None:
    """The same file, written."""
    name = {ReLU: "relu", Tanh: "tanh", PolynomialReLU: "prelu", PowerReLU: "polynomial"}[
        type(net.activation)
    ]
    arrays = {"W": net.W, "a": net.a} | ({} if net.b is None else {"b": net.b})
    values = {key: value.detach().numpy() for key, value in arrays.items()}
    extra = {"p": np.array(net.activation.p)} if name in ("prelu", "polynomial") else {}
    np.savez(path, **values, **extra, activation=np.array(name))  # pyright: ignore[reportArgumentType]


def load_points(path: Path, dim: int) -> tuple[Tensor, Tensor]:
    """Points x (n, dim) and labels y (n,) in {-1, +1}."""
    found = _open(path, ("x", "y"))
    x, y = torch.as_tensor(found["x"]).double(), torch.as_tensor(found["y"]).double()
    check_points(x, y)
    if x.shape[1] != dim:
        raise ValueError(f"{path} has points of dimension {x.shape[1]}, the network takes {dim}.")
    return x, y
