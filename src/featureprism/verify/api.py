"""How far is this model, as it is, from breaking on these points?"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from featureprism._features import as_weights, query_weights, spread_of
from featureprism._inputs import as_points, feature_names
from featureprism._progress import Progress, no_progress
from featureprism._threads import one_blas_thread
from featureprism.attacks import Start
from featureprism.attacks.gradient import in_double
from featureprism.brackets import RadiusBracket
from featureprism.checker.models import points_sha256
from featureprism.checker.proofs import ARITHMETICS, Statement, read_proofs
from featureprism.checker.stated import Checked, Stated, checked, file_content
from featureprism.geometry import check_domain
from featureprism.models import Model, read_model
from featureprism.models.model import NotANetwork, as_model
from featureprism.verify.driver import bracket_points
from featureprism.verify.float32 import Program, bracket_float32
from featureprism.verify.query import Budget, Query, as_norm
from featureprism.verify.weights import finite_weights

SECONDS = 5.0  # CPU seconds for each point of a call, unless a budget is given


def robust_radius(
    model: Any,
    X: Any,
    y: Any,
    *,
    norm: Any = 2,
    eps: float | None = None,
    bounds: Any = None,
    weights: Any = None,
    fixed: Any = None,
    unit: str | None = None,
    reference: Any = None,
    budget: Budget | None = None,
    gap: float = 0.01,
    max_radius: float | None = None,
    classes: Sequence[Any] | None = None,
    output: str | int | None = None,
    starts: Sequence[Start] | None = None,
    lipschitz: float | None = None,
    arithmetic: str = "real",
    progress: Progress = no_progress,
) -> RadiusBracket:
    """Distance of every point to the next point that the model takes for another class: proven below, witnessed above.

    Parameters
    ----------
    model : torch module, scikit-learn classifier or Pipeline, path, featureprism network, or function
        A torch module gives logits (n, k), or one output whose sign decides. A path names an .onnx or .npz file. Trees, forests,
        gradient boosting, nearest neighbours and kernel machines are bounded by what they are; any other classifier with `predict`,
        and any function that gives labels (n,) or scores (n, k), is attacked by its answers alone, and nothing is proven of it.
    X : array of shape (n, d)
        Points, in whatever holds them. Radii are in the units of X.
    y : array of shape (n,)
        Labels as the model knows them.
    norm : {2, math.inf, "l2", "linf"}
        Norm of perturbations.
    eps : float, optional
        Ask the cheaper question of robust accuracy: does each point keep its class within eps? A point is finished once it is
        proven beyond eps or flipped within, and `attacked` is infinite where nothing within eps flips.
    bounds : (lower, upper), optional
        Perturbed points keep every coordinate in this interval, as pixels must; X has to lie in it too. Two numbers, or two arrays
        (d,) with a bound for each feature, infinite where there is none.
    weights : array of shape (d,), optional
        Radii are norms of weights·δ: a feature with a large weight is dear to change. math.inf fixes a feature.
    fixed : sequence, optional
        Features that do not change: positions, names of columns, or a mask.
    unit : {"std"}, optional
        Radii in standard deviations of each feature, over `reference`. Features that never vary there are fixed.
    reference : array of shape (m, d), optional
        Data that the standard deviations are taken from, as the training data (default: X).
    budget : Budget, optional
        CPU seconds and branches that the call may use. The default is five CPU seconds for each point, shared by all points.
    gap : float
        A bracket is closed when certified ≥ (1 - gap)·attacked.
    max_radius : float, optional
        The attack looks no farther (default: four times the length of each point).
    classes : sequence, optional
        Names of the model's outputs, where it does not know them.
    output : str or int, optional
        Which output of a torch module holds the scores, where it returns a dict or a tuple (default: "logits" if it is there).
    starts : sequence of Start, optional
        Where the attack on a network with one output starts.
    lipschitz : float, optional
        A Lipschitz constant of the margin of a network with one output; nothing else is proven then.
    arithmetic : {"real", "float32"}
        Whose answers are proven: those of the network in real numbers, or those of the given model as a program in float32, whose
        class must win by more than all rounding errors. The latter takes linear layers with ReLU between them.
    progress : callable
        Called with the share that is done.

    Returns
    -------
    RadiusBracket
        Misclassified points have radius 0. An interrupt keeps what is finished.

    Raises
    ------
    ValueError
        For models, points, labels and options that cannot be used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neural_network import MLPClassifier
    >>> import featureprism as fp
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier((8,), solver="lbfgs", alpha=0.1, max_iter=500, random_state=0)
    >>> bracket = fp.robust_radius(model.fit(X, y), X[::30], y[::30])
    >>> bool((bracket.certified <= bracket.attacked).all()), len(bracket)
    (True, 5)
    """
    if lipschitz is not None and not 0 < lipschitz < inf:
        raise ValueError(f"lipschitz must be positive and finite, got {lipschitz}.")
    if arithmetic not in ARITHMETICS:
        raise ValueError(f'arithmetic must be "real" or "float32", got {arithmetic!r}.')
    in_float32 = arithmetic == "float32"
    if in_float32 and not (lipschitz is None and starts is None):
        raise ValueError('arithmetic="float32" takes neither starts nor lipschitz.')
    if in_float32 and as_norm(norm) == 1:
        raise ValueError('arithmetic="float32" takes the norms 2 and inf.')
    x, features = as_points(X), feature_names(X)
    spread = spread_of(x.numpy(), None if reference is None else as_points(reference).numpy())
    weighted = query_weights(unit, weights, fixed, spread, features)
    if weighted is not None and (in_float32 or lipschitz is not None):
        raise ValueError(
            'weights, fixed and unit are not for arithmetic="float32", nor for a given lipschitz.'
        )
    query = Query(as_norm(norm), eps, _sides(bounds), max_radius, gap, weighted)
    about = {"points": x.numpy(), "features": features, "spread": spread, "unit": unit or ""}
    budget = budget or Budget(seconds=SECONDS * max(1, len(x)))
    if lipschitz is None:
        model = _with_output(model, output, X)
        try:
            read = read_model(model, classes, probe=X)
        except NotANetwork as error:
            bracket = _only_called(model, classes, X, y, query, budget, str(error))
            statement = Statement(*_bound_arrays(query, x.shape[1]), query.norm, query.eps)
            return replace(bracket, statement=statement, **about)
        read = read if weighted is None else read.with_scores()
    else:
        if not isinstance(model, torch.nn.Module):
            raise ValueError(f"lipschitz takes a torch module with one output, got {type(model).__name__}.")
        read = Model(
            in_double(model),
            classes=None if classes is None else np.array(list(classes)),
            has_one_output=True,
        )
    label = read.indices(y, len(x))
    if in_float32:
        bracket = bracket_float32(model, read, x, label, query, budget, progress)
    else:
        try:
            bracket = bracket_points(
                read, x, label, query, budget, starts=starts, lipschitz=lipschitz, progress=progress
            )
        except RuntimeError as error:
            if "does not require grad" not in str(error):
                raise
            bracket = _only_called(
                lambda z: read.scores(torch.from_numpy(z)).detach().numpy(),
                read.classes,
                X,
                y,
                query,
                budget,
                "the module gives no gradient (no_grad in its forward pass?)",
            )
    return replace(bracket, statement=statement_of(read, x, label, query, arithmetic), **about)


def _with_output(model: Any, output: Any, X: Any) -> Any:
    """The part of a torch module that gives the scores; networks that are read as they are stay so."""
    if output is None and (not isinstance(model, nn.Module) or as_model(model) is not None):
        return model
    from featureprism.models.reading.foreign import with_output

    return with_output(model, output, X)


def _only_called(
    model: Any, classes: Any, X: Any, y: Any, query: Query, budget: Budget, why: str
) -> RadiusBracket:
    """A model that is no network: what its kind has a bound for, and an attack by its answers alone."""
    from featureprism.verify.called.bracket import bracket_called, called_model

    x = as_points(X).numpy()
    if isinstance(model, str | Path):
        from featureprism.models.reading.runtime import OnnxProgram

        model = OnnxProgram(Path(model).expanduser())
    if query.bounds is not None:
        check_domain(as_points(X), query.bounds)
    reason = why.split(";")[0].rstrip(".")
    reason = f"{reason[0].lower()}{reason[1:]}, so it is attacked by its answers alone"
    return bracket_called(called_model(model, classes, x, X, y, reason), x, y, query, budget)


def _sides(bounds: Any) -> tuple[Any, Any] | None:
    """Bounds as two numbers, or as two arrays of float64."""
    if bounds is None:
        return None
    try:
        lower, upper = (np.asarray(side, dtype=np.float64) for side in bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"bounds must be a pair (lower, upper) of numbers or of arrays (d,), got {bounds!s:.60}."
        ) from error
    return tuple(float(side) if side.ndim == 0 else side for side in (lower, upper))  # pyright: ignore[reportReturnType]


def _bound_arrays(query: Query, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """(d,) Lower and upper bounds, infinite where there are none."""
    lower, upper = (-np.inf, np.inf) if query.bounds is None else query.bounds
    low, high = (np.broadcast_to(np.asarray(s, dtype=np.float64), (dim,)).copy() for s in (lower, upper))
    return low, high


def statement_of(model: Model, x: Tensor, label: Tensor, query: Query, arithmetic: str = "real") -> Statement:
    """What the proofs of a bracket are about."""
    lower, upper = _bound_arrays(query, x.shape[1])
    weights = None if query.weights is None else finite_weights(model, query.weights)
    source = replace(model.origin, sha256=model.sha256)
    classes = None if model.classes is None else model.classes.tolist()
    points = points_sha256(x.detach().double().numpy(), label.numpy())
    return Statement(lower, upper, query.norm, query.eps, classes, arithmetic, source, points, weights)


def check(
    proofs: RadiusBracket | Path | str,
    model: Any,
    X: Any,
    y: Any,
    *,
    norm: Any = 2,
    eps: float | None = None,
    bounds: Any = None,
    arithmetic: str = "real",
    weights: Any = None,
    fixed: Any = None,
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
    arithmetic
        "float32": proofs about real numbers are refused.
    weights, fixed
        As `robust_radius` takes them: proofs about smaller regions are refused.

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
    >>> net = fp.networks.TwoLayerNet(torch.eye(2).double(), torch.tensor([1.0, -1.0]).double(), activation=fp.networks.ReLU())
    >>> X, y = torch.tensor([[3.0, 1.0]]).double(), torch.tensor([1.0]).double()
    >>> bracket = fp.robust_radius(net, X, y)
    >>> print(fp.check(bracket, net, X, y, norm=2, eps=1.0))
    at ℓ2 radius 1, 1 of 1 points is proven to keep its class
    """
    if not isinstance(proofs, RadiusBracket | str | Path):
        raise ValueError(
            f"proofs must be a bracket or the path of a proof file, got {type(proofs).__name__}."
        )
    if isinstance(proofs, RadiusBracket):
        content, name = proofs.content(), "the bracket"
    else:
        content, name = file_content(Path(proofs)), str(proofs)
    x = as_points(X).numpy()
    file = read_proofs(content, name)
    weighted = as_weights(weights, fixed, x.shape[1], feature_names(X))
    read = read_model(model, classes, probe=X)
    read = read if file.statement.weights is None else read.with_scores()
    labels = read.indices(y, len(x)).numpy()
    question = Stated(as_norm(norm), eps, bounds, arithmetic, weighted)
    if file.statement.arithmetic == "float32":
        Program.of(model, read)  # refuses a model that computes otherwise than its weights say
    with one_blas_thread():
        return checked(file, read.checkable(), x, labels, question)


def feature_radii(
    model: Any,
    X: Any,
    y: Any,
    *,
    features: Sequence[Any] | None = None,
    bounds: Any = None,
    max_radius: float | None = None,
    budget: Budget | None = None,
    classes: Sequence[Any] | None = None,
) -> dict[Any, RadiusBracket]:
    """Least change of a single feature that changes the answer: proven below, witnessed above.

    Parameters
    ----------
    model, X, y, bounds, max_radius, classes
        As `robust_radius` takes them.
    features : sequence, optional
        Positions or names of the features that are asked about (default: all of them).
    budget : Budget, optional
        What each feature may cost.

    Returns
    -------
    dict
        For each feature, by its name where X has names, the bracket of all points with every other feature fixed, in the
        feature's own units.

    Raises
    ------
    ValueError
        For features that X does not have, and for what `robust_radius` refuses.

    Examples
    --------
    >>> import torch
    >>> from featureprism.verify import feature_radii
    >>> net = torch.nn.Linear(2, 2).double()
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 0.5], [0.0, 0.0]])), net.bias.data.zero_()
    >>> radii = feature_radii(net, [[1.0, 1.0]], [0])
    >>> [round(float(bracket.attacked[0]), 3) for bracket in radii.values()]
    [1.5, 3.0]
    """
    dim, names = as_points(X).shape[1], feature_names(X)
    keys: list[Any] = list(range(dim)) if names is None else list(names)
    brackets = {}
    for feature in keys if features is None else features:
        if feature not in keys and feature not in range(dim):
            raise ValueError(
                f"{feature!r} is no feature of X; names of its columns or positions below {dim} are wanted."
            )
        at = keys.index(feature) if feature in keys else int(feature)
        brackets[keys[at]] = robust_radius(
            model,
            X,
            y,
            norm=inf,
            bounds=bounds,
            fixed=[j for j in range(dim) if j != at],
            max_radius=max_radius,
            budget=budget,
            classes=classes,
        )
    return brackets
