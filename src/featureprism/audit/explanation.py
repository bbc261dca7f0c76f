"""What does this network look at, what breaks it, and how far is it from what five papers say about networks?"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._progress import Progress, no_progress, part
from featureprism.attacks import flip_rate
from featureprism.audit.anatomy import Neurons, Subject, subject
from featureprism.audit.cards import NeuronCard, cards_of, linear_direction
from featureprism.audit.pictures import FITS, NONE, Fit, Measures, measures, named, ranked
from featureprism.audit.stages import premises
from featureprism.audit.universal import fooling
from featureprism.brackets import RadiusBracket
from featureprism.geometry import row_norms
from featureprism.heads.subclasses import Subclasses
from featureprism.lab.intervals import share_interval
from featureprism.lab.premise import Premise
from featureprism.lab.rows import Row
from featureprism.models import Model
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
SHARED = 1.5  # times the radius at which half of the points break: the norm of the perturbation for all
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


@dataclass(frozen=True)
class Seen:
    """Something that is seen in any network: a number, its 95 % interval over points like these, and a sentence."""

    name: str
    value: float
    low: float
    high: float
    sentence: str

    def as_row(self) -> Row:
        """A flat row."""
        return {"kind": "seen", **{name: getattr(self, name) for name in self.__dataclass_fields__}}


@dataclass(frozen=True, eq=False)
class Explanation:
    """What `explain` found.

    Attributes
    ----------
    seen : tuple
        What is seen in the model whatever the theory: radii, one perturbation for all, averaging.
    picture : str
        The paper whose picture fits, or "none of these".
    advice : str
        What to do next, in words.
    fits : tuple
        Distance of the model to the picture of each paper, and the mark that decides.
    premises : tuple of Premise
        Premises of the theorems, measured on the data.
    comparisons : tuple
        Predictions of the theorems beside measurements.
    cards : tuple of NeuronCard
        What the strongest neurons look at.
    bracket : RadiusBracket
        Proven and attacked radii.
    subject : object
        The network and the points that were looked at.
    """

    seen: tuple[Seen, ...]
    picture: str  # the paper whose picture fits, or "none of these"
    advice: str
    fits: tuple[Fit, ...]
    premises: tuple[Premise, ...]
    comparisons: tuple[Comparison, ...]
    cards: tuple[NeuronCard, ...]
    bracket: RadiusBracket
    subject: Subject

    @property
    def sentence(self) -> str:
        """The first thing to say."""
        return self.seen[0].sentence

    @property
    def predictions(self) -> tuple[Comparison, ...]:
        """Those of the theorem whose picture fits."""
        return tuple(c for c in self.comparisons if c.paper == self.picture)

    def __repr__(self) -> str:
        """What is seen, then how far each picture is and by which mark."""
        lines = [seen.sentence for seen in self.seen]
        if self.picture != NONE:
            lines.append(f"This is the picture of {self.picture}: {WORDS[self.picture][0]}.")
        lines.append(self.advice)
        if self.fits:
            lines.append("Distance to the picture of each theorem (0: fits), and the mark that decides:")
        for fit in self.fits:
            marks = f"{fit.num_met} of {len(fit.marks)} marks"
            lines.append(f"  {fit.distance:.2f} {fit.paper} ({marks}); {fit.deciding}")
        return "\n".join([*lines, *self.footnotes])

    @property
    def footnotes(self) -> tuple[str, ...]:
        """What the theorems do not speak of."""
        if not self.fits:
            return (
                "The theorems speak of one hidden layer of ReLU or its powers, which this model does not have.",
            )
        near = f"Note: a picture is named when its distance is at most {1 - FITS:g}; none is, as with most networks."
        return (near,) if self.picture == NONE else ()

    def rows(self) -> list[Row]:
        """Everything as flat rows: what is seen, the picture, marks, premises, comparisons, cards."""
        marks = [mark.as_row() | {"paper": fit.paper} for fit in self.fits for mark in fit.marks]
        named_: Row = {"kind": "explanation", "picture": self.picture, "advice": self.advice}
        named_ |= {f"fit {fit.paper}": fit.fit for fit in self.fits}
        tables = (self.premises, self.comparisons, self.cards)
        return [
            *(seen.as_row() for seen in self.seen),
            named_,
            *marks,
            *(row.as_row() for table in tables for row in table),
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
    """What breaks a model on these points, what its neurons look at, and how far it is from the networks that theorems speak of.

    Theorems and neuron cards are about networks with one hidden layer; of other models radii and the universal direction are reported.

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
    shared = _universal(of, bracket)
    direction = None if shared is None or of.num_classes != 2 else shared.direction
    order = [fit.paper for fit in fits]
    compared = _comparisons(of, marks, bracket, direction) if marks is not None else []
    compared = tuple(sorted(compared, key=lambda row: order.index(row.paper)))
    required = tuple(_premises(of)) if marks is not None else ()
    cards = cards_of(of, direction) if of.neurons is not None else ()
    picture = named(fits)
    progress(1.0)
    advice = WORDS[picture][1] if picture != NONE else ELSEWHERE
    seen = tuple(_seen(of, marks, bracket, shared, cards))
    return Explanation(seen, picture, advice, fits, required, compared, cards, bracket, of)


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
    rows = torch.linspace(0, len(of.x) - 1, min(num_points, len(of.x))).round().long()
    budget = Budget(branches=1)
    return bracket_points(_scored(of), of.x[rows], of.y[rows], Query(), budget, progress=progress)


@dataclass(frozen=True, eq=False)
class _Shared:
    """One perturbation for all points, and how many of those that are classified correctly it flips."""

    norm: float
    direction: Float[Tensor, " d"]
    flipped: int
    points: int


def _universal(of: Subject, bracket: RadiusBracket) -> _Shared | None:
    """The direction that flips most at 1.5 times the radius at which half of the points break; None where nothing breaks."""
    reach = SHARED * bracket.half_radius[1]
    if not 0 < reach < math.inf:
        return None
    few = slice(None, None, -(-len(of.x) // SEARCHED))
    attack = fooling(_scored(of), of.x[few], of.y[few])
    direction = attack.direction(reach)
    right = ~attack.fooled(torch.zeros_like(direction))
    flipped = attack.fooled(reach * direction) & right
    return _Shared(reach, direction, int(flipped.sum()), int(right.sum()))


def _scored(of: Subject) -> Model:
    """The model whose radii are measured: symmetric networks without their smoothing."""
    if not isinstance(of.model.net, SymmetricNet):
        return of.model
    assert of.neurons is not None
    model = as_model(margin_net(of.neurons))
    assert model is not None
    return model


def _seen(
    of: Subject,
    marks: Measures | None,
    bracket: RadiusBracket,
    shared: _Shared | None,
    cards: tuple[NeuronCard, ...],
) -> Iterator[Seen]:
    """What any network shows: where points break, one direction for all, how neurons mix sub-classes, who carries the margin."""
    low, high = bracket.half_radius
    (least, _), (_, most) = bracket.half_interval
    where = (
        f"at {high:.3g}"
        if f"{low:.3g}" == f"{high:.3g}"
        else f"between {low:.3g} (proven) and {high:.3g} (attacked)"
    )
    words = f"Half of {len(bracket)} points break {where}; 95 % interval {least:.3g} to {most:.3g}."
    yield Seen("radius at which half of the points break", high, least, most, words)
    if shared is not None and shared.points:
        share = shared.flipped / shared.points
        ends = share_interval(shared.flipped, shared.points)
        kind = (
            "most points share one weak direction"
            if share >= 0.5
            else "most points have weak directions of their own"
        )
        words = (
            f"One perturbation of norm {shared.norm:.3g} ({SHARED:g} times that radius), the same for all points, flips "
            f"{shared.flipped} of {shared.points} ({ends[0]:.0%} to {ends[1]:.0%}): {kind}."
        )
        yield Seen("share of the points that one perturbation flips", share, *ends, words)
    if marks is not None and marks.most_each > 1:
        least_index = 1 / marks.most_each
        kind = "mix them" if marks.averaging > (1 + least_index) / 2 else "tell them apart"
        words = (
            f"Averaging index {marks.averaging:.2f} (1: every neuron looks at all {marks.most_each} sub-classes of its class alike, "
            f"{least_index:.2g}: at one): neurons {kind}."
        )
        yield Seen("averaging index", marks.averaging, math.nan, math.nan, words)
    if cards:
        yield _of_cards(of, cards)


def _of_cards(of: Subject, cards: tuple[NeuronCard, ...]) -> Seen:
    """How few neurons carry half of the margin, and what the strongest looks at."""
    total, carried, sizes = 0.0, 0, 0
    for card in cards:
        total, carried, sizes = total + card.margin_share, carried + 1, sizes + card.size
        if total >= 0.5:
            break
    num = sum(card.size for card in cards)
    first = cards[0]
    group = f"neuron {first.neuron}" if first.size == 1 else f"{first.size} neurons like {first.neuron}"
    words = (
        f"{sizes} of {num} neurons carry half of the margin. The strongest, {group}, {'votes' if first.size == 1 else 'vote'} for "
        f"{first.votes_for}: {first.margin_share:.0%} of the margin, nearest to {of.fine_names[first.nearest]} "
        f"(cosine {first.cosines[first.nearest]:.2f}, purity {first.purity:.2f})."
    )
    return Seen("neurons that carry half of the margin", float(sizes), math.nan, math.nan, words)


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
