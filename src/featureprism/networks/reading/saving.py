"""A model that was read, as the plain arrays that proofs are about."""

from io import BytesIO
from pathlib import Path

import numpy as np

from featureprism.files import write_whole
from featureprism.networks.activations import PolynomialReLU, PowerReLU, ReLU, Tanh
from featureprism.networks.quadratic import QuadraticScores
from featureprism.networks.reading.classifier import Classifier
from featureprism.networks.scores import LayeredScores, LinearScores, ScoreNet
from featureprism.networks.two_layer import TwoLayerNet

NAMES = {ReLU: "relu", Tanh: "tanh", PolynomialReLU: "prelu", PowerReLU: "polynomial"}
PARAMETERS = {
    LinearScores: ("V", "c"),
    QuadraticScores: ("A", "V", "c"),
    ScoreNet: ("W", "b", "V", "c"),
    TwoLayerNet: ("W", "a", "b"),
}


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
