"""The pictures that five papers draw of a trained network, as marks that can be measured: which of them is this?

A picture fits as well as the worst of its marks, each from 0 to 1. Marks look at weights and data alone, never at how a network was
trained or attacked. Bounds were chosen on networks of seeds below 100 of this library, and judged on others.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.audit.anatomy import Neurons, Subject
from featureprism.geometry import row_norms
from featureprism.lab.rows import Row
from featureprism.networks import ReLU, TwoLayerNet
from featureprism.probes import cosines, kkt_audit

SAME_VOTES = 1e-3  # spread of the votes below which a second layer counts as never trained
FITS = 0.5  # a picture that fits less is not named
NONE = "none of these"
KKT_POINTS = 400  # points whose multipliers are fitted at most
RANDOM = 200  # directions that kurtoses are compared with


@dataclass(frozen=True)
class Mark:
    """A measured number; the mark is missing (0) at `absent`, there (1) from `present` on, and linear between."""

    name: str
    measured: float
    absent: float
    present: float

    @property
    def share(self) -> float:
        """Of the way from absent to present; -inf where nothing was measured."""
        share = (self.measured - self.absent) / (self.present - self.absent)
        return share if share == share else -math.inf

    @property
    def fit(self) -> float:
        """From 0 to 1; 0 where nothing was measured."""
        return min(max(self.share, 0.0), 1.0)

    def __str__(self) -> str:
        return f"{self.name}: {self.measured:.3g}, wanted {self.present:.3g}"

    def as_row(self) -> Row:
        """The mark as a flat row."""
        return {
            "kind": "mark",
            "name": self.name,
            "measured": self.measured,
            "absent": self.absent,
            "present": self.present,
            "fit": self.fit,
        }


@dataclass(frozen=True)
class Fit:
    """A picture and its marks on one network."""

    paper: str
    marks: tuple[Mark, ...]

    @property
    def fit(self) -> float:
        """The worst mark."""
        return min(mark.fit for mark in self.marks)

    @property
    def distance(self) -> float:
        """From 0, where every mark is there, to 1."""
        return 1 - self.fit

    @property
    def deciding(self) -> Mark:
        """The mark that is farthest from being there."""
        return min(self.marks, key=lambda mark: mark.share)

    @property
    def num_met(self) -> int:
        """How many marks are there, more than not."""
        return sum(mark.fit >= FITS for mark in self.marks)

    @property
    def rank(self) -> tuple[float, float]:
        """The worst mark, and where these tie the mean of all."""
        return self.fit, sum(mark.fit for mark in self.marks) / len(self.marks)


@dataclass(frozen=True)
class Measures:
    """What all pictures are judged by."""

    power: float
    seen: float  # share of the neurons' weight that lies in the span of the means of their own class
    aligned: float  # mean of the largest cosine with a mean of the own class
    own_cosine: float  # mean cosine with the means of the own class, as far as they are positive
    averaging: float  # how evenly neurons look at the means of their own class, 1/k to 1
    most_each: int  # the largest number of sub-classes of one class
    antipodal: float  # share of the sub-classes with a mirror image in their own class
    parallel: float  # largest cosine of two sub-class means of one class; -1 where no class has two
    linear_accuracy: float
    mean_accuracy: float  # of the class of the nearest sub-class mean
    balance: float  # mean |v² - ‖w‖² - b²|/(v² + ‖w‖² + b²)
    vote_spread: float  # standard deviation of the sizes of the votes ÷ their mean: 0 where the second layer was not trained
    residual: float  # of the KKT conditions, relative; 1 where there is none
    paired: float  # neurons come with their mirror images
    threshold: float  # share of the neurons with a bias below 0 that is their own silence
    heavy_tails: float  # kurtosis of the data along neurons ÷ along random directions
    accuracy: float


@torch.no_grad()
def measures(of: Subject) -> Measures | None:
    """Every measure; None where there is no single hidden layer."""
    neurons = of.neurons
    if neurons is None:
        return None
    weight = _weights(neurons, of)
    same_class = (of.parent.unsqueeze(0) == neurons.owner.unsqueeze(1)).double()
    c = cosines(neurons.W, of.mu)
    positive = c.clamp_min(0) * same_class
    largest = positive.amax(dim=1)
    even = positive.sum(dim=1) / (same_class.sum(dim=1) * largest).clamp_min(1e-12)
    sizes = torch.bincount(of.parent)
    scores = of.model.net(of.x)
    predicted = (scores > 0).long() if scores.ndim == 1 else scores.argmax(dim=1)
    return Measures(
        power=neurons.p,
        seen=float(weight @ _in_span(neurons, of)),
        aligned=float(weight @ largest),
        own_cosine=float(weight @ (positive.sum(dim=1) / same_class.sum(dim=1).clamp_min(1))),
        averaging=float(weight @ torch.where(largest > 0, even, torch.zeros_like(even))),
        most_each=int(sizes.max()),
        antipodal=_antipodal(of),
        parallel=_parallel(of),
        linear_accuracy=_linear_accuracy(of),
        mean_accuracy=_nearest_mean(of),
        balance=_balance(neurons, weight),
        vote_spread=_vote_spread(neurons),
        residual=_residual(of, neurons),
        paired=float(neurons.is_paired or _is_paired(neurons)),
        threshold=float(weight @ (neurons.b < 0).double()),
        heavy_tails=_heavy_tails(neurons, of, weight),
        accuracy=float((predicted == of.y).double().mean()),
    )


def _weights(neurons: Neurons, of: Subject) -> Float[Tensor, " h"]:
    """How much each neuron counts: what it says on the data; dead neurons count nothing."""
    strength = neurons.excited(of.x).mean(dim=0) * neurons.votes.abs().amax(dim=1)
    return strength / strength.sum().clamp_min(1e-300)


def _in_span(neurons: Neurons, of: Subject) -> Float[Tensor, " h"]:
    """‖P w‖²/‖w‖², P on the span of the means of the neuron's class."""
    share = torch.zeros(len(neurons.W), dtype=torch.float64)
    square = row_norms(neurons.W).clamp_min(1e-300) ** 2
    for k in torch.unique(of.parent).tolist():
        basis = torch.linalg.qr(of.mu[of.parent == k].T).Q
        rows = neurons.owner == k
        share[rows] = ((neurons.W[rows] @ basis) ** 2).sum(dim=1) / square[rows]
    return share


def _antipodal(of: Subject) -> float:
    c = cosines(of.mu, of.mu)
    same = of.parent.unsqueeze(0) == of.parent.unsqueeze(1)
    return float((torch.where(same, c, 1.0).amin(dim=1) < -0.8).double().mean())


def _parallel(of: Subject) -> float:
    other = of.parent.unsqueeze(0) != of.parent.unsqueeze(1)
    return float(cosines(of.mu, of.mu).masked_fill(other, -1.0).fill_diagonal_(-1.0).max())


def _linear_accuracy(of: Subject) -> float:
    """Of ridge regression on one half of the points, judged on the other."""
    targets = torch.nn.functional.one_hot(of.y, of.num_classes).double()
    ones = torch.cat([of.x, torch.ones(len(of.x), 1, dtype=torch.float64)], dim=1)
    half = torch.arange(len(of.x)) % 2 == 0
    a = ones[half]
    ridge = 1e-2 * float((a**2).sum()) / len(a)
    dual = (
        torch.linalg.solve(a @ a.T + ridge * torch.eye(len(a)).double(), targets[half])
        if len(a) <= a.shape[1]
        else None
    )
    B = (
        a.T @ dual
        if dual is not None
        else torch.linalg.solve(a.T @ a + ridge * torch.eye(a.shape[1]).double(), a.T @ targets[half])
    )
    return float(((ones[~half] @ B).argmax(dim=1) == of.y[~half]).double().mean())


def _nearest_mean(of: Subject) -> float:
    """Means of one half of the points, judged on the other."""
    half = torch.arange(len(of.x)) % 2 == 0
    means = torch.stack([of.x[half & (of.fine == s)].mean(dim=0) for s in range(len(of.parent))]).nan_to_num(
        torch.inf
    )
    nearest = torch.cdist(of.x[~half], means).nan_to_num(torch.inf).argmin(dim=1)
    return float((of.parent[nearest] == of.y[~half]).double().mean())


def _balance(neurons: Neurons, weight: Tensor) -> float:
    v = (neurons.V[:, -1] - neurons.V[:, 0]) if neurons.V.shape[1] == 2 else neurons.votes.amax(dim=1)
    inner = neurons.trained_norms**2 + (neurons.b**2 if neurons.p == 1 else 0.0)
    v = v / neurons.trained_norms.clamp_min(1e-300) if neurons.p > 1 else v
    return float(weight @ ((v**2 - inner).abs() / (v**2 + inner).clamp_min(1e-300)))


def _vote_spread(neurons: Neurons) -> float:
    sizes = neurons.votes.abs().amax(dim=1)
    return float(sizes.std() / sizes.mean().clamp_min(1e-300)) if len(sizes) > 1 else 0.0


def _residual(of: Subject, neurons: Neurons) -> float:
    """The relative residual of stationarity; 1 where a margin is not positive, or where the conditions speak of other networks."""
    if of.num_classes != 2 or neurons.p != 1 or neurons.is_paired:
        return 1.0
    net = TwoLayerNet(neurons.W, neurons.V[:, 1] - neurons.V[:, 0], neurons.b, activation=ReLU())
    few = slice(None, None, -(-len(of.x) // KKT_POINTS))
    try:
        return float(kkt_audit(net, of.x[few], of.signs[few], tolerance=1e-2).stationarity)
    except ValueError:
        return 1.0


def _is_paired(neurons: Neurons) -> bool:
    """Whether every neuron has its mirror image: -w with the vote reversed."""
    order = neurons.W @ torch.linspace(1, 2, neurons.W.shape[1]).double()
    W = neurons.W[order.argsort()]
    return len(W) % 2 == 0 and bool(torch.allclose(W, -W.flip(0), atol=1e-6 * float(W.abs().max())))


def _heavy_tails(neurons: Neurons, of: Subject, weight: Tensor) -> float:
    noise = of.x - of.x.mean(dim=0)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(RANDOM, of.x.shape[1], generator=generator, dtype=torch.float64)
    along, elsewhere = (_kurtosis(noise @ W.T) for W in (neurons.W, drawn))
    return float(weight @ along.nan_to_num(0.0)) / float(elsewhere.median())


def _kurtosis(values: Float[Tensor, "n h"]) -> Float[Tensor, " h"]:
    return (values**4).mean(dim=0) / (values**2).mean(dim=0) ** 2


def _at_kkt(m: Measures) -> tuple[Mark, ...]:
    return (
        Mark("residual of the KKT conditions", m.residual, 0.6, 0.2),
        Mark("imbalance of the layers, |v² - ‖w‖² - b²|", m.balance, 0.5, 0.1),
        Mark("spread of the votes (0: the second layer was not trained)", m.vote_spread, 0.0, SAME_VOTES),
    )


def _many_means(m: Measures) -> Mark:
    return Mark("most sub-classes of one class", float(m.most_each), 1.0, 2.0)


MARKS: dict[str, Callable[[Measures, int], tuple[Mark, ...]]] = {
    "gmm-flow": lambda m, _k: (
        Mark("power of the neurons", m.power, 1.5, 2.5),
        Mark("largest cosine with a sub-class mean", m.aligned, 0.5, 0.9),
        Mark("accuracy of the nearest sub-class mean", m.mean_accuracy, 0.7, 0.9),
    ),
    "feature-averaging": lambda m, k: (
        Mark("power of the neurons", m.power, 1.5, 1.0),
        Mark("share of the neurons in the span of their class's means", m.seen, 0.2, 0.7),
        Mark("accuracy of the nearest sub-class mean", m.mean_accuracy, 0.7, 0.9),
        Mark("sub-classes with a mirror image in their class", m.antipodal, 0.6, 0.4),
        Mark("largest cosine of two sub-class means of one class", m.parallel, 0.9, 0.6),
        Mark("evenness over the means of a class", m.averaging, 0.3, 0.7)
        if k == 2
        else Mark("largest cosine with a sub-class mean", m.aligned, 0.5, 0.9),
        Mark("most sub-classes of one class, or classes less 1", float(max(m.most_each, k - 1)), 1.0, 2.0),
        Mark(
            "residual of the KKT conditions, or the imbalance of the layers (1 where the votes are all alike)",
            max(m.residual, m.balance, float(m.vote_spread < SAME_VOTES)),
            0.15,
            0.35,
        ),
    ),
    "double-edged": lambda m, _k: (
        Mark("power of the neurons", m.power, 1.5, 1.0),
        *_at_kkt(m),
        Mark("share of the neurons in the span of their class's means", m.seen, 0.1, 0.4),
        Mark("accuracy of the nearest sub-class mean", m.mean_accuracy, 0.7, 0.9),
        _many_means(m),
    ),
    "feature-amplification": lambda m, _k: (
        Mark("power of the neurons", m.power, 1.5, 1.0),
        Mark("sub-classes with a mirror image in their class", m.antipodal, 0.4, 0.8),
        Mark("accuracy of a linear classifier", m.linear_accuracy, 0.8, 0.65),
        Mark("accuracy of the nearest sub-class mean", m.mean_accuracy, 0.6, 0.8),
        Mark("share of the neurons in the span of their class's means", m.seen, 0.03, 0.15),
        Mark("accuracy of the network", m.accuracy, 0.6, 0.8),
    ),
    "feature-purification": lambda m, _k: (
        Mark("neurons with their mirror images", m.paired, 0.0, 1.0),
        Mark("share of the neurons that are silent below a threshold", m.threshold, 0.3, 0.8),
        Mark("kurtosis of the data along neurons ÷ along random directions", m.heavy_tails, 1.1, 1.4),
        Mark("accuracy of the network", m.accuracy, 0.6, 0.8),
    ),
}


def ranked(m: Measures, num_classes: int) -> tuple[Fit, ...]:
    """Every picture with its marks, the best first."""
    fits = [Fit(paper, marks(m, num_classes)) for paper, marks in MARKS.items()]
    return tuple(sorted(fits, key=lambda fit: fit.rank, reverse=True))


def named(fits: tuple[Fit, ...]) -> str:
    """The paper whose picture fits, or none of these."""
    return fits[0].paper if fits and fits[0].fit >= FITS else NONE
