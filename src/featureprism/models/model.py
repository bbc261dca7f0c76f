"""A classifier as data: the weights that proofs are about, the function that attacks follow, and the names of its classes.

Readers end in a `Model`, and attacks, proofs and files take it from there: nothing downstream asks where it came from.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from featureprism._files import write_whole
from featureprism._labels import class_positions
from featureprism.checker import linear, quadratic
from featureprism.checker.layers import Layers
from featureprism.checker.models import Model as Weights
from featureprism.checker.models import Scores, TwoClasses, input_dim, model_sha256, named_arrays
from featureprism.checker.proofs import Source
from featureprism.checker.scaled import Network
from featureprism.models.activations import (
    Activation,
    PolynomialReLU,
    PowerReLU,
    ReLU,
    Smooth,
    layers_activation,
    of_layers_named,
)
from featureprism.models.one_layer import PowerForm, TwoLayerNet
from featureprism.models.protocols import HasExactRadius, HasInputDirections, HasRadiusBracket
from featureprism.models.scores import (
    LayeredScores,
    LinearScores,
    NeuronMargins,
    PairMargins,
    QuadraticScores,
    ScoreNet,
    SignedMargins,
    TwoScores,
)

UNPROVABLE = (
    "Proofs exist for linear and quadratic models, for layers of ReLU, tanh, GELU or SiLU, "
    "and for one hidden layer of powers of ReLU."
)


class NotANetwork(ValueError):  # noqa: N818
    """A classifier that computes something else than a network does; it can still be called."""


@dataclass(frozen=True, eq=False)
class Model:
    """A classifier in float64: a score for every class, the largest wins; or one output, whose sign decides between two classes.

    Parameters
    ----------
    net
        The function: points (n, d) to scores (n, k), or to one output (n,).
    weights
        The same function as arrays in C order, as the checker reads them; None where no proof can speak of it.
    classes
        The labels in the order of the scores; None where the model does not know them.
    reason
        Why the model could not be read as layers, so that only attacks can measure it; empty where it could.
    origin
        What the model was read from, and by whom.
    has_one_output
        Whether `net` has one output.
    """

    net: nn.Module
    weights: Weights | None = None
    classes: np.ndarray | None = None
    reason: str = ""
    origin: Source = field(default_factory=Source)
    has_one_output: bool = False

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise ValueError(f"A classifier needs at least two classes, got {self.num_classes}.")
        if self.classes is None:
            return
        classes = self.classes
        if classes.ndim != 1 or len(classes) != self.num_classes:
            raise ValueError(
                f"The model has {self.num_classes} scores, classes name {classes.size} of shape {classes.shape}."
            )
        if len(set(classes.tolist())) < len(classes):
            raise ValueError(f"classes must name every class once, got {classes.tolist()[:20]}.")

    @property
    def num_classes(self) -> int:
        """k."""
        return 2 if self.has_one_output else int(getattr(self.net, "num_classes"))  # noqa: B009

    @property
    def dim(self) -> int | None:
        """d; None where only a call could tell."""
        if self.weights is not None:
            return input_dim(self.weights)
        if isinstance(self.net, HasInputDirections):
            return self.net.input_directions().shape[1]
        return getattr(self.net, "dim", None)

    @property
    def sha256(self) -> str:
        """Of the weights (docs/proof_format.md, "Hashes"); empty where there are none."""
        return "" if self.weights is None else model_sha256(self.weights)

    def checkable(self) -> Weights:
        """The weights, or ValueError where no proof can speak of the model."""
        if self.weights is None:
            raise ValueError(UNPROVABLE)
        return self.weights

    def indices(self, y: Any, num_points: int | None = None) -> Int64[Tensor, " n"]:
        """Labels as positions of the scores; refuses labels that the model does not have."""
        positions = class_positions(y, self.classes, self.num_classes)
        if num_points is not None and len(positions) != num_points:
            raise ValueError(f"Need one label per point: {num_points} points, {len(positions)} labels.")
        return torch.from_numpy(positions)

    def scores(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The score of every class; of one output f the two scores 0 and f."""
        return TwoScores(self.net)(x) if self.has_one_output else self.net(x)

    @cached_property
    def one_layer(self) -> PowerForm | None:
        """One hidden layer of powers of ReLU, or None."""
        return PowerForm.of(self.weights) if isinstance(self.weights, Scores | TwoClasses) else None

    @property
    def layers(self) -> Layers | None:
        """Layers of one activation, or None."""
        return self.weights if isinstance(self.weights, Layers) else None

    def margins(self, label: Int[Tensor, " m"], target: Int[Tensor, " m"]) -> nn.Module:
        """A network whose row i is f_label[i] - f_target[i], closed gradients where there is one hidden layer."""
        if (form := self.one_layer) is not None:
            return NeuronMargins(form.W, form.b, form.votes(label, target), _power(form.p))
        if self.has_one_output:
            return SignedMargins(self.net, 2.0 * label.double() - 1)
        if isinstance(self.net, ScoreNet):
            W, V, b = self.net.with_bias_neuron()
            return NeuronMargins(W, b, V.T[label] - V.T[target], self.net.activation)
        return PairMargins(self.net, label, target)

    def with_scores(self) -> "Model":
        """The same classifier with a score for each class: of one output f the two scores 0 and f."""
        if not self.has_one_output:
            return self
        if isinstance(self.net, TwoLayerNet):
            same = as_model(ScoreNet.of(self.net))
            assert same is not None
        else:
            same = Model(TwoScores(self.net)) if self.weights is None else of_weights(self.weights)
        return replace(same, classes=self.classes, reason=self.reason, origin=self.origin)

    def save(self, path: Path) -> bool:
        """Write an .npz file that `read_model` and the checker read; returns whether the model has weights to write."""
        if self.weights is None:
            return False
        form, arrays = named_arrays(self.weights)
        power = "relu" if float(arrays.get("p", np.array(1.0))) == 1 else "polynomial"
        named = {"scores": power, "network": power, "network normalised": "prelu"}
        words: dict[str, Any] = {"activation": named.get(form, form.removeprefix("layers "))}
        words |= {} if self.classes is None else {"classes": self.classes.tolist()}
        origin = {name: getattr(self.origin, name) for name in ("source", "source_sha256", "reader")}
        words |= {name: value for name, value in origin.items() if value}
        content = BytesIO()
        every = arrays | {name: np.array(value) for name, value in words.items()}
        np.savez(content, **every)  # pyright: ignore[reportArgumentType]
        write_whole(path, content.getvalue())
        return True


def of_weights(weights: Weights, **about: Any) -> Model:
    """The model of weights as the checker reads them; `about`: classes and origin."""
    return Model(_net_of(weights), weights, **about, has_one_output=isinstance(weights, TwoClasses))


def of_layers(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], activation: Activation) -> Model:
    """The model of a chain of layers W_i (out, in), b_i (out,); of a single output f the two scores 0 and f."""
    *weights, V = weights
    *biases, c = biases
    if len(V) == 1:
        V, c = np.concatenate([np.zeros_like(V), V]), np.concatenate([np.zeros_like(c), c])
    if not weights:
        return of_weights(linear.LinearScores(V, c))
    if isinstance(activation, Smooth) or (isinstance(activation, ReLU) and len(weights) > 1):
        return of_weights(Layers((*weights, V), (*biases, c), layers_activation(activation)))
    if len(weights) > 1:
        raise ValueError("Several hidden layers are known with ReLU, tanh, GELU or SiLU only.")
    return of_weights(Scores(weights[0], biases[0], np.ascontiguousarray(V.T), c, float(activation.p)))


def _net_of(weights: Weights) -> nn.Module:
    """The function of the weights, in float64."""

    def tensors(*arrays: np.ndarray) -> list[Tensor]:
        return [torch.from_numpy(np.array(a)) for a in arrays]

    match weights:
        case linear.LinearScores():
            net = LinearScores(*tensors(weights.V, weights.c))
        case quadratic.QuadraticScores():
            net = QuadraticScores(*tensors(weights.A, weights.V, weights.c))
        case Scores():
            W, V, b, c = tensors(weights.W, weights.V, weights.b, weights.c)
            net = ScoreNet(W, V, b, c, activation=_power(weights.p))
        case TwoClasses():
            of = weights.network
            activation = PolynomialReLU(of.p) if of.normalised else _power(of.p)
            net = TwoLayerNet(*tensors(of.W, of.a, of.b), activation=activation)
        case Layers() if weights.activation == "tanh" and len(weights.weights) == 2:
            (W, V), (b, c) = tensors(*weights.weights), tensors(*weights.biases)
            net = ScoreNet(W, V.T.contiguous(), b, c, activation=of_layers_named("tanh"))
        case Layers():
            activation = of_layers_named(weights.activation)
            net = LayeredScores(tensors(*weights.weights), tensors(*weights.biases), activation)
    return net.requires_grad_(False).eval()


def _power(p: float) -> Activation:
    return ReLU() if p == 1 else PowerReLU(p)


@singledispatch
def as_model(net: Any) -> Model | None:
    """The model of a network that registers how it becomes one, or that knows its own radius; None for others."""
    knows_its_radius = isinstance(net, HasExactRadius | HasRadiusBracket)
    return Model(plain(cast(nn.Module, net)), has_one_output=True) if knows_its_radius else None


def plain(net: nn.Module) -> nn.Module:
    """A copy in float64 that is not trained any more."""
    return deepcopy(net).double().requires_grad_(False).eval()


def arrays_of(*tensors: Tensor) -> list[np.ndarray]:
    """Copies in float64 and C order."""
    return [np.array(t.detach().double().cpu().numpy(), order="C") for t in tensors]


@as_model.register
def _(net: LinearScores) -> Model:
    return Model(plain(net), linear.LinearScores(*arrays_of(net.V, net.c)))


@as_model.register
def _(net: QuadraticScores) -> Model:
    return Model(plain(net), quadratic.QuadraticScores(*arrays_of(net.A, net.V, net.c)))


@as_model.register
def _(net: ScoreNet) -> Model:
    W, V, b, c = (t.detach().double() for t in (net.W, net.V, net.b, net.c))  # of heads, which know more
    same = ScoreNet(W, V, b, c, activation=net.activation).requires_grad_(False).eval()
    if isinstance(net.activation, Smooth):
        W0, V0, b0, c0 = arrays_of(W, V.T, b, c)
        return Model(same, Layers((W0, V0), (b0, c0), layers_activation(net.activation)))
    W0, b0, V0, c0 = arrays_of(W, b, V, c)
    return Model(same, Scores(W0, b0, V0, c0, float(net.activation.p)))


@as_model.register
def _(net: LayeredScores) -> Model:
    weights, biases = (tuple(arrays_of(*part)) for part in (net.weights, net.biases))
    return Model(plain(net), Layers(weights, biases, layers_activation(net.activation)))


@as_model.register
def _(net: TwoLayerNet) -> Model:
    if net.W.ndim > 2:
        raise ValueError(f"A stack of {len(net.W)} networks was given; choose one, as net[0].")
    W, a = arrays_of(net.W, net.a)
    b = np.zeros(len(a)) if net.b is None else arrays_of(net.b)[0]
    if isinstance(net.activation, Smooth):
        both = W, np.stack([np.zeros_like(a), a])
        weights: Weights = Layers(both, (b, np.zeros(2)), layers_activation(net.activation))
    else:
        p, normalised = float(net.activation.p), net.activation.weight_normalised
        weights = TwoClasses(Network(W, a, b, p, normalised))
    return Model(plain(net), weights, has_one_output=True)
