"""The one loop: attack, then proofs from cheap to dear, then the attack again near what stayed open.

The radius of a point is the least over all target classes r of that of the margin f_y - f_r. All proofs of a point are about
perturbations up to its shortest flip, so that a shorter flip makes every proof easier.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, nan

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism._progress import Progress, no_progress
from featureprism._threads import one_thread
from featureprism.attacks import Start
from featureprism.brackets import NOT_CERTIFIED, RadiusBracket
from featureprism.checker.certificate import Certificate
from featureprism.geometry import check_domain
from featureprism.models.model import Model
from featureprism.models.protocols import HasProofs
from featureprism.verify.attack import attack_from, attack_pairs
from featureprism.verify.bounds import GivenLipschitz, KnownRadius, LinearScoresRadius, QuadraticScoresRadius
from featureprism.verify.deep.balls import Balls
from featureprism.verify.deep.methods import LinearRelaxation, NormProduct, SemidefiniteRelaxation
from featureprism.verify.one_layer.methods import BranchAndBound, CheapBounds, Ellipsoids
from featureprism.verify.pairs import Method, Pairs
from featureprism.verify.query import Budget, Limits, Query
from featureprism.verify.slopes import OptimisedSlopes
from featureprism.verify.weights import Weighted

METHODS: tuple[Method, ...] = (  # in the order of their cost
    LinearScoresRadius(),
    QuadraticScoresRadius(),
    KnownRadius(),
    NormProduct(),
    CheapBounds(),
    Balls(),
    LinearRelaxation(),
    OptimisedSlopes(),
    Ellipsoids(),
    BranchAndBound(),
    SemidefiniteRelaxation(),
)
BATCH = 32  # points that are attacked and proven together
LEFT_OVER = (
    0.1  # of the seconds of a call: where more is left after all points had their share, open ones get it
)
MISCLASSIFIED, INTERRUPTED, FLIPPED, CLOSED = "misclassified", "interrupted", "flipped", "closed"


@torch.no_grad()
@one_thread()
def bracket_points(
    model: Model,
    x: Float[Tensor, "n d"],
    label: Int[Tensor, " n"],
    query: Query,
    budget: Budget,
    *,
    starts: Sequence[Start] | None = None,
    lipschitz: float | None = None,
    progress: Progress = no_progress,
) -> RadiusBracket:
    """Brackets of min{‖δ‖ : another class scores at least as much as `label` at x + δ}; 0 where it does so already.

    An interrupt keeps what is finished; the other points have the method "interrupted".
    """
    began = time.thread_time()
    x = x.double()
    if query.weights is not None:
        units = Weighted.of(model, x, query)
        bracket = bracket_points(
            units.model, units.x, label, units.query, budget, starts=starts, progress=progress
        )
        return units.back(bracket, model, x)
    if query.bounds is not None:
        check_domain(x, query.bounds)
    right, second = _ahead(model, x, label)
    outcome = _Outcome.of(x, label, second, right)
    methods = _methods(model, query, lipschitz)
    left = torch.nonzero(right)[:, 0]
    clock = _Clock(budget)
    progress(1 - len(left) / max(1, len(x)))
    try:
        batches = left.split(BATCH)
        works = []
        for number, index in enumerate(batches if len(left) else ()):
            limits = clock.share(len(index) / max(1, sum(map(len, batches[number:]))))
            pairs = Pairs.of(model, query, x[index], label[index])
            try:
                _close(pairs, methods, limits, starts)
            except KeyboardInterrupt:
                outcome.take(index, pairs, limits, INTERRUPTED)
                raise
            outcome.take(index, pairs, limits)
            works.append((index, pairs))
            progress(1 - (len(left) - sum(map(len, batches[: number + 1]))) / len(x))
        if clock.left() > LEFT_OVER * budget.seconds and budget.seconds < inf:
            _spend_the_rest(works, methods, clock, outcome)
    except KeyboardInterrupt:
        pass  # what is finished stays, the rest says so
    progress(1.0)
    return outcome.bracket(model, (time.thread_time() - began) / max(1, len(x)))


def _ahead(model: Model, x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Which points are classified correctly, and the best of the other classes."""
    if model.dim not in (None, x.shape[1]):
        raise ValueError(f"The network takes points of dimension {model.dim}, got {x.shape[1]}.")
    scores = model.scores(x)
    if wild := int((~torch.isfinite(scores)).any(dim=1).sum()):
        raise ValueError(
            f"The model gives NaN or infinite scores on {wild} of {len(x)} points; scale its weights or the points down."
        )
    others = scores.scatter(1, label.unsqueeze(1), -inf)
    return scores.gather(1, label.unsqueeze(1)).squeeze(1) > others.amax(dim=1), others.argmax(dim=1)


def _methods(model: Model, query: Query, lipschitz: float | None) -> list[Method]:
    if lipschitz is not None:
        return [GivenLipschitz(lipschitz)]
    known = model.net.proof_methods() if isinstance(model.net, HasProofs) else ()
    every = [method for method in (*known, *METHODS) if query.norm in method.norms]
    return [method for method in every if method.applies(model, query)]


def _close(pairs: Pairs, methods: Sequence[Method], limits: Limits, starts: Sequence[Start] | None) -> None:
    """Attack and prove some points until their brackets are closed or the limits are used up."""
    every = torch.arange(len(pairs.point))
    for method in methods:
        if method.is_closed_form:
            method.prove(pairs, every, limits)
    if not len(pairs.open()) and bool(torch.isfinite(pairs.shortest()[0]).all()):
        return
    if pairs.query.eps is not None and not pairs.model.has_one_output:
        attack_pairs(pairs, starts, quick=True)
        _prove(pairs, [method for method in methods if method.is_cheap], limits)
    attack_pairs(pairs, starts)
    _prove(pairs, methods, limits)


def _prove(pairs: Pairs, methods: Sequence[Method], limits: Limits) -> None:
    """Proofs from cheap to dear; where one knows of places near which flips may be shorter, attacks there and proves again."""
    for _ in range(2):
        before, _ = pairs.shortest()
        for method in methods:
            rows = pairs.open()
            if method.is_closed_form or not len(rows):
                continue
            towards = method.prove(pairs, rows, limits)
            if towards is not None and len(pairs.open()):
                attack_from(pairs, rows, towards)
        if not bool((pairs.shortest()[0] < before).any()) or not len(pairs.open()):
            return


def _spend_the_rest(
    works: list[tuple[Tensor, Pairs]], methods: Sequence[Method], clock: "_Clock", outcome: "_Outcome"
) -> None:
    """What easy points left over is spent on those that are still open."""
    undecided = [(index, pairs) for index, pairs in works if len(pairs.open())]
    for number, (index, pairs) in enumerate(undecided):
        limits = clock.share(1 / (len(undecided) - number))
        _prove(pairs, methods, limits)
        outcome.take(index, pairs, limits)


class _Clock:
    """The seconds of a call."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.end = budget, time.thread_time() + budget.seconds

    def left(self) -> float:
        return self.end - time.thread_time()

    def share(self, part: float) -> Limits:
        """A part of what is left."""
        return Limits.of(self.budget, max(0.0, part * self.left()))


@dataclass
class _Outcome:
    """What is known of all points of a call."""

    x: Tensor
    label: Tensor
    predicted: Tensor
    certified: Tensor
    attacked: Tensor
    witness: Tensor
    target: Tensor
    method: list[str]
    stopped_because: list[str]
    certificates: list[dict[int, Certificate]]
    shares: list[tuple[int, float, float]] = field(default_factory=list)

    @classmethod
    def of(cls, x: Tensor, label: Tensor, second: Tensor, right: Tensor) -> "_Outcome":
        words = [INTERRUPTED if r else MISCLASSIFIED for r in right.tolist()]
        zero = x.new_zeros(len(x))
        return cls(
            x,
            label,
            torch.where(right, label, second),
            zero.clone(),
            torch.where(right, torch.full_like(zero, inf), zero),
            torch.zeros_like(x),
            second.clone(),
            words,
            words.copy(),
            [{} for _ in x],
        )

    def take(self, index: Tensor, pairs: Pairs, limits: Limits, ended: str = "") -> None:
        """Take over what is known of some points; `ended`: where an interrupt left those that are open."""
        attacked, best = pairs.shortest()
        verified = pairs.verified().reshape(len(index), -1)
        least, weakest = verified.min(dim=1)
        goal = pairs.goal()
        self.certified[index], self.attacked[index] = torch.minimum(least, attacked), attacked
        flipped = torch.isfinite(attacked)
        self.witness[index[flipped]] = pairs.delta[best[flipped]]
        self.target[index[flipped]] = pairs.target[best[flipped]]
        self.shares.append((len(index), pairs.zero_gradient_share, pairs.blind_share))
        for row, i in enumerate(index.tolist()):
            of_point = range(row * verified.shape[1], (row + 1) * verified.shape[1])
            self.certificates[i] = {int(pairs.target[j]): pairs.certificates[j] for j in of_point}
            kinds = {
                pairs.certificates[j].kind for j in of_point if pairs.certificates[j].radius <= least[row]
            }
            self.method[i] = (
                "deep" if "deep" in kinds else pairs.certificates[of_point[int(weakest[row])]].kind
            )
            if pairs.query.eps is not None and bool(flipped[row]):
                self.method[i] = FLIPPED
            self.stopped_because[i] = self._why(
                least[row] >= goal[row], attacked[row], self.method[i], limits, pairs.query
            )
            if ended and self.stopped_because[i] != CLOSED:
                self.method[i] = self.stopped_because[i] = ended

    @staticmethod
    def _why(is_closed: Tensor, attacked: Tensor, method: str, limits: Limits, query: Query) -> str:
        if bool(is_closed):
            return CLOSED
        if method == NOT_CERTIFIED:
            return "no method of proof applies to this model"
        if limits.out_of_seconds:
            return "the seconds were used up"
        if limits.out_of_branches or limits.branches < 1:
            return "the branches were used up"
        if limits.seemed_too_few:
            return "a proof seems to need far more than the budget"
        if query.eps is None and not bool(torch.isfinite(attacked)):
            return "no adversarial example was found, and the relaxation proves no more"
        return "the relaxation proves no more"

    def bracket(self, model: Model, seconds: float) -> RadiusBracket:
        """The same as a bracket."""
        uncertified = f"{NOT_CERTIFIED}: {model.reason}" if model.reason else NOT_CERTIFIED
        weights = [num for num, _, _ in self.shares]
        zero, blind = (
            float(np.average([share[k] for share in self.shares], weights=weights)) if weights else nan
            for k in (1, 2)
        )
        return RadiusBracket(
            self.certified.numpy(),
            self.attacked.numpy(),
            tuple(uncertified if m == NOT_CERTIFIED else m for m in self.method),
            self.witness.numpy(),
            tuple(self.certificates),
            zero,
            blind,
            seconds,
            self.label.numpy(),
            self.predicted.numpy(),
            self.target.numpy(),
            classes=model.classes,
            stopped_because=tuple(self.stopped_because),
        )
