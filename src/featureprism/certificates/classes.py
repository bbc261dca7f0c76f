"""Brackets of classifiers with many scores: every rival of every point, attacked and proven together.

The radius of a point is the least over its rivals r of that of the margin f_y - f_r; all proofs of a point speak of perturbations up to
its shortest witness.
"""

import time
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.certificates import pair_proofs as proofs
from featureprism.certificates.bracket import INTERRUPTED
from featureprism.certificates.pairs import Effort, Pairs, attack, attack_targets
from featureprism.checker.certificate import Certificate
from featureprism.geometry import check_domain
from featureprism.networks import LinearScores, QuadraticScores
from featureprism.records import Progress, RadiusBracket, silent
from featureprism.threads import one_thread

BATCH = 32  # points that are attacked and proven together
QUADRATIC_BATCH = 2048  # the same where each pair of classes needs its eigenvectors
TRIED = 3  # targets of each point whose ℓ2 flips are drawn in: the nearest ones


@torch.no_grad()
@one_thread()
def class_radius(
    net: Any,
    x: Float[Tensor, "n d"],
    own: Int[Tensor, " n"],
    effort: Effort,
    *,
    progress: Progress = silent,
) -> RadiusBracket:
    """Brackets of min{‖δ‖ : some other class scores at least as much as `own` at x + δ}; 0 where it does so already.

    `net` gives scores (n, k); with effort.domain = (lo, hi) every coordinate of x + δ stays between the two. One hidden layer of ReLU
    powers: attacks, CROWN and cells, every proof checked; several layers of ReLU: attacks, CROWN and quadratic proofs; of tanh:
    attacks and the product of norms; linear and quadratic scores: closed forms; any other module: attacks. An interrupt keeps what
    is finished; the rest has the method "interrupted".
    """
    x = x.double()
    if effort.domain is not None:
        check_domain(x, effort.domain)
    scores = net(x)
    if wild := int((~torch.isfinite(scores)).any(dim=1).sum()):
        raise ValueError(
            f"The model gives NaN or infinite scores on {wild} of {len(x)} points; scale its weights or the points down."
        )
    ahead = scores.gather(1, own.unsqueeze(1)).squeeze(1)
    others = scores.scatter(1, own.unsqueeze(1), -inf)
    second = others.argmax(dim=1)
    right = ahead > others.amax(dim=1)
    n = len(x)
    result = _Result.empty(x, second, ["misclassified" if not r else INTERRUPTED for r in right])
    result.attacked[~right] = 0.0
    left = torch.nonzero(right)[:, 0]
    progress((n - len(left)) / n)
    try:
        size = QUADRATIC_BATCH if isinstance(net, QuadraticScores) and effort.norm == 2 else BATCH
        for first in range(0, len(left), size):
            index = left[first : first + size]
            result.put(index, _bracketed(net, x[index], own[index], effort))
            progress((n - len(left) + first + len(index)) / n)
    except KeyboardInterrupt:
        pass  # what is done stays; the rest says so
    return replace(result.bracket(), label=own, predicted=torch.where(right, own, second))


@dataclass
class _Result:
    certified: Tensor
    attacked: Tensor
    witness: Tensor
    rival: Tensor
    method: list[str]
    certificates: list[dict[int, Certificate]]

    @classmethod
    def empty(cls, x: Tensor, rival: Tensor, method: list[str]) -> "_Result":
        zero = x.new_zeros(len(x))
        return cls(
            zero, torch.full_like(zero, inf), torch.zeros_like(x), rival.clone(), method, [{} for _ in x]
        )

    def put(self, index: Tensor, pairs: Pairs) -> None:
        """Take over what is known of some points."""
        attacked, best = pairs.shortest()
        bounds = pairs.bounds().reshape(len(index), -1)
        least, weakest = bounds.min(dim=1)
        self.certified[index], self.attacked[index] = torch.minimum(least, attacked), attacked
        found = torch.isfinite(attacked)
        self.witness[index[found]] = pairs.delta[best[found]]
        self.rival[index[found]] = pairs.rival[best[found]]
        for row, i in enumerate(index.tolist()):
            of_point = range(row * bounds.shape[1], (row + 1) * bounds.shape[1])
            self.certificates[i] = {int(pairs.rival[j]): pairs.certificates[j] for j in of_point}
            self.method[i] = pairs.certificates[of_point[int(weakest[row])]].kind
            if any(
                pairs.certificates[j].kind == "deep" and bounds[row].min() == pairs.certificates[j].radius
                for j in of_point
            ):
                self.method[i] = "deep"  # all rivals are proven at one radius, the nearest by this

    def bracket(self) -> RadiusBracket:
        """The same as a bracket."""
        return RadiusBracket(
            self.certified,
            self.attacked,
            tuple(self.method),
            self.witness,
            tuple(self.certificates),
            rival=self.rival,
        )


def _bracketed(net: Any, x: Tensor, own: Tensor, effort: Effort) -> Pairs:
    """A batch of points that are classified correctly."""
    pairs = Pairs.of(net, x, own, effort.norm)
    if isinstance(net, LinearScores):
        proofs.closed_forms(pairs, effort.norm)
        if effort.domain is None:
            return pairs
        pairs.length = torch.full_like(pairs.length, inf)  # those witnesses may lie outside
    if isinstance(net, QuadraticScores) and effort.norm == 2 and effort.domain is None:
        return proofs.secular_forms(pairs)
    _attacked(pairs, effort)
    if isinstance(net, QuadraticScores):  # ‖δ‖_∞ ≥ ‖δ‖₂/√d, and within a domain everything is farther
        proofs.secular_forms(pairs, attacked=True)
        return pairs
    form = proofs.form_of(net)
    if form is None:
        if not isinstance(net, LinearScores):
            proofs.norm_products(pairs, effort.norm)
            proofs.layers(pairs, effort)
        return pairs
    deadline = time.perf_counter() + effort.seconds_per_point * len(x)
    proofs.crown(pairs, form, effort)
    proofs.cells(pairs, form, effort, deadline)
    return pairs


def _attacked(pairs: Pairs, effort: Effort) -> None:
    """Flips of the pairs: all targets by the minimum-norm attack, the nearest drawn in; with `at` only those within that radius."""
    attack_targets(pairs, effort)
    passes = ((0, TRIED), (8, 1)) if effort.norm == 2 else ((0, 1),)
    for rounds, tried in passes:
        shortest, _ = pairs.shortest()
        length = pairs.length.reshape(len(pairs.x), -1)
        nearest = (length.argsort(dim=1, stable=True).argsort(dim=1) < tried).flatten()
        unfinished = (shortest > (effort.at or 0.0))[pairs.point]
        attack(pairs, torch.nonzero(nearest & unfinished)[:, 0], effort, rounds=rounds)
    if effort.at is not None:
        pairs.length[pairs.length > effort.at] = inf
