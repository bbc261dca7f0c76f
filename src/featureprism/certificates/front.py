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
from featureprism.certificates.bracket import margin_radius
from featureprism.certificates.canonical import power_form
from featureprism.certificates.classes import class_radius
from featureprism.certificates.deep import as_layers
from featureprism.certificates.pairs import Effort
from featureprism.certificates.record import THREADS, check_readout
from featureprism.checker import linear, quadratic
from featureprism.checker.arrays import read_arrays
from featureprism.checker.models import Model, Scores, TwoClasses, model_sha256, points_sha256
from featureprism.checker.proofs import Proof, Statement, read_proofs
from featureprism.checker.stated import Checked, Stated, checked, file_content
from featureprism.checker.verify import verified_radii
from featureprism.networks import (
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
    bound, ℓ2 and ℓ∞; of tanh: the attack and what norms prove. Anything else: the attack. Misclassified points have radius 0.
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
    bracket = bracket_classifier(read, x, own, effort, starts=starts, lipschitz=lipschitz, progress=progress)
    return replace(bracket, statement=statement_of(read, x, own, effort))


def statement_of(
    model: Classifier, x: Tensor, own: Tensor, effort: Effort, arithmetic: str = "real"
) -> Statement:
    """What the proofs of a bracket are about."""
    sides = (-np.inf, np.inf) if effort.domain is None else effort.domain
    lower, upper = (np.full(x.shape[1], float(side)) for side in sides)
    try:
        sha256 = model_sha256(checkable(model.net))
    except ValueError:  # a model without proofs
        sha256 = ""
    source = replace(model.origin, sha256=sha256)
    classes = None if model.classes is None else model.classes.tolist()
    points = points_sha256(x.detach().double().numpy(), own.numpy())
    return Statement(lower, upper, effort.norm, effort.at, classes, arithmetic, source, points)


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


def check_point(certificate: Any, net: nn.Module, x: Float[Tensor, " d"], y: float) -> bool:
    """Whether the checker, from the weights of the network alone, verifies what is claimed of one point.

    `certificate`: what a bracket holds for the point, one for each rival, or a single one of a network with one output; `y`: -1 or +1
    there, the position of the class for a network with many scores.
    """
    if isinstance(net, BinaryReadout):
        every = list(certificate.values()) if isinstance(certificate, dict) else [certificate]
        return bool(every) and all(check_readout(one, net, x, y) for one in every)
    model = checkable(net)
    own = int(y > 0) if isinstance(net, ONE_OUTPUT) or not isinstance(certificate, dict) else int(y)
    of_rivals = certificate if isinstance(certificate, dict) else {1 - own: certificate}
    proofs = [Proof(0, own, rival, one) for rival, one in of_rivals.items()]
    norm = next((one.norm for one in of_rivals.values()), 2.0)
    claimed = min((one.radius for one in of_rivals.values()), default=0.0)
    points = x.detach().double().numpy()[None]
    with THREADS.limit(limits=1, user_api="blas"):
        return claimed > 0 and bool(
            verified_radii(model, points, np.array([own]), proofs, norm)[0] >= claimed
        )


def check(
    proofs: RadiusBracket | Path | str,
    model: Any,
    X: Any,
    y: Any,
    *,
    norm: float = 2,
    eps: float | None = None,
    bounds: tuple[Any, Any] | None = None,
    classes: Sequence[Any] | None = None,
) -> Checked:
    """Verify proofs from the weights and the points alone, and answer the question that is stated here.

    The checker imports nothing of the search that found the proofs. A file or bracket about another norm, about narrower bounds, about
    another model or about other points is refused.

    Parameters
    ----------
    proofs
        A bracket of `robust_radius`, or the path of a proof file, as `bracket.save` or ``featureprism radius`` write it.
    model, X, y, classes
        As `robust_radius` takes them.
    norm
        2 or inf: the norm of perturbations.
    eps
        The radius in question; None: every radius that the file claims.
    bounds
        (lower, upper) of perturbed points, for all coordinates or for each; None: no bounds.

    Returns
    -------
    Checked
        The verified radius of every point and what it is about; true where nothing that is claimed was refused.

    Raises
    ------
    ValueError
        Where the file is malformed, or is not about what is stated here.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.TwoLayerNet(torch.eye(2).double(), torch.tensor([1.0, -1.0]).double(), activation=fp.ReLU())
    >>> X, y = torch.tensor([[3.0, 1.0]]).double(), torch.tensor([1.0]).double()
    >>> bracket = fp.robust_radius(net, X, y)
    >>> print(fp.check(bracket, net, X, y, norm=2, eps=1.0))
    at ℓ2 radius 1, 1 of 1 points is proven to keep its class
    """
    if isinstance(proofs, RadiusBracket):
        content, name = proofs.content(), "the bracket"
    else:
        content, name = file_content(Path(proofs)), str(proofs)
    read = opened(model, classes, probe=X)
    x = as_points(X).numpy()
    labels = read.indices(y, len(x)).numpy()
    question = Stated(norm, eps, bounds)
    with THREADS.limit(limits=1, user_api="blas"):
        return checked(read_proofs(content, name), checkable(read.net), x, labels, question)


def checkable(net: nn.Module) -> Model:
    """The network as the checker reads it."""
    if isinstance(net, LinearScores):
        return linear.LinearScores(*(_array(t) for t in (net.V, net.c)))
    if isinstance(net, QuadraticScores):
        return quadratic.QuadraticScores(*(_array(t) for t in (net.A, net.V, net.c)))
    if isinstance(net, ScoreNet) and not isinstance(net.activation, Tanh):
        W, b, V, c = (_array(t) for t in (net.W, net.b, net.V, net.c))
        return Scores(W, b, V, c, float(net.activation.p))
    if (layers := as_layers(net)) is not None:
        return layers
    form = power_form(net) if isinstance(net, TwoLayerNet) else None
    if form is None:
        raise ValueError(
            "Proofs exist for linear and quadratic models, for layers of ReLU or tanh, and for one hidden layer of powers of ReLU."
        )
    return TwoClasses(form.network)


def _array(tensor: Tensor) -> np.ndarray:
    """In float64 and C order, whatever the order of the tensor."""
    return np.array(tensor.detach().double().numpy(), order="C")
