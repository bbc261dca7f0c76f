"""The front door: how far is this model, as it is, from breaking on these points?"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.attacks import Start
from featureprism.brackets import NOT_CERTIFIED
from featureprism.certificates import margins as deep_margins
from featureprism.certificates.bracket import margin_radius
from featureprism.certificates.canonical import power_form
from featureprism.certificates.classes import class_radius
from featureprism.certificates.deep import as_layers
from featureprism.certificates.pairs import Effort
from featureprism.certificates.record import check as check_margin
from featureprism.checker import linear, quadratic
from featureprism.checker.models import Model, Scores, TwoClasses
from featureprism.checker.proofs import Proof
from featureprism.checker.verify import verified_radii
from featureprism.files import read_arrays
from featureprism.networks import (
    MLP,
    BayesClassifier,
    BinaryReadout,
    LinearScores,
    QuadraticScores,
    ScoreNet,
    Tanh,
    TwoLayerNet,
    load_net,
)
from featureprism.networks.protocols import HasExactRadius
from featureprism.networks.reading import Classifier, as_points, read_model
from featureprism.records import Progress, RadiusBracket, silent

ONE_OUTPUT = (TwoLayerNet, BinaryReadout, BayesClassifier, HasExactRadius)  # whose sign is the class


def robust_radius(
    model: Any,
    X: Any,
    y: Any,
    *,
    norm: float = 2,
    gap: float = 0.01,
    seconds_per_point: float = 1.0,
    max_cells: int = 500,
    classes: Sequence[Any] | None = None,
    starts: Sequence[Start] | None = None,
    upper: float | None = None,
    lipschitz: float | None = None,
    domain: tuple[float, float] | None = None,
    at: float | None = None,
    progress: Progress = silent,
) -> RadiusBracket:
    """Per point a proven lower and a witnessed upper bound of the distance to the next point that the model takes for another class.

    `model`: a torch module (logits (n, k), or one output whose sign decides), a fitted scikit-learn classifier or Pipeline, the path
    of an .onnx or .npz file, or one of our networks and heads. `X`: rows of numbers in whatever holds them; radii are in the units
    of X. `y`: labels as the model knows them; `classes` names the model's outputs where it does not.

    One hidden layer of ReLU (or its powers), any number of classes: attack, CROWN and branch and bound until certified ≥
    (1 - gap)·attacked, or until the time or the cells are used up (a limit in cells repeats exactly, one in seconds does not). Linear
    models and Gaussian classes: closed forms. Several hidden layers of ReLU: the attack, CROWN, quadratic proofs and their branch and
    bound, ℓ2 and ℓ∞; of tanh: the attack and what norms prove. Everything that is linear in pieces (convolutions, pooling, leaky and
    clipped ReLUs, residual sums) is rewritten exactly as such layers while they fit into memory. Anything else: the attack, and
    `method` says "not certified yet" and why. Misclassified points have radius 0.
    `domain=(lo, hi)`: perturbed points keep every coordinate in that interval, as pixels must; X has to lie in it too. `starts` and
    `lipschitz` are for networks with one output; `upper` limits the attack (default 4 max‖x‖).

    `at=eps` asks the cheaper question of robust accuracy, whether each point holds at that one radius: it is finished once it is
    proven beyond eps or flipped within, `attacked` is infinite where nothing within eps flips, and `bracket.accuracy([eps])` is the
    proven and the attacked share. An interrupt keeps what is finished; points it left have the method "interrupted".

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neural_network import MLPClassifier
    >>> import featureprism as fp
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier((8,), solver="lbfgs", alpha=0.1, max_iter=500, random_state=0)
    >>> bracket = fp.robust_radius(model.fit(X, y), X[::30], y[::30])
    >>> bool((bracket.certified <= bracket.attacked).all()), len(bracket)
    (True, 5)
    """
    effort = Effort(norm, gap, seconds_per_point, max_cells, upper, domain, at)
    x = as_points(X)
    read = opened(model, classes, probe=X) if lipschitz is None else Classifier(model, _named(classes))
    own = read.indices(y, len(x))
    return bracket_classifier(read, x, own, effort, starts=starts, lipschitz=lipschitz, progress=progress)


def opened(model: Any, classes: Sequence[Any] | None = None, *, probe: Any = None) -> Classifier:
    """The model as a network with its labels; our networks with one output, and .npz files of such, stay as they are."""
    if isinstance(model, nn.Module) and isinstance(model, ONE_OUTPUT):
        return Classifier(model, _named(classes))
    if isinstance(model, str | Path) and Path(model).suffix.lower() == ".npz":
        found = read_arrays(Path(model))
        if "a" in found and not {"c", "V", "owner"} & found.keys():
            return Classifier(
                load_net(Path(model)), found.get("classes") if classes is None else _named(classes)
            )
    return read_model(model, classes, probe=probe)


def _named(classes: Sequence[Any] | None) -> np.ndarray | None:
    return None if classes is None else np.array(list(classes))


def bracket_classifier(
    model: Classifier,
    x: Float[Tensor, "n d"],
    own: Int[Tensor, " n"],
    effort: Effort,
    *,
    starts: Sequence[Start] | None = None,
    lipschitz: float | None = None,
    targets: Float[Tensor, "t d"] | None = None,
    progress: Progress = silent,
) -> RadiusBracket:
    """The same for a model that was read, points as rows, and labels as positions among its classes; `targets`: see `class_radius`."""
    began = time.perf_counter()
    if isinstance(model.net, ONE_OUTPUT) or lipschitz is not None:
        options = {"starts": starts, "upper": effort.upper, "lipschitz": lipschitz}
        options |= {"domain": effort.domain, "at": effort.at}
        limits = {
            "gap": effort.gap,
            "seconds_per_point": effort.seconds_per_point,
            "max_cells": effort.max_cells,
        }
        signs = 2.0 * own.double() - 1
        bracket = margin_radius(model.net, x, signs, norm=effort.norm, progress=progress, **limits, **options)
        return _of_two_classes(bracket, own, model.classes)
    if starts is not None:
        raise ValueError("starts are for networks with one output; models with many scores choose their own.")
    bracket = class_radius(model.net, x, own, effort, targets=targets, progress=progress)
    progress(1.0)
    if model.reason:
        told = f"{NOT_CERTIFIED}: {model.reason}"
        bracket = replace(bracket, method=tuple(told if m == "not certified" else m for m in bracket.method))
    return replace(bracket, classes=model.classes, seconds=(time.perf_counter() - began) / len(x))


def _of_two_classes(bracket: RadiusBracket, own: Tensor, classes: np.ndarray | None) -> RadiusBracket:
    """The bracket of a network with one output, with the names of things that models of many classes have."""
    wrong = bracket.attacked == 0
    proofs = tuple({1 - int(c): proof} for c, proof in zip(own, bracket.certificates, strict=False))
    return replace(
        bracket,
        label=own,
        predicted=torch.where(wrong, 1 - own, own),
        rival=1 - own,
        certificates=proofs,
        classes=classes,
    )


def check(certificate: Any, net: nn.Module, x: Float[Tensor, " d"], y: float) -> bool:
    """Whether the checker, from the weights of the network alone, grants what is claimed of a point; a malformed claim is refused.

    `certificate`: what a bracket holds for the point, one for each rival, or a single one of a network with one output; `y`: -1 or +1
    there, the position of the class for a network with many scores.

    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.TwoLayerNet(torch.eye(2).double(), torch.tensor([1.0, -1.0]).double(), activation=fp.ReLU())
    >>> x, y = torch.tensor([[3.0, 1.0]]).double(), torch.tensor([1.0]).double()
    >>> bracket = fp.robust_radius(net, x, y)
    >>> fp.check(bracket.certificates[0], net, x[0], 1.0)
    True
    """
    every = list(certificate.values()) if isinstance(certificate, dict) else [certificate]
    alone = isinstance(net, MLP) and not isinstance(certificate, dict)
    if (isinstance(net, TwoLayerNet) or alone) and (layers := as_layers(net)) is not None:
        return bool(every) and all(deep_margins.check_margin(one, layers, x, y) for one in every)
    if isinstance(net, TwoLayerNet | BinaryReadout):
        return bool(every) and all(check_margin(one, net, x, y) for one in every)
    if not isinstance(certificate, dict):
        raise ValueError(
            "A network with many scores needs a certificate for each rival, as its brackets hold them."
        )
    proofs = [Proof(0, int(y), rival, one) for rival, one in certificate.items()]
    points, labels = x.detach().double().numpy()[None], np.array([int(y)])
    norm = next((one.norm for one in certificate.values()), 2.0)
    claimed = min((one.radius for one in certificate.values()), default=0.0)
    return claimed > 0 and bool(verified_radii(checkable(net), points, labels, proofs, norm)[0] >= claimed)


def checkable(net: nn.Module) -> Model:
    """The network as the checker reads it."""
    if isinstance(net, LinearScores):
        return linear.LinearScores(*(t.detach().double().numpy() for t in (net.V, net.c)))
    if isinstance(net, QuadraticScores):
        return quadratic.QuadraticScores(*(t.detach().double().numpy() for t in (net.A, net.V, net.c)))
    if isinstance(net, ScoreNet) and not isinstance(net.activation, Tanh):
        W, b, V, c = (t.detach().double().numpy() for t in (net.W, net.b, net.V, net.c))
        return Scores(W, b, V, c, float(net.activation.p))
    if (layers := as_layers(net)) is not None:
        return layers
    form = power_form(net) if isinstance(net, TwoLayerNet) else None
    if form is None:
        raise ValueError(
            "Proofs exist for linear and quadratic models, for layers of ReLU or tanh, and for one hidden layer of powers of ReLU."
        )
    return TwoClasses(form.network)
