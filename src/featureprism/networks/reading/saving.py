"""A model that was read, as the plain arrays that proofs are about."""

from io import BytesIO
from pathlib import Path

import numpy as np

from featureprism.files import write_whole
from featureprism.networks.activations import PolynomialReLU, PowerReLU, ReLU, Tanh
from featureprism.networks.reading.classifier import Classifier
from featureprism.networks.scores import LinearScores, ScoreNet
from featureprism.networks.two_layer import TwoLayerNet

NAMES = {ReLU: "relu", Tanh: "tanh", PolynomialReLU: "prelu", PowerReLU: "polynomial"}
PARAMETERS = {LinearScores: ("V", "c"), ScoreNet: ("W", "b", "V", "c"), TwoLayerNet: ("W", "a", "b")}


def save_model(path: Path, model: Classifier) -> bool:
    """Write an .npz file of linear models and those of one hidden layer; returns whether this is one."""
    net = model.net
    names = PARAMETERS.get(type(net))
    if names is None:
        return False
    arrays = {name: getattr(net, name) for name in names if getattr(net, name) is not None}
    values = {name: value.detach().double().numpy() for name, value in arrays.items()}
    if isinstance(net, LinearScores):
        words: dict[str, object] = {"activation": "linear"}
    else:
        assert isinstance(net, ScoreNet | TwoLayerNet)
        words = {"activation": NAMES[type(net.activation)]}
        words |= {"p": net.activation.p} if isinstance(net.activation, PolynomialReLU | PowerReLU) else {}
    words |= {} if model.classes is None else {"classes": np.array(model.classes.tolist())}
    content = BytesIO()
    np.savez(content, **values, **{name: np.array(value) for name, value in words.items()})  # pyright: ignore[reportArgumentType]
    write_whole(path, content.getvalue())
    return True
