"""Proving a radius for the two-class read-out of a k-class network: boxes of class scores, a separable bound on each.

Class j is seen through its score u_j = ⟨v_j, x + δ⟩, v_j the mean of its h neurons. Own logits f_j ≥ [u_j]₊, targets f_l ≤
G_l(u_l), where G_l(u) = u
from A_l on, [u]₊ + ε_l below it and 0 below -B_l; for h = 1 that is [u]₊. y f = P - N, the log-sum-exps (or maxima) of own and
target logits:

    P ≥ Σ_own π_j f_j + entropy(π),  Σπ ≤ 1;     N ≤ ln S - 1 + (1/S) Σ_rivals e^f_l for any S > 0;     one target at a time for maxima,
and for log-sum-exp too, with N ≤ max_l f_l + ln r, r targets: less is lost where scores are large.

For any α with δ̄ = Σ α_j v_j, ½‖δ‖² = ⟨δ̄, δ⟩ - ½‖δ̄‖² + ½‖δ - δ̄‖² and ‖δ - δ̄‖² ≥ Σ_j D_j (u_j - ū_j)² as long as Σ_j D_j v_j
v_jᵀ ≤ I. So every δ that
flips, with scores in a box, has ½‖δ‖² ≥ ½‖δ‖² + τ(P - N) ≥ a constant plus a sum of functions of one score each, whose least values are
found one by one. At the shortest flip of the box, with its own multiplier, softmax and S, nothing is lost; elsewhere boxes are
cut where
the score that makes a function least is not that of the flip.
"""

from dataclasses import dataclass, replace
from math import log
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism._threads import one_thread
from featureprism.attacks.boundary import least_distance
from featureprism.models.activations import relu_power
from featureprism.verify.query import Limits

TANGENTS = 6  # of P in the search for the shortest flip of a box
SWEEPS = 12  # over their multipliers in each of its rounds
ROUNDS, CHILD_ROUNDS = (
    6,
    3,
)  # of that search, in a box cut off another: each adds a tangent of P and takes that of N anew
PIECES = 48  # into which an interval is divided to find the least value of a function of one score
NEVER = -1e30  # the offset of a constraint that is not there
MOST_BRANCHES = 10_000


@dataclass(frozen=True)
class ReadoutScores:
    """Points of one label before a network, in class scores: classes of the true label first, target classes after them."""

    gram: Float[Tensor, "k k"]  # ⟨v_i, v_j⟩
    weight: Float[Tensor, " k"]  # D
    u0: Float[Tensor, "m k"]
    reach: Float[Tensor, " m"]
    num_true: int
    smooth: bool  # log-sum-exp, or a maximum, with one target
    one_of: int  # the target may be any of so many; 0: all targets together
    above: Float[Tensor, "m k"]  # A: from here on G(u) = u
    below: Float[Tensor, "m k"]  # B: up to -B, G(u) = 0
    lift: Float[Tensor, "m k"]  # ε

    @property
    def allowance(self) -> float:
        """What the targets' log-sum-exp may have beyond the one target: ln r."""
        return log(self.one_of) if self.smooth and self.one_of else 0.0

    def rows(self, index: Tensor) -> "ReadoutScores":
        """The problem of some of the points."""
        names = ("u0", "reach", "above", "below", "lift")
        return replace(self, **{name: getattr(self, name)[index] for name in names})


def scores_of(
    W: Float[Tensor, "k h d"],
    x: Float[Tensor, "m d"],
    reach: Float[Tensor, " m"],
    num_true: int,
    smooth: bool,
    one_of: int,
) -> tuple[ReadoutScores, Float[Tensor, "k d"]]:
    """The problem of points before own classes (first) and targets, and the vectors v."""
    V = W.mean(dim=1)
    gram = V @ V.T
    square = gram.diagonal().clamp_min(1e-300)
    cosines = gram / (square.unsqueeze(1) * square).sqrt()
    weight = 1 / (square * torch.linalg.eigvalsh(cosines)[-1] * (1 + 1e-7))
    apart = W - V.unsqueeze(1)
    centre = torch.einsum("khd,md->mkh", apart, x)
    length = torch.linalg.vector_norm(apart, dim=2) * reach.reshape(-1, 1, 1)
    least, most = centre - length, centre + length
    above, below = (-least).amax(dim=2).clamp_min(0), most.amax(dim=2).clamp_min(0)
    lift = torch.maximum(least.abs(), most.abs()).mean(dim=2) / 2
    return ReadoutScores(gram, weight, x @ V.T, reach, num_true, smooth, one_of, above, below, lift), V


@dataclass(frozen=True)
class ReadoutLeaf:
    """Boxes of scores with what proves them, row by row."""

    low: Float[Tensor, "m k"]
    high: Float[Tensor, "m k"]
    alpha: Float[Tensor, "m k"]
    tau: Float[Tensor, " m"]
    share: Float[Tensor, "m p"]  # π
    level: Float[Tensor, " m"]  # ln S
    u: Float[Tensor, "m k"]  # the shortest flip that was found
    bound: Float[Tensor, " m"]
    score: Float[Tensor, " m"]  # where to cut: at this value
    at: Tensor  # (m,) of this target

    def rows(self, index: Tensor) -> "ReadoutLeaf":
        """Some of the rows."""
        return ReadoutLeaf(**{name: value[index] for name, value in self.__dict__.items()})


@dataclass(eq=False)
class ReadoutNode:
    """A box of one point with its proof, or a cut at u_at = value with the two boxes beside it."""

    leaf: ReadoutLeaf
    below: "ReadoutNode | None" = None
    above: "ReadoutNode | None" = None


def plain_tree(root: ReadoutNode) -> dict[str, Any]:
    """The tree as the checker wants it; shares a hair smaller, so that they do not add up to more than 1."""
    tree: dict[str, Any] = {}
    waiting = [(root, tree)]
    while waiting:
        node, plain = waiting.pop()
        if node.below is not None and node.above is not None:
            plain |= {"cut": int(node.leaf.at), "value": float(node.leaf.score), "below": {}, "above": {}}
            waiting += [(node.below, plain["below"]), (node.above, plain["above"])]
        else:
            leaf = node.leaf
            plain |= {"alpha": leaf.alpha[0].numpy(), "tau": float(leaf.tau), "level": float(leaf.level)}
            plain["share"] = (1 - 1e-14) * leaf.share[0].numpy()
    return tree


def leaves(node: ReadoutNode) -> list[ReadoutNode]:
    """The boxes that together cover everything."""
    if node.below is None or node.above is None:
        return [node]
    return leaves(node.below) + leaves(node.above)


def _softmax(problem: ReadoutScores, u: Tensor) -> tuple[Tensor, Tensor]:
    """Values and weights of P at scores u: π, and N's weights, as [u]₊ has them."""
    logits, own = relu_power(u, 1), problem.num_true
    if problem.smooth:
        return logits[:, :own].softmax(dim=1), logits[:, own:].softmax(dim=1)
    largest = torch.nn.functional.one_hot(logits[:, :own].argmax(dim=1), own).to(u.dtype)
    return largest, torch.ones_like(logits[:, own:])


def _entropy(problem: ReadoutScores, share: Tensor) -> Tensor:
    """Σ -π ln π, 0 for maxima."""
    return (
        -torch.special.xlogy(share, share).sum(dim=-1) if problem.smooth else torch.zeros_like(share[..., 0])
    )


def shortest_flip(
    problem: ReadoutScores, low: Tensor, high: Tensor, u: Tensor, rounds: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(α, τ, π, u) of a short flip in each box: convex-concave steps, P by its tangents, N by its tangent at the present flip.

    min ½‖δ‖² under linear constraints A u + o ≤ 0: multipliers by coordinate ascent, δ = -Σ γ_j v_j with γ = Aᵀ multipliers.
    """
    m, k = u.shape
    own = problem.num_true
    rows, shares = u.new_zeros(m, TANGENTS, own), u.new_zeros(m, TANGENTS, own)
    offsets = u.new_full((m, TANGENTS), NEVER)
    multipliers = u.new_zeros(m, TANGENTS + 2 * (k - own))
    eye = torch.eye(k, dtype=u.dtype)[own:].expand(m, -1, -1)  # only targets are cut
    box = low[:, own:], -high[:, own:]
    alpha, tau = torch.zeros_like(u), u.new_zeros(m)
    for number in range(rounds):
        share, weights = _softmax(problem, u)
        slot = number % TANGENTS
        rows[:, slot], shares[:, slot] = share * (u[:, :own] > 0), share
        offsets[:, slot] = _entropy(problem, share)
        targets = relu_power(u[:, own:], 1)
        value = targets.logsumexp(dim=1) if problem.smooth else targets.sum(dim=1)
        slope = weights * (u[:, own:] > -0.05)  # a target at its kink may rise
        flat = value + problem.allowance - (slope * u[:, own:]).sum(dim=1)
        tangents = torch.cat([rows, -slope.unsqueeze(1).expand(-1, TANGENTS, -1)], dim=2)
        A = torch.cat([tangents, -eye, eye], dim=1)
        o = torch.cat([offsets - flat.unsqueeze(1), *box], dim=1)
        b = torch.where(o > NEVER / 2, (A @ problem.u0.unsqueeze(2)).squeeze(2) + o, NEVER)
        multipliers = least_distance(A @ problem.gram @ A.mT, b, multipliers, SWEEPS)
        alpha = -(multipliers.unsqueeze(1) @ A).squeeze(1)
        tau = multipliers[:, :TANGENTS].sum(dim=1)
        u = torch.minimum(torch.maximum(problem.u0 + alpha @ problem.gram, low), high)
    if problem.smooth:
        return alpha, tau, _softmax(problem, u)[0], u
    # several own classes may be largest at once: the multipliers of their tangents say with which weights
    mixed = (multipliers[:, :TANGENTS].unsqueeze(1) @ shares).squeeze(1)
    total = mixed.sum(dim=1, keepdim=True)
    return alpha, tau, torch.where(total > 0, mixed / total.clamp_min(1e-300), _softmax(problem, u)[0]), u


def least_values(
    problem: ReadoutScores, leaf: ReadoutLeaf
) -> tuple[Float[Tensor, "m k"], Float[Tensor, "m k"]]:
    """The least value of each function of one score on its interval, from chords on PIECES pieces, and where it lies."""
    share = torch.linspace(0, 1, PIECES + 1, dtype=leaf.u.dtype)
    grid = leaf.low.unsqueeze(2) + (leaf.high - leaf.low).unsqueeze(2) * share  # (m, k, pieces + 1)
    value = part_of(problem, leaf, grid)
    left, right = grid[..., :-1], grid[..., 1:]
    slope = (value[..., 1:] - value[..., :-1]) / (right - left).clamp_min(1e-300)
    centre = problem.u0 + leaf.alpha @ problem.gram
    D = problem.weight.unsqueeze(1)
    linear = leaf.alpha.unsqueeze(2) + slope
    at = torch.minimum(torch.maximum(centre.unsqueeze(2) - linear / D, left), right)
    least = leaf.alpha.unsqueeze(2) * (at - problem.u0.unsqueeze(2)) + D * (at - centre.unsqueeze(2)) ** 2 / 2
    least = least + value[..., :-1] + slope * (at - left)
    best, piece = least.min(dim=2)
    return best, at.gather(2, piece.unsqueeze(2)).squeeze(2)


def part_of(problem: ReadoutScores, leaf: ReadoutLeaf, u: Float[Tensor, "m k g"]) -> Float[Tensor, "m k g"]:
    """τ π_j [u]₊ of own classes, -(τ/S) e^G(u) of targets (-τ G(u) for maxima)."""
    own, tau = problem.num_true, leaf.tau.reshape(-1, 1, 1)
    first = tau * leaf.share.unsqueeze(2) * relu_power(u[:, :own], 1)
    rest = u[:, own:]
    A, B, lift = (v[:, own:].unsqueeze(2) for v in (problem.above, problem.below, problem.lift))
    logit = torch.where(rest >= A, rest, relu_power(rest, 1) + lift)
    logit = torch.where(rest <= -B, torch.zeros_like(rest), logit)
    second = (logit - leaf.level.reshape(-1, 1, 1)).exp() if not problem.one_of else logit
    return torch.cat([first, -tau * second], dim=1)


def proven(problem: ReadoutScores, leaf: ReadoutLeaf) -> ReadoutLeaf:
    """The bound of each box with the parameters it has, and where to cut it."""
    values, at = least_values(problem, leaf)
    above = problem.allowance if problem.one_of else leaf.level - 1
    offset = _entropy(problem, leaf.share) - above
    square = ((leaf.alpha @ problem.gram) * leaf.alpha).sum(dim=1)
    value = leaf.tau * offset - square / 2 + values.sum(dim=1)
    bound = (2 * value.nan_to_num(0.0).clamp_min(0)).sqrt()
    own = problem.num_true
    here = leaf.u.unsqueeze(2)
    D, centre = problem.weight, problem.u0 + leaf.alpha @ problem.gram
    at_flip = leaf.alpha * (leaf.u - problem.u0) + D * (leaf.u - centre) ** 2 / 2
    at_flip = at_flip + part_of(problem, leaf, here).squeeze(2)
    gain = (at_flip - values)[:, own:]
    chosen = own + gain.argmax(dim=1)
    pick = chosen.unsqueeze(1)
    low, high, u, best = (v.gather(1, pick).squeeze(1) for v in (leaf.low, leaf.high, leaf.u, at))
    inset = 0.1 * (high - low)
    cut = torch.minimum(torch.maximum((u + best) / 2, low + inset), high - inset)
    return replace(leaf, bound=bound, score=cut, at=chosen)


def solved(problem: ReadoutScores, low: Tensor, high: Tensor, u: Tensor, rounds: int = ROUNDS) -> ReadoutLeaf:
    """Boxes with the proof that their shortest flips suggest."""
    u = torch.minimum(torch.maximum(u, low), high)
    alpha, tau, share, u = shortest_flip(problem, low, high, u, rounds)
    level = relu_power(u[:, problem.num_true :], 1).logsumexp(dim=1)
    empty = torch.zeros_like(tau)
    leaf = ReadoutLeaf(low, high, alpha, tau, share, level, u, empty, empty, empty.long())
    return proven(problem, leaf)


@one_thread()
def prove(
    problem: ReadoutScores, u: Float[Tensor, "m k"], goal: Float[Tensor, " m"], *, limits: Limits
) -> list[ReadoutNode]:
    """A tree of boxes for every point, grown until its bound reaches `goal` or the limits are used up.

    `u`: the scores at the attack's witness. All points advance together, each cutting its worst box.
    """
    span = problem.gram.diagonal().sqrt() * problem.reach.unsqueeze(1)
    leaf = solved(problem, problem.u0 - span, problem.u0 + span, u)
    roots = [ReadoutNode(leaf.rows(torch.tensor([i]))) for i in range(len(u))]
    waiting = [[root] for root in roots]
    while limits.allow():
        worst = [min(nodes, key=_bound) for nodes in waiting]
        active = [
            i
            for i, node in enumerate(worst)
            if _bound(node) < float(goal[i]) and len(waiting[i]) < min(limits.branches, MOST_BRANCHES)
        ]
        if not active:
            break
        _cut(problem.rows(torch.tensor(active)), [worst[i] for i in active])
        for i in active:
            node = worst[i]
            assert node.below is not None
            assert node.above is not None
            waiting[i].remove(node)
            waiting[i] += [node.below, node.above]
    return roots


def _bound(node: ReadoutNode) -> float:
    return float(node.leaf.bound)


def _cut(problem: ReadoutScores, nodes: list[ReadoutNode]) -> None:
    """Cut each box where it says, and prove the two halves."""
    leaf = ReadoutLeaf(
        **{
            name: torch.cat([getattr(node.leaf, name) for node in nodes])
            for name in ReadoutLeaf.__dataclass_fields__
        }
    )
    twice = torch.arange(len(nodes)).repeat(2)
    low, high = leaf.low[twice].clone(), leaf.high[twice].clone()
    first = torch.arange(len(nodes))
    high[first, leaf.at] = leaf.score
    low[first + len(nodes), leaf.at] = leaf.score
    both = solved(problem.rows(twice), low, high, leaf.u[twice], CHILD_ROUNDS)
    for i, node in enumerate(nodes):
        node.below = ReadoutNode(both.rows(torch.tensor([i])))
        node.above = ReadoutNode(both.rows(torch.tensor([i + len(nodes)])))
