"""Networks of any number of classes as .npz files, read and written."""

from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from featureprism.checker.arrays import read_arrays, real_number, real_numbers
from featureprism.files import write_whole
from featureprism.models.activations import PolynomialReLU, PowerReLU, ReLU, Tanh
from featureprism.models.files import activation_of, lacks, weights_of
from featureprism.models.quadratic import QuadraticScores
from featureprism.models.reading.classifier import Classifier
from featureprism.models.scores import LayeredScores, LinearScores, ScoreNet
from featureprism.models.two_layer import TwoLayerNet

NAMES = {ReLU: "relu", Tanh: "tanh", PolynomialReLU: "prelu", PowerReLU: "polynomial"}
PARAMETERS = {
    LinearScores: ("V", "c"),
    QuadraticScores: ("A", "V", "c"),
    ScoreNet: ("W", "b", "V", "c"),
    TwoLayerNet: ("W", "a", "b"),
}


def read_archive(
    path: Path,
) -> tuple[ScoreNet | LinearScores | QuadraticScores | LayeredScores, np.ndarray | None]:
    """W (h, d), optional b (h,), then a (h,) or V (h, k), optional c, activation, p, classes; or a saved head.

    The activation "linear" stands for the scores Vx + c: V (k, d), optional c (k,); "quadratic" for Vx + c - ½ xᵀAx, A (k, d, d).
    Several hidden layers: W1, b1, W2, b2, … and the activation relu or tanh.
    """
    found = read_arrays(path)
    if "W1" in found:
        return _deep(found, path).double().requires_grad_(False).eval(), _classes(found)
    if str(found.get("activation")) == "quadratic":
        lacks(found, ("A", "V", "c"), path)
        try:
            net = QuadraticScores(*(torch.tensor(real_numbers(found[name], name)) for name in "AVc"))
            return net.double().requires_grad_(False).eval(), _classes(found)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    is_head = {"owner", "votes", "classes"} <= found.keys()
    is_linear = str(found.get("activation")) == "linear"
    votes = ("V",) if is_linear else () if is_head or "V" in found else ("a",)
    weights = () if is_linear else ("W",)
    lacks(found, (*weights, *votes, *(("p",) if is_head else ("activation",))), path)
    try:
        net = _linear(found) if is_linear else _head(found) if is_head else _net(found)
        return net.double().requires_grad_(False).eval(), _classes(found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _deep(found: dict[str, np.ndarray], path: Path) -> LayeredScores:
    depth = sum(name.startswith("W") for name in found)
    lacks(found, (*(f"{n}{i + 1}" for i in range(depth) for n in "Wb"), "activation"), path)
    try:
        activation = activation_of(str(found["activation"]), None)
        if depth < 2 or not isinstance(activation, ReLU | Tanh):
            raise ValueError("several layers have the activation relu or tanh between them.")
        weights, biases = ([weights_of(found[f"{n}{i + 1}"], n) for i in range(depth)] for n in "Wb")
        return LayeredScores(weights, biases, activation)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _linear(found: dict[str, np.ndarray]) -> LinearScores:
    if extra := [name for name in ("W", "a", "b", "p") if name in found]:
        raise ValueError(f"A linear model has V (k, d) and c (k,) only, got {', '.join(extra)} too.")
    V, c = weights_of(found["V"], "V"), _vector(found, "c")
    if c is not None and len(c) != len(V):
        raise ValueError(f"c must have the shape ({len(V)},), got ({len(c)},).")
    return LinearScores(V, torch.zeros(len(V), dtype=V.dtype) if c is None else c)


def _net(found: dict[str, np.ndarray]) -> ScoreNet:
    p = real_number(found["p"], "p") if "p" in found else None
    activation = activation_of(str(found["activation"]), p)
    if {"a", "V"} <= found.keys():
        raise ValueError("It has both a and V; keep a (h,) for two classes, V (h, k) for more.")
    W, b, c = weights_of(found["W"], "W"), _vector(found, "b"), _vector(found, "c")
    if "a" in found:
        net = ScoreNet.of(TwoLayerNet(W, weights_of(found["a"], "a"), b, activation=activation))
        return net if c is None else _with_bias(net, c)
    V = weights_of(found["V"], "V")
    if len(V) != len(W):
        raise ValueError(f"V must have one row for each of the {len(W)} neurons, got {tuple(V.shape)}.")
    for name, vector, size in (("b", b, len(W)), ("c", c, V.shape[1])):
        if vector is not None and len(vector) != size:
            raise ValueError(f"{name} must have the shape ({size},), got ({len(vector)},).")
    if isinstance(activation, PolynomialReLU):  # ‖w‖[⟨w/‖w‖, x⟩ + b/‖w‖]₊^p; a zero neuron gives 0
        norms = torch.linalg.vector_norm(W, dim=1)
        unit = norms.clamp_min(torch.finfo(W.dtype).tiny)
        W, V = W / unit[:, None], V * norms[:, None]
        b = None if b is None else torch.where(norms > 0, b / unit, 0.0)
        activation = PowerReLU(activation.p)
    return ScoreNet(W, V, b, c, activation=activation)


def _with_bias(net: ScoreNet, c: Tensor) -> ScoreNet:
    """Of a single output f + c the scores 0 and f + c; or a c for each of the two."""
    if len(c) not in (1, 2):
        raise ValueError(f"c must be one number, or one for each of two classes, got {len(c)}.")
    both = torch.cat([torch.zeros_like(c), c]) if len(c) == 1 else c
    return ScoreNet(net.W, net.V, net.b, both, activation=net.activation)


def _vector(found: dict[str, np.ndarray], name: str) -> Tensor | None:
    return weights_of(np.atleast_1d(found[name]), name) if name in found else None


def _head(found: dict[str, np.ndarray]) -> ScoreNet:
    """Each neuron votes for the class that owns it."""
    W, votes, owner = weights_of(found["W"], "W"), weights_of(found["votes"], "votes"), found["owner"]
    num_classes, p = found["classes"].size, real_number(found["p"], "p")
    if (
        owner.dtype.kind not in "iu"
        or owner.shape != votes.shape
        or not 0 <= owner.min() <= owner.max() < num_classes
    ):
        raise ValueError("owner must name a class of every neuron, from 0 to the number of classes less 1.")
    if len(votes) != len(W):
        raise ValueError(f"Need one vote for each of the {len(W)} neurons, got {len(votes)}.")
    V = votes[:, None] * torch.nn.functional.one_hot(torch.as_tensor(owner).long(), num_classes)
    return ScoreNet(W, V, _vector(found, "b"), activation=ReLU() if p == 1 else PowerReLU(p))


def _classes(found: dict[str, np.ndarray]) -> np.ndarray | None:
    if "classes" not in found:
        return None
    classes = found["classes"]
    if classes.dtype.kind in "f":
        real_numbers(classes, "classes")
    return classes


def save_model(path: Path, model: Classifier) -> bool:
    """Write an .npz file of linear models and networks of layers; returns whether this is one."""
    net = model.net
    names = PARAMETERS.get(type(net))
    if isinstance(net, LayeredScores):
        return _write(path, _of_layers(net), {"activation": NAMES[type(net.activation)]}, model)
    if names is None:
        return False
    arrays = {name: getattr(net, name) for name in names if getattr(net, name) is not None}
    values = {name: value.detach().double().numpy() for name, value in arrays.items()}
    if isinstance(net, LinearScores):
        words: dict[str, object] = {"activation": "linear"}
    elif isinstance(net, QuadraticScores):
        words = {"activation": "quadratic"}
    else:
        assert isinstance(net, ScoreNet | TwoLayerNet)
        words = {"activation": NAMES[type(net.activation)]}
        words |= {"p": net.activation.p} if isinstance(net.activation, PolynomialReLU | PowerReLU) else {}
    return _write(path, values, words, model)


def _of_layers(net: LayeredScores) -> dict[str, np.ndarray]:
    """W1, b1, W2, b2, …"""
    layers = zip(net.weights, net.biases, strict=True)
    return {
        f"{name}{i + 1}": value.detach().double().numpy()
        for i, layer in enumerate(layers)
        for name, value in zip("Wb", layer, strict=True)
    }


def _write(path: Path, values: dict[str, np.ndarray], words: dict[str, object], model: Classifier) -> bool:
    """In float64 and C order, with the classes and what the network was read from."""
    words = words | ({} if model.classes is None else {"classes": np.array(model.classes.tolist())})
    origin = {name: getattr(model.origin, name) for name in ("source", "source_sha256", "reader")}
    words |= {name: value for name, value in origin.items() if value}
    arrays = {name: np.ascontiguousarray(value) for name, value in values.items()}
    arrays |= {name: np.array(value) for name, value in words.items()}
    content = BytesIO()
    np.savez(content, **arrays)  # pyright: ignore[reportArgumentType]
    write_whole(path, content.getvalue())
    return True
