"""Branch and bound on the signs of neurons, with relaxations that are optimised in every branch.

A *domain* is a branch near the root in which the bounds of all neurons are optimised anew. Inside a domain branches are cheap: bounds
of neurons stay, slopes and multipliers start from those of the parent, and many branches are bounded at once. A domain in which this
does not end soon is divided itself, for all cases that are open in it.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from featureprism.checker.enclosed import SLACK, with_room
from featureprism.checker.layers import Layers
from featureprism.checker.linear_bounds import (
    BoundedLayer,
    Boxes,
    Multipliers,
    least_outputs,
    least_values,
    ruled_bounds,
    sized,
)
from featureprism.checker.property_proofs import NONE
from featureprism.checker.vnnlib import Case
from featureprism.verify.properties.attack import counterexample
from featureprism.verify.properties.relaxation import Lines, Network, least, optimised, stored
from featureprism.verify.properties.trees import Trees
from featureprism.verify.query import Limits

STEPS_OF_ROOT, STEPS_OF_DOMAIN, STEPS_OF_CASE, STEPS_OF_BRANCH = 50, 20, 40, 12
STARTS = 4  # of an attack near the worst case of a relaxation
AT_ONCE = 64  # branches that are bounded together
CANDIDATES = (
    6  # neurons whose cut is tried before one is chosen (filtered smart branching, De Palma et al. 2021)
)
TRIED_BRANCHES = 60  # of one case in a domain, before it is asked how many there will be
BRANCHES_OF_DOMAIN = 600  # where a case needs more, as far as can be told, its domain is divided
EMPTINESS = 0.1  # weight of what would show that a domain is empty, when a neuron is chosen to divide it
FEW, FIRST = 4, 10.0  # unstable neurons of a later layer through which all before it acts: they are cut first
MARGIN = 1e-5  # of the size of a bound: what float32 finds must be proven in float64


@dataclass(frozen=True, eq=False)
class Domain:
    """Proven bounds of all neurons where some have a sign."""

    number: int  # among the domains of the proof
    cuts: dict[int, int]
    known: list[BoundedLayer]  # float64, (1, h)
    lines: list[Lines]  # float32, (1, h)
    warm: list[tuple[Tensor, Tensor, Tensor]]  # targets of each layer, with their slopes and β
    of_case: dict[int, tuple[Tensor, Tensor]]  # slopes and β of each case's rows, found in it or its parent

    @property
    def unstable(self) -> np.ndarray:
        """Numbers of the neurons whose sign is not known."""
        return np.flatnonzero(np.concatenate([layer.is_unstable[0] for layer in self.known]))

    @property
    def sign(self) -> Tensor:
        """(H,) ±1 where neurons are cut."""
        sign = torch.zeros(sum(line.low.shape[1] for line in self.lines))
        for j, s in self.cuts.items():
            sign[j] = s
        return sign


@dataclass
class Prover:
    """One box of inputs and the cases that share it."""

    model: Layers
    cases: list[tuple[int, Case]]  # their numbers in the property
    trees: Trees
    limits: Limits
    hopeless: float = field(default=-np.inf)  # a bound from which branching did not end soon

    def __post_init__(self) -> None:
        box = self.cases[0][1]
        self.box = Boxes(box.lower[None], box.upper[None])
        self.net = Network.of(self.model, torch.from_numpy(box.lower), torch.from_numpy(box.upper))
        self.widths = self.model.widths
        self.witness: np.ndarray | None = None  # a counterexample, should one come up

    @torch.no_grad()
    def prove(self) -> bool:
        """Whether the trees of all cases are complete."""
        roots = self.trees.new(len(self.cases))
        open_cases = {number: (case, root) for (number, case), root in zip(self.cases, roots, strict=True)}
        self.roots = {number: root for (number, _), root in zip(self.cases, roots, strict=True)}
        waiting: list[tuple[Domain | None, dict[int, int], dict[int, tuple[Case, int]]]] = [
            (None, {}, open_cases)
        ]
        while waiting:
            if not self.limits.allow(1):
                return False
            parent, cuts, cases = waiting.pop()
            domain = self.domain(parent, cuts)
            if isinstance(domain, int):  # empty
                for _, root in cases.values():
                    self.trees.leaf(root, domain, np.empty(0))
                continue
            left, scores = self.prove_cases(domain, cases)
            if self.witness is not None:
                return False
            if not left:
                continue
            scores[list(cuts)] = -1
            at = int(scores.argmax())
            if scores[at] <= 0:
                return False
            parts = {
                number: self.trees.split(root, self.model.weights[0].shape[1] + at)
                for number, (_, root) in left.items()
            }
            for side, sign in ((0, -1), (1, 1)):
                below = {number: (case, parts[number][side]) for number, (case, _) in left.items()}
                waiting.append((domain, cuts | {at: sign}, below))
        return True

    # ---- domains

    def domain(self, parent: Domain | None, cuts: dict[int, int]) -> Domain | int:
        """Bounds of all neurons with these cuts, layer by layer, and what proves them; the number of a domain that is empty."""
        order = sorted(cuts)
        signs = np.zeros(sum(self.widths))
        signs[order] = [cuts[j] for j in order]
        parts = np.split(signs, np.cumsum(self.widths)[:-1])
        known, lines, warm, blocks = [], [], [], []
        for k, sign in enumerate(parts):
            with with_room():
                low, high = (v[0].copy() for v in ruled_bounds(self.model, known, self.box))
            if parent is not None:
                low, high = np.maximum(low, parent.known[k].low[0]), np.minimum(high, parent.known[k].high[0])
            if k:
                block, state = self.optimised_layer(k, low, high, known, lines, order, cuts, parent)
                blocks.append(block)
                warm.append(state)
            width = SLACK * np.abs(high - low) + np.finfo(np.float64).tiny
            low, high = low - width, high + width
            if parent is not None:
                low, high = np.maximum(low, parent.known[k].low[0]), np.minimum(high, parent.known[k].high[0])
            low, high = (
                np.where(sign > 0, np.maximum(low, 0), low),
                np.where(sign < 0, np.minimum(high, 0), high),
            )
            if (low > high).any():  # no input has these signs
                return self.stored_domain(
                    parent, cuts, [*((v.low[0], v.high[0]) for v in known), (low, high)], blocks
                )
            known.append(sized(self.model, known, self.box, low[None], high[None]))
            lines.append(Lines.of(*(torch.from_numpy(v[None]).float() for v in (low, high))))
        number = self.stored_domain(parent, cuts, [(v.low[0], v.high[0]) for v in known], blocks)
        return Domain(number, cuts, known, lines, warm, {} if parent is None else dict(parent.of_case))

    def stored_domain(
        self,
        parent: Domain | None,
        cuts: dict[int, int],
        bounds: list[tuple[np.ndarray, np.ndarray]],
        blocks: list[np.ndarray],
    ) -> int:
        """Put a domain into the proof; returns its number. An empty one knows the bounds of its first layers only."""
        head = [len(cuts), *(v for j in sorted(cuts) for v in (j, (cuts[j] + 1) // 2))]
        rest = np.zeros(sum(self.widths[len(bounds) :]))
        sides = [np.concatenate([*(pair[i] for pair in bounds), rest]) for i in (0, 1)]
        numbers = np.concatenate([np.array(head, dtype=float), *sides, *blocks])
        self.trees.domains.append((self.cases[0][0], NONE if parent is None else parent.number, numbers))
        return len(self.trees.domains) - 1

    def optimised_layer(
        self,
        k: int,
        low: np.ndarray,
        high: np.ndarray,
        known: list[BoundedLayer],
        lines: list[Lines],
        order: list[int],
        cuts: dict[int, int],
        parent: Domain | None,
    ) -> tuple[np.ndarray, tuple[Tensor, Tensor, Tensor]]:
        """Tighten low and high in place where the sign is open; returns the numbers that prove it."""
        before = self.widths[:k]
        of_layer = np.zeros(self.widths[k])
        for j in order:
            if sum(before) <= j < sum(before) + len(of_layer):
                of_layer[j - sum(before)] = cuts[j]
        is_open = (low < 0) & (high > 0)
        # a neuron that is cut keeps the bound that would contradict the cut: the domain may be empty
        lower, upper = np.flatnonzero(is_open | (of_layer < 0)), np.flatnonzero(is_open | (of_layer > 0))
        target = torch.from_numpy(np.concatenate([2 * lower, 2 * upper + 1]))
        unstable = np.flatnonzero(np.concatenate([layer.is_unstable[0] for layer in known]))
        earlier = [j for j in order if j < sum(before)]
        sign = torch.zeros(sum(before))
        for j in earlier:
            sign[j] = cuts[j]
        slopes = torch.cat([line.steep for line in lines], dim=1).expand(len(target), -1).clone()
        beta = torch.zeros(len(target), sum(before))
        if parent is not None:
            old, old_slopes, old_beta = parent.warm[k - 1]
            place = {int(t): i for i, t in enumerate(old)}
            rows = [(i, place[int(t)]) for i, t in enumerate(target) if int(t) in place]
            if rows:
                new, at = (torch.tensor(v) for v in zip(*rows, strict=True))
                slopes[new], beta[new] = old_slopes[at], old_beta[at]
        if not len(target):
            return np.zeros(1), (target, slopes, beta)
        factor = 1.0 - 2.0 * (target % 2)
        W, b = self.net.weights[k][target // 2], self.net.biases[k][target // 2]
        steps = STEPS_OF_ROOT if parent is None else STEPS_OF_DOMAIN
        _, slopes, beta = optimised(
            self.net, factor[:, None] * W, factor * b, lines, slopes, beta, sign, steps
        )
        exact_slopes, exact_beta = stored(slopes, beta * (sign != 0))
        parts = (v.numpy()[None] for v in (exact_slopes, exact_beta * sign))
        split = [np.split(v, np.cumsum(before)[:-1], axis=-1) for v in parts]
        multipliers = [Multipliers(s, m) for s, m in zip(*split, strict=True)]
        flip = factor.double().numpy()
        c = flip[:, None] * self.model.weights[k][target.numpy() // 2]
        value = (flip * self.model.biases[k][target.numpy() // 2])[None]
        with with_room():
            bound = least_values(c[None], value, np.abs(value), known, self.model, self.box, multipliers)[0][
                0
            ]
        n = len(lower)
        useful = np.concatenate([bound[:n] > low[lower], -bound[n:] < high[upper]])
        low[lower], high[upper] = np.maximum(low[lower], bound[:n]), np.minimum(high[upper], -bound[n:])
        numbers = [
            [useful.sum()],
            target.numpy()[useful],
            exact_slopes.numpy()[useful][:, unstable].ravel(),
            exact_beta.numpy()[useful][:, earlier].ravel(),
        ]
        return np.concatenate([np.asarray(v, dtype=float) for v in numbers]), (target, slopes, beta)

    # ---- cases of a domain

    def prove_cases(
        self, domain: Domain, cases: dict[int, tuple[Case, int]]
    ) -> tuple[dict[int, tuple[Case, int]], Tensor]:
        """Cases that stay open in a domain, and how much each neuron loses in their relaxations."""
        first = self.first_bounds(domain, cases)
        left, opened = {}, []
        for number, (case, root) in cases.items():
            branches = _Branches(self, domain, case, *first[number])
            if self.limits.allow(1) and branches.run(root, self.hopeless):
                continue
            left[number] = (case, root)
            opened.append(branches)
        if opened:
            self.hopeless = max(self.hopeless, *(branches.first_bound for branches in opened))
            worst = min(opened, key=lambda branches: branches.first_bound)
            for branches in [worst] if domain.cuts else opened:
                self.witness = counterexample([branches.case], self.model, STARTS, 0, branches.worst_input())
                if self.witness is not None:
                    break
        return left, self.scores(domain, opened) if opened else torch.zeros(sum(self.widths))

    def first_bounds(
        self, domain: Domain, cases: dict[int, tuple[Case, int]]
    ) -> dict[int, tuple[Tensor, Tensor, Tensor]]:
        """Bounds of the rows of all cases in a domain, optimised together, with their slopes and β."""
        forms = [_forms(self.net, case) for case, _ in cases.values()]
        steep = torch.cat([line.steep for line in domain.lines], dim=1)
        starts = [
            domain.of_case.get(
                number, (steep.expand(len(offset), -1), torch.zeros(len(offset), steep.shape[1]))
            )
            for number, (_, offset) in zip(cases, forms, strict=True)
        ]
        found = optimised(
            self.net,
            torch.cat([C for C, _ in forms]),
            torch.cat([offset for _, offset in forms]),
            domain.lines,
            torch.cat([slopes for slopes, _ in starts]),
            torch.cat([beta for _, beta in starts]),
            domain.sign,
            STEPS_OF_CASE,
            max(_margin(offset) for _, offset in forms),
        )
        parts = zip(*(v.split([len(offset) for _, offset in forms]) for v in found), strict=True)
        first = dict(zip(cases, parts, strict=True))
        domain.of_case.update({number: (slopes, beta) for number, (_, slopes, beta) in first.items()})
        return first

    def scores(self, domain: Domain, opened: list["_Branches"]) -> Tensor:
        """(H,) What the lines of each neuron cost: in the bounds themselves, and in the bounds of later neurons that they depend on."""
        lows = [line.low.clone().requires_grad_() for line in domain.lines]
        highs = [line.high.clone().requires_grad_() for line in domain.lines]
        C, offset = (torch.cat(part) for part in zip(*(b.rows(1) for b in opened), strict=True))
        slopes = torch.cat([branches.root_slopes for branches in opened]).split(self.widths, dim=1)
        kept: list[Tensor] = []
        with torch.enable_grad():
            lines = [Lines.of(a, b) for a, b in zip(lows, highs, strict=True)]
            least(self.net, C, offset, lines, list(slopes), kept=kept).sum().backward()
        total = [
            _gaps(line, c.detach()).sum(dim=0) for line, c in zip(domain.lines, reversed(kept), strict=True)
        ]
        against = [
            torch.zeros_like(gaps) for gaps in total
        ]  # the cuts: a domain may be empty, and cuts show it
        sign = domain.sign.split(self.widths)
        for k in range(1, len(self.widths)):
            target, slopes, _ = domain.warm[k - 1]
            if not len(target):
                continue
            neuron, is_upper = target // 2, target % 2 == 1
            low_grad, high_grad = (
                torch.zeros_like(v) if v.grad is None else v.grad for v in (lows[k], highs[k])
            )
            weight = torch.where(is_upper, -high_grad[0, neuron], low_grad[0, neuron]).clamp_min(0)
            factor = 1.0 - 2.0 * is_upper.float()
            rows: list[Tensor] = []
            parts = list(slopes.split(self.widths[:k], dim=1))
            W, b = self.net.weights[k][neuron], self.net.biases[k][neuron]
            least(self.net, factor[:, None] * W, factor * b, domain.lines[:k], parts, kept=rows)
            contradicts = (sign[k][neuron] * factor < 0).float()
            for i, c in enumerate(reversed(rows)):
                gaps = _gaps(domain.lines[i], c)
                total[i], against[i] = total[i] + weight @ gaps, against[i] + contradicts @ gaps
        parts = [torch.cat(part) for part in (total, against)]
        scaled = [part / part.max().clamp_min(1e-12) for part in parts]
        score = scaled[0] + EMPTINESS * scaled[1]
        few = [
            line.is_unstable[0] & (k > 0) & (line.is_unstable.sum() <= FEW)
            for k, line in enumerate(domain.lines)
        ]
        return score + FIRST * (torch.cat(few) & (score > 0))


def _forms(net: Network, case: Case) -> tuple[Tensor, Tensor]:
    """(m, h), (m,) The rows of a case as functions of the last hidden layer."""
    A, b = (torch.from_numpy(v).float() for v in (case.A, case.b))
    return A @ net.weights[-1], A @ net.biases[-1] - b


def _margin(offset: Tensor) -> float:
    """What a bound must exceed to be tried in float64."""
    return MARGIN * float(offset.abs().max().clamp_min(1.0))


def _gaps(line: Lines, c: Tensor) -> Tensor:
    """What the lines of unstable neurons cost in a form with these coefficients; the lower line costs less, as its slope is free."""
    return torch.where(c < 0, -c, 0.3 * c) * line.lift


class _Branches:
    """Branch and bound for one case in one domain."""

    def __init__(
        self, prover: Prover, domain: Domain, case: Case, bounds: Tensor, slopes: Tensor, beta: Tensor
    ) -> None:
        self.prover, self.domain, self.case = prover, domain, case
        self.net, self.widths = prover.net, prover.widths
        self.lines = domain.lines
        self.sign = domain.sign
        self.C, self.offset = _forms(self.net, case)
        self.margin = _margin(self.offset)
        self.row = int(bounds.argmax())  # of several rows the one that is nearest to a proof
        self.first_bound = float(bounds[self.row])
        self.root_slopes, self.root_beta = slopes[self.row : self.row + 1], beta[self.row : self.row + 1]

    def rows(self, n: int) -> tuple[Tensor, Tensor]:
        return self.C[self.row].expand(n, -1), self.offset[self.row].expand(n)

    def worst_input(self) -> np.ndarray:
        """The corner of the box at which the relaxation of the first branch is least: a counterexample may be near."""
        coefficients: list[Tensor] = []
        slopes, beta = self.split(self.root_slopes), self.split(self.root_beta * self.sign)
        least(self.net, *self.rows(1), self.lines, slopes, beta, at_input=coefficients)
        box = self.prover.box
        return np.where(coefficients[0][0].numpy() > 0, box.lower[0], box.upper[0])

    def run(self, root: int, hopeless: float) -> bool:
        """Whether the tree from this node on is complete; what was added is taken back otherwise."""
        pool = [(self.first_bound, root, self.root_slopes[0], self.root_beta[0], self.sign)]
        if self.first_bound > self.margin:
            pool = self.accepted(pool)
            if not pool:
                return True
        if self.first_bound <= hopeless:
            return False
        trees, begun = self.prover.trees, len(self.prover.trees.cut)
        made, depth = 0, float((self.sign != 0).sum())
        while pool:
            share = sum(
                2.0 ** (depth - float((branch[4] != 0).sum())) for branch in pool
            )  # of the tree that is open
            is_slow = made > TRIED_BRANCHES and made > BRANCHES_OF_DOMAIN * (1 - share)
            if is_slow or not self.prover.limits.allow(2 * AT_ONCE):
                for column in (trees.cut, trees.value, trees.sides, trees.domain, trees.block):
                    del column[begun:]
                trees.cut[root], trees.sides[root] = NONE, (NONE, NONE)
                return False
            pool.sort(key=lambda branch: -branch[0])  # nearest to a proof first: the pool stays small
            batch, pool = pool[:AT_ONCE], pool[AT_ONCE:]
            children = self.divided(batch)
            if children is None:
                pool, made = pool + batch, BRANCHES_OF_DOMAIN + 1
                continue
            made += len(children)
            self.prover.limits.branches -= len(children)
            done = [child for child in children if child[0] > self.margin]
            pool += [child for child in children if not child[0] > self.margin] + self.accepted(done)
        return True

    def divided(self, batch: list) -> list | None:
        """Both parts of every branch, at the neuron that promises most, with optimised bounds; None where no neuron is left."""
        n, H = len(batch), sum(self.widths)
        slopes, beta, sign = (torch.stack([branch[i] for branch in batch]) for i in (2, 3, 4))
        lines = self.cut_lines(sign)
        kept: list[Tensor] = []
        least(self.net, *self.rows(n), lines, self.split(slopes), self.split(beta * sign), kept)
        score = torch.cat([_gaps(line, c) for line, c in zip(lines, reversed(kept), strict=True)], dim=1)
        count = min(CANDIDATES, H)
        top, at = score.topk(count, dim=1)
        if bool((top[:, 0] <= 0).any()):
            return None
        each = 2 * count
        tried = sign.repeat_interleave(each, dim=0)
        both = torch.tensor([-1.0, 1.0]).repeat(n * count)
        tried[torch.arange(len(tried)), at.repeat_interleave(2, dim=1).reshape(-1)] = both
        more = [v.repeat_interleave(each, dim=0) for v in (slopes, beta)]
        value = least(
            self.net,
            *self.rows(len(tried)),
            self.cut_lines(tried),
            self.split(more[0]),
            self.split(more[1] * tried),
        )
        value = torch.where(top > 0, 0.0, -torch.inf)[:, :, None] + value.reshape(n, count, 2).clamp_max(0)
        pick = (value.amin(dim=2) + 0.1 * value.amax(dim=2)).argmax(dim=1)
        index = (each * torch.arange(n)[:, None] + 2 * pick[:, None] + torch.arange(2)).reshape(-1)
        chosen = at[torch.arange(n), pick]
        sign, slopes, beta = tried[index], more[0][index], more[1][index]
        bound, slopes, beta = optimised(
            self.net,
            *self.rows(2 * n),
            self.cut_lines(sign),
            slopes,
            beta,
            sign,
            STEPS_OF_BRANCH,
            self.margin,
        )
        dim = self.prover.model.weights[0].shape[1]
        nodes = [
            side
            for branch, j in zip(batch, chosen.tolist(), strict=True)
            for side in self.prover.trees.split(branch[1], dim + j)
        ]
        return [(float(bound[i]), nodes[i], slopes[i], beta[i], sign[i]) for i in range(2 * n)]

    def split(self, v: Tensor) -> list[Tensor]:
        return list(v.split(self.widths, dim=1))

    def cut_lines(self, sign: Tensor) -> list[Lines]:
        parts = zip(self.lines, self.split(sign), strict=True)
        return [
            Lines.of(
                torch.where(s > 0, line.low.clamp_min(0), line.low),
                torch.where(s < 0, line.high.clamp_max(0), line.high),
            )
            for line, s in parts
        ]

    def accepted(self, batch: list) -> list:
        """Make leaves of branches that are proven in float64 as well; returns the others."""
        if not batch:
            return []
        n, model, case = len(batch), self.prover.model, self.case
        slopes, beta, sign = (torch.stack([branch[i] for branch in batch]) for i in (2, 3, 4))
        exact_slopes, exact_beta = (v.numpy() for v in stored(slopes, beta * (sign != 0)))
        signs = sign.double().numpy()
        cut = lambda v: np.split(v, np.cumsum(self.widths)[:-1], axis=-1)  # noqa: E731
        known = [layer.with_cuts(s) for layer, s in zip(self.domain.known, cut(signs), strict=True)]
        multipliers = [
            Multipliers(s[:, None], m[:, None])
            for s, m in zip(cut(exact_slopes), cut(exact_beta * signs), strict=True)
        ]
        weights = np.zeros((n, 1, len(case.b)))
        weights[:, 0, self.row] = 1
        box = self.prover.box
        inputs = Boxes(*(np.broadcast_to(v, (n, v.shape[1])) for v in (box.lower, box.upper)))
        with with_room():
            bound, _ = least_outputs(weights, case.A, case.b, known, model, inputs, multipliers)
        unstable, left = self.domain.unstable, []
        for i, branch in enumerate(batch):
            if bound[i, 0] > 0:
                cuts = np.flatnonzero(signs[i])
                numbers = np.concatenate([weights[i, 0], exact_slopes[i, unstable], exact_beta[i, cuts]])
                self.prover.trees.leaf(branch[1], self.domain.number, numbers)
            else:
                left.append((min(branch[0], 0.0), *branch[1:]))
        return left
