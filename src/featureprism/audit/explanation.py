"""Which theorem explains this network? Premises and predictions of five papers beside what is measured on someone's own model."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._progress import Progress, no_progress, part
from featureprism.attacks import flip_rate, universal_direction
from featureprism.audit.anatomy import Neurons, Subject, subject
from featureprism.audit.cards import NeuronCard, cards_of, linear_direction
from featureprism.audit.pictures import NONE, Fit, Measures, measures, named, ranked
from featureprism.audit.stages import premises
from featureprism.brackets import RadiusBracket
from featureprism.geometry import row_norms
from featureprism.heads.subclasses import Subclasses
from featureprism.lab.premise import Premise
from featureprism.lab.rows import Row
from featureprism.models.activations import PowerReLU
from featureprism.models.model import as_model
from featureprism.models.scores import ScoreNet
from featureprism.networks import ReLU, SymmetricNet, TwoLayerNet
from featureprism.papers.double_edged import theory as double_edged
from featureprism.papers.feature_averaging import theory as feature_averaging
from featureprism.papers.gmm_flow import theory as gmm_flow
from featureprism.verify.driver import bracket_points
from featureprism.verify.query import Budget, Query

POINTS = 60  # whose radii are bracketed
SEARCHED = 400  # points that a universal direction is looked for on
TWO_CLASSES = "assumption-3-3"  # whose classes are balanced
BEYOND = 1.1  # times the norm that a theorem names: what it says to flip should have flipped here

WORDS = {
    "gmm-flow": (
        "each of its neurons looks at one sub-class alone, as gradient flow on pReLU networks does",
        "It is about as robust as any classifier of these means can be: only data whose means are farther apart would help.",
    ),
    "feature-averaging": (
        "its neurons average the sub-classes of their class, or with a label for each see one alone",
        "Where neurons average, train with finer labels (DecoupledHead) or with a power p > 2 (PReLUHead): both part the sub-classes.",
    ),
    "double-edged": (
        "it is near a KKT point of the maximum-margin problem, which sums the means of each class: it generalises and is easy to fool",
        "Longer training does not help, the margin is already what it maximises; finer labels or neurons with a threshold would.",
    ),
    "feature-amplification": (
        "its random features turned towards clusters that come in opposite pairs, which no linear classifier tells apart",
        "It generalises despite wrong labels when stopped early; longer training starts to learn the wrong labels by heart.",
    ),
    "feature-purification": (
        "its neurons look along sparse directions with a threshold, and clean training leaves a dense mixture in each of them",
        "A short adversarial training that starts here removes the dense mixtures and hardly turns the neurons.",
    ),
}
ELSEWHERE = "No theorem here says what would make it more robust; featureprism audit tries other heads on the same points."


@dataclass(frozen=True)
class Comparison:
    """What a theorem predicts of one quantity beside what was measured: one number, or from proven to attacked."""

    paper: str
    quantity: str
    predicted: float
    measured: float
    proven: float = math.nan  # the lower side, of radii

    def as_row(self) -> Row:
        """A flat row."""
        return {"kind": "comparison", **{name: getattr(self, name) for name in self.__dataclass_fields__}}


@dataclass(frozen=True, eq=False)
class Explanation:
    """One sentence, the pictures in order of fit, the theorems' premises and predictions beside measurements, the cards."""

    sentence: str
    picture: str  # a paper, or "none of these"
    advice: str
    fits: tuple[Fit, ...]
    premises: tuple[Premise, ...]
    comparisons: tuple[Comparison, ...]
    cards: tuple[NeuronCard, ...]
    bracket: RadiusBracket
    subject: Subject

    def __repr__(self) -> str:
        """The sentence, and how well every picture fits."""
        lines = [self.sentence, *(f"  {fit.paper:22s} fits {fit.fit:.2f}" for fit in self.fits)]
        return "\n".join([*lines, self.advice] if self.advice else lines)

    def rows(self) -> list[Row]:
        """Everything as flat rows: the explanation, marks, premises, comparisons, cards."""
        marks = [mark.as_row() | {"paper": fit.paper} for fit in self.fits for mark in fit.marks]
        first: Row = {
            "kind": "explanation",
            "sentence": self.sentence,
            "picture": self.picture,
            "advice": self.advice,
        }
        first |= {f"fit {fit.paper}": fit.fit for fit in self.fits}
        return [
            first,
            *marks,
            *(row.as_row() for part_ in (self.premises, self.comparisons, self.cards) for row in part_),
        ]

    def save(self, folder: Path | str) -> None:
        """Write index.html, a page of its own with figures and cards, and explanation.json."""
        import_module("featureprism.audit.page").save_page(self, Path(folder))


def explain(
    model: Any,
    X: Any,
    y: Any,
    fine: Any = None,
    *,
    num_points: int = POINTS,
    progress: Progress = no_progress,
) -> Explanation:
    """What the neurons of a model learned, and which theorem describes it on these points.

    Theorems are about networks with one hidden layer; of other models only the radii are reported.

    Parameters
    ----------
    model : any model that `robust_radius` takes
        The classifier.
    X : array (n, d)
        Points.
    y : array (n,)
        Their labels.
    fine : array (n,), optional
        Labels finer than y; otherwise clusters are looked for in each class.
    num_points : int
        Points whose radius is bracketed.
    progress : callable, optional
        Called with the share that is done.

    Returns
    -------
    Explanation
        With figures and a summary in words.

    Examples
    --------
    >>> import featureprism as fp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> fp.explain(LogisticRegression(max_iter=500).fit(X, y), X, y).picture
    'none of these'
    """
    if num_points < 1:
        raise ValueError(f"num_points must be at least 1, got {num_points}.")
    of = subject(model, X, y, fine)
    progress(0.2)
    marks = measures(of)
    fits = ranked(marks, of.num_classes) if marks is not None else ()
    progress(0.3)
    bracket = _bracket(of, num_points, part(progress, 0.3, 0.9))
    direction = _universal(of, bracket) if of.num_classes == 2 and of.neurons is not None else None
    order = [fit.paper for fit in fits]
    compared = _comparisons(of, marks, bracket, direction) if marks is not None else []
    compared = tuple(sorted(compared, key=lambda row: order.index(row.paper)))
    required = tuple(_premises(of)) if marks is not None else ()
    cards = cards_of(of, direction) if of.neurons is not None else ()
    picture = named(fits)
    progress(1.0)
    sentence, advice = (
        _sentence(picture, fits, compared, bracket, of),
        WORDS[picture][1] if picture != NONE else ELSEWHERE,
    )
    return Explanation(sentence, picture, advice, fits, required, compared, cards, bracket, of)


def margin_net(neurons: Neurons) -> TwoLayerNet:
    """The margin of two classes on these neurons; without the smoothing of symmetric networks."""
    activation = ReLU() if neurons.p == 1 else PowerReLU(neurons.p)
    return TwoLayerNet(neurons.W, neurons.V[:, 1] - neurons.V[:, 0], neurons.b, activation=activation)


def _margin(of: Subject) -> nn.Module:
    """f whose sign is the label."""
    assert of.neurons is not None
    net = of.model.net
    return net.margin(1, 0) if isinstance(net, ScoreNet) else margin_net(of.neurons)


def _bracket(of: Subject, num_points: int, progress: Progress) -> RadiusBracket:
    model = of.model
    if isinstance(model.net, SymmetricNet):
        assert of.neurons is not None
        model = as_model(margin_net(of.neurons))
        assert model is not None
    rows = torch.linspace(0, len(of.x) - 1, min(num_points, len(of.x))).round().long()
    budget = Budget(branches=1)
    return bracket_points(model, of.x[rows], of.y[rows], Query(), budget, progress=progress)


def _universal(of: Subject, bracket: RadiusBracket) -> Float[Tensor, " d"] | None:
    reach = bracket.half_radius[1]
    if not 0 < reach < math.inf:
        return None
    few = slice(None, None, -(-len(of.x) // SEARCHED))
    return universal_direction(_margin(of), of.x[few], of.signs[few], 1.5 * reach)


def _premises(of: Subject) -> list[Premise]:
    """What the theorems ask of the data; of more than two classes what those on a label for each sub-class ask."""
    scale, d = float(row_norms(of.mu).mean()), of.x.shape[1]
    centre = torch.stack([of.x[of.fine == s].mean(dim=0) for s in range(len(of.parent))])
    conditions = premises(of.x, of.mu, Subclasses(of.fine, (of.parent > of.parent.min()).long(), centre))
    if of.num_classes != 2:
        return [p for p in conditions if not p.id.startswith(TWO_CLASSES)]
    noise = (of.x - centre[of.fine]) / scale * math.sqrt(d)
    sizes = double_edged.MixtureSizes(dim=d, clusters=len(of.mu), sigma=float(noise.std()), points=len(of.x))
    signs = torch.where(of.parent == 1, 1.0, -1.0).double()
    apart = double_edged.separation(sizes, of.mu / scale * math.sqrt(d), signs)
    required = (*double_edged.assumption_2_2(apart), *double_edged.size_conditions(sizes))
    named_ = [
        Premise(p.id, p.name, p.measured, p.relation, p.required, f"double-edged, {p.source}")
        for p in required
    ]
    return [*conditions, *named_]


def _comparisons(
    of: Subject, marks: Measures, bracket: RadiusBracket, direction: Tensor | None
) -> list[Comparison]:
    """Every prediction that speaks of such a network, with its measurement."""
    low, high = bracket.half_radius
    scale = float(row_norms(of.mu).mean())
    far = (
        0.5 * float(torch.pdist(of.mu)[_strangers(of)].min())
        if len(torch.unique(of.parent)) > 1
        else math.nan
    )
    rows = [
        Comparison(
            "gmm-flow", "median radius: half the way to the nearest mean of another class", far, high, low
        ),
        Comparison("gmm-flow", "largest cosine of a neuron with a sub-class mean", 1.0, marks.aligned),
    ]
    if of.num_classes != 2:
        finer = Comparison(
            "feature-averaging",
            "finer labels: median radius, √½ of the norm of the means",
            scale * gmm_flow.LARGEST_RADIUS,
            high,
            low,
        )
        return [*rows, finer]
    rows += _of_two_classes(of, marks, (low, high), scale, direction)
    if marks.antipodal > 0:
        shares = torch.bincount(of.y).double() / len(of.y)
        rows.append(
            Comparison(
                "feature-amplification",
                "accuracy of a linear classifier",
                float(shares.max()),
                marks.linear_accuracy,
            )
        )
    return rows


def _strangers(of: Subject) -> Tensor:
    """Which pairs of sub-classes, in the order of pdist, belong to different classes."""
    i, j = torch.triu_indices(len(of.parent), len(of.parent), 1)
    return of.parent[i] != of.parent[j]


def _of_two_classes(
    of: Subject, marks: Measures, radius: tuple[float, float], scale: float, direction: Tensor | None
) -> list[Comparison]:
    low, high = radius
    (k, d), n = of.mu.shape, len(of.x)
    signs = torch.where(of.parent == 1, 1.0, -1.0).double()
    averaged = scale * feature_averaging.critical_radius(d, k) / math.sqrt(d)
    summed, net, u = double_edged.critical_norm(of.mu, signs), _margin(of), linear_direction(of)
    per_class = max(1, round(k / 2))
    flips: Callable[[float], float] = partial(_flips, net, of, u)
    rows = [
        Comparison("feature-averaging", "median radius: the norm of the means over √k", averaged, high, low),
        Comparison(
            "feature-averaging",
            "cosine of a neuron with each mean of its class",
            feature_averaging.cosine_law(per_class, k, n),
            marks.own_cosine,
        ),
        Comparison(
            "feature-averaging",
            f"share that Σ ±μ flips at {BEYOND:g} times that norm",
            1.0,
            flips(BEYOND * averaged),
        ),
        Comparison("double-edged", "median radius: ‖Σ ±μ‖/k", summed, high, low),
        Comparison(
            "double-edged",
            f"share that Σ ±μ flips at {BEYOND:g} times that norm",
            1.0,
            flips(BEYOND * summed),
        ),
    ]
    if marks.power == 1 and not marks.paired:  # the conditions are those of ReLU networks with free weights
        rows.append(Comparison("double-edged", "residual of the KKT conditions", 0.0, marks.residual))
    if direction is not None:
        rows.append(
            Comparison(
                "double-edged", "cosine of the universal direction with Σ ±μ", 1.0, abs(float(direction @ u))
            )
        )
    return rows + (_of_pairs(of, u, flips(1.5 * high)) if marks.paired else [])


def _of_pairs(of: Subject, u: Tensor, flipped: float) -> list[Comparison]:
    """What feature-purification says of neurons in mirrored pairs."""
    dense = "dense mixture: share of the neurons along Σ ±μ; pure features have 1/d"
    return [
        Comparison("feature-purification", "share that Σ ±μ flips at 1.5 median radii", 1.0, flipped),
        Comparison("feature-purification", dense, 1 / of.mu.shape[1], _along(of, u)),
    ]


def _along(of: Subject, u: Tensor) -> float:
    """Σ_j ⟨w_j, u⟩²/Σ_j ‖w_j‖²."""
    assert of.neurons is not None
    W = of.neurons.W
    return float(((W @ u) ** 2).sum() / (W**2).sum().clamp_min(1e-300))


def _flips(net: nn.Module, of: Subject, u: Tensor, eps: float) -> float:
    return flip_rate(net, of.x, of.signs, eps * u) if 0 < eps < math.inf else math.nan


def _sentence(
    picture: str, fits: tuple[Fit, ...], compared: tuple[Comparison, ...], bracket: RadiusBracket, of: Subject
) -> str:
    """One sentence."""
    low, high = bracket.half_radius
    sides = f"{low:.3g}", f"{high:.3g}"
    both = f"at {sides[0]}, proven and attacked"
    between = f"between {sides[0]} (proven) and {sides[1]} (attacked)"
    broken = f"half of the points break {both if sides[0] == sides[1] else between}"
    if not fits:
        return f"The theorems speak of one hidden layer of ReLU or its powers, which this model does not have; {broken}."
    if picture == NONE:
        worst = min(fits[0].marks, key=lambda mark: mark.fit)
        return (
            f"None of the five pictures fits this network (the nearest, {fits[0].paper}, fails on the {worst.name}: "
            f"{worst.measured:.3g}, wanted is {worst.present:.3g}); {broken}."
        )
    predicted = next((c for c in compared if c.paper == picture and "radius" in c.quantity), None)
    theirs = f", where its theorem says {predicted.predicted:.3g}" if predicted is not None else ""
    kind = "given" if of.is_given else "found"
    return f"This is the picture of {picture}: {WORDS[picture][0]}; {broken}{theirs} ({len(of.parent)} sub-classes {kind})."
