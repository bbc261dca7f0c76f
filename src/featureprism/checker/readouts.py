"""The checker's word on read-outs: boxes of class scores, every number enclosed with its rounding (see readout_search.py for the
bound).

Nothing of the search is believed but cuts and free parameters: α, τ ≥ 0, ln S and weights π ≥ 0 with Σπ ≤ 1. As logits are not
negative, P ≥ Σ π_j f_j - Σ π_j ln π_j + ln Σπ for log-sum-exp, and P ≥ Σ π_j f_j for maxima. Log-sum-exp of r rivals may be proven
one rival at a time as well: it is at most the largest plus ln r.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from featureprism.checker.cells import least_eigenvalue
from featureprism.checker.enclosed import LIBRARY, TINY, Enclosed, U, down, enclosed, outward, up
from featureprism.checker.scaled import is_array, refuse_unless

PIECES = 48  # on which a function of one score is bounded
MOST_CUTS = 10_000
SCALES = 1e-100, 1e100  # of weights, points and radii: in between no square leaves float64
Tree = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Scores:
    """A point before the own classes (first) and some rivals: what is known of scores u_j = ⟨v_j, x + δ⟩ for ‖δ‖ ≤ reach."""

    gram: Enclosed  # (k, k)
    u0: Enclosed  # (k,)
    weight: Enclosed  # (k,) D
    low: np.ndarray
    high: np.ndarray
    num_own: int
    smooth: bool  # log-sum-exp: the entropy of the own classes counts
    one_of: int  # the rival may be any of so many, one at a time; 0: all rivals together, by exponentials
    above: np.ndarray  # A
    below: np.ndarray  # B
    lift: np.ndarray  # ε, beyond [u]₊ between -B and A
    slip: np.ndarray  # η, how far the mean of a group is from its score


def proven_readout(
    W: np.ndarray, labels: np.ndarray, x: np.ndarray, y: float, kind: str, reach: float, trees: Any
) -> float:
    """The radius below which no perturbation flips the read-out, as far as the trees prove it (0: nothing), at most `reach`.

    One tree for log-sum-exp; for maxima, or if there are so many trees, one for each class of the other label, in their order: one
    of them must reach the own ones.
    """
    refuse_unless(isinstance(W, np.ndarray) and W.ndim == 3 and is_array(W, W.shape), "finite W (k, h, d)")
    refuse_unless(is_array(x, W.shape[2:]) and y in (-1, 1), "a finite float64 point and a label -1 or +1")
    refuse_unless(is_array(labels, W.shape[:1]) and {*labels} == {-1.0, 1.0}, "labels -1 and +1, both")
    refuse_unless(kind in ("log-sum-exp", "max"), f"a read-out that it knows, not {kind}")
    sizes = np.array([np.abs(W).max(), max(np.abs(x).max(), reach), reach])
    refuse_unless(bool(((sizes > SCALES[0]) & (sizes < SCALES[1])).all()), "numbers of usual sizes")
    own, rivals = np.flatnonzero(labels == y), np.flatnonzero(labels != y)
    refuse_unless(isinstance(trees, list), "a list of trees")
    together = kind == "log-sum-exp" and len(trees) == 1
    parts = [rivals] if together else [rivals[i : i + 1] for i in range(len(rivals))]
    refuse_unless(len(trees) == len(parts), f"{len(parts)} trees")
    one_of = 0 if together else len(rivals)
    radii = [reach]
    for part, tree in zip(parts, trees, strict=True):
        scores = posed_scores(W[np.concatenate([own, part])], x, reach, len(own), kind != "max", one_of)
        radii += [_leaf_radius(leaf, low, high, scores) for leaf, low, high in _leaves(tree, scores)]
    return float(min(radii))


def posed_scores(
    W: np.ndarray, x: np.ndarray, reach: float, num_own: int, smooth: bool, one_of: int = 0
) -> Scores:
    """What is known of the scores; any v_j would do, the means of groups are near all of their neurons."""
    k, h, d = W.shape
    V = W.mean(axis=1)
    gram, u0 = enclosed(V) @ V.T, enclosed(V) @ x
    span = up(_length(enclosed(V)) * reach)
    apart = enclosed(W) - V[:, None]  # (k, h, d), 0 for h = 1
    away = Enclosed(apart.mid.reshape(k * h, d), apart.rad.reshape(k * h, d))
    centre, length = away @ x, up(_length(away) * reach)
    least, most = (v.reshape(k, h) for v in (down(centre.low - length), up(centre.high + length)))
    mean = _means(apart)
    slip = up(up((mean @ x).size) + up(_length(mean) * reach))
    lift = outward(np.maximum(np.abs(least), np.abs(most)).sum(axis=1) / (2 * h), h)
    return Scores(
        gram,
        u0,
        _weights(gram),
        down(u0.low - span),
        up(u0.high + span),
        num_own,
        smooth,
        one_of,
        np.maximum(-least.min(axis=1), 0),
        np.maximum(most.max(axis=1), 0),
        up(lift + slip),
        slip,
    )


def _means(apart: Enclosed) -> Enclosed:
    """(k, d) The mean over each group of its neurons' differences from v: 0 up to rounding."""
    h = apart.mid.shape[1]
    mid = apart.mid.sum(axis=1) / h
    rounding = 2 * (h + 2) * U * np.abs(apart.mid).sum(axis=1) / h
    return Enclosed(mid, outward(apart.rad.sum(axis=1) / h + rounding, h))


def _length(v: Enclosed) -> np.ndarray:
    """Floats above the lengths of rows."""
    size = v.size
    return up(np.sqrt(outward((size**2).sum(axis=-1), size.shape[-1])))


def _weights(gram: Enclosed) -> Enclosed:
    """D ≥ 0 with Σ_j D_j v_j v_jᵀ ≤ I, that is I - D^½ K D^½ ≥ 0: 1/‖v_j‖² over the largest eigenvalue of the cosines, or 0."""
    lengths = np.sqrt(np.maximum(gram.mid.diagonal(), 1e-300))
    cosines = gram.mid / lengths[:, None] / lengths
    try:
        largest = float(np.linalg.eigvalsh(cosines)[-1])
        root = 1 / (lengths * np.sqrt(largest * (1 + 1e-7)))
        shrunk = np.eye(len(root)) - enclosed(root[:, None]) * gram * root
        if not np.isfinite(root).all() or not least_eigenvalue(shrunk) > 0:
            root = np.zeros_like(root)
    except np.linalg.LinAlgError:
        root = np.zeros_like(lengths)
    return enclosed(root) * root


def _leaves(tree: Tree, scores: Scores) -> Iterator[tuple[Tree, np.ndarray, np.ndarray]]:
    """All leaves whose boxes are not empty, each with its box; malformed trees are refused."""
    k, waiting, cuts = len(scores.low), [(tree, scores.low, scores.high)], 0
    while waiting:
        node, low, high = waiting.pop()
        refuse_unless(isinstance(node, dict), "a tree of dictionaries")
        if (low > high).any():
            continue
        if "cut" not in node:
            _refuse_malformed(node, scores)
            yield node, low, high
            continue
        j, value, cuts = node["cut"], node.get("value"), cuts + 1
        refuse_unless(cuts < MOST_CUTS, f"at most {MOST_CUTS} cuts")
        refuse_unless(type(j) is int and 0 <= j < k, f"a cut at one of the classes, not {j}")
        refuse_unless(isinstance(value, float) and bool(np.isfinite(value)), f"a finite cut, not {value}")
        refuse_unless("below" in node and "above" in node, "both sides of every cut")
        for child, bounds in (("below", high), ("above", low)):
            part = bounds.copy()
            part[j] = min(part[j], value) if child == "below" else max(part[j], value)
            waiting.append((node[child], *((low, part) if child == "below" else (part, high))))


def _refuse_malformed(leaf: Tree, scores: Scores) -> None:
    k, p = len(scores.low), scores.num_own
    refuse_unless(is_array(leaf.get("alpha"), (k,)), f"alpha as a finite float64 array ({k},)")
    good = is_array(leaf.get("share"), (p,)) and bool((leaf["share"] >= 0).all())
    refuse_unless(good, f"shares as a finite float64 array ({p},) without negative numbers")
    refuse_unless(bool(enclosed(leaf["share"]).sum().high <= 1), "shares that add up to 1 or less")
    for name, least in (("tau", 0.0), ("level", -SCALES[1])):
        value = leaf.get(name)
        refuse_unless(isinstance(value, float) and least <= value < SCALES[1], f"a usual {name}, not {value}")


def _leaf_radius(leaf: Tree, low: np.ndarray, high: np.ndarray, scores: Scores) -> float:
    """√(2 × the least value), rounded down: a constant, and for each score the least of its function over pieces of its interval."""
    alpha, tau, share = leaf["alpha"], leaf["tau"], leaf["share"]
    moved = scores.gram @ alpha
    constant = -0.5 * (enclosed(alpha) * moved).sum()
    own = scores.num_own
    constant = constant - enclosed(tau) * (enclosed(share) * scores.slip[:own]).sum()
    if scores.smooth:
        above = _log(scores.one_of) if scores.one_of else enclosed(leaf["level"]) - 1.0
        gained = _entropy(share) - above
        constant = constant + enclosed(tau) * gained
    offset, slope = _lines(leaf, low, high, scores)
    grid = _grid(low, high)
    left, right = grid[:, :-1], grid[:, 1:]
    D = Enclosed(scores.weight.mid[:, None], scores.weight.rad[:, None])
    u0 = Enclosed(scores.u0.mid[:, None], scores.u0.rad[:, None])
    centre = u0 + Enclosed(moved.mid[:, None], moved.rad[:, None])
    linear = enclosed(alpha[:, None]) + slope
    # the function of a score is convex on a piece: above its tangent at any z
    with np.errstate(all="ignore"):
        best = centre.mid - linear.mid / D.mid
    z = np.minimum(np.maximum(np.where(np.isfinite(best), best, left), left), right)
    value = 0.5 * (D * (z - centre) * (z - centre)) + linear * z - enclosed(alpha[:, None]) * u0 + offset
    tangent = D * (z - centre) + linear
    ends = [(tangent * (enclosed(end) - z)).low for end in (left, right)]
    least = (value.low + np.minimum(np.minimum(*ends), 0)).min(axis=1)
    total = constant + Enclosed(least, 2 * U * np.abs(least) + TINY).sum()
    return float(down(np.sqrt(down(2 * total.low)))) if total.low > 0 else 0.0  # NaN proves nothing


def _grid(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(k, PIECES + 1) floats from low to high that rise, one of them 0 where that lies between."""
    share = np.linspace(0, 1, PIECES + 1)
    grid = low[:, None] + (high - low)[:, None] * share
    grid[:, -1] = high
    inside = (low < 0) & (high > 0)
    nearest = np.clip(np.abs(grid).argmin(axis=1), 1, PIECES - 1)
    grid[inside, nearest[inside]] = 0.0
    return np.sort(grid, axis=1)


def _lines(leaf: Tree, low: np.ndarray, high: np.ndarray, scores: Scores) -> tuple[Enclosed, Enclosed]:
    """(offset, slope) on each piece of a line below τπ[u]₊ (own classes) or -(τ/S) e^G(u) (rivals; -τ G(u) for maxima)."""
    own, grid = scores.num_own, _grid(low, high)
    left, right = grid[:, :-1], grid[:, 1:]
    weight = enclosed(leaf["tau"]) * leaf["share"][:, None]
    rising = weight * (left[:own] >= 0).astype(
        float
    )  # 0 is a point of the grid: no piece has the kink inside
    a, b = left[own:], right[own:]
    A, B, lift, slip = (v[own:, None] for v in (scores.above, scores.below, scores.lift, scores.slip))
    linear, silent = a >= A, b <= -B
    ends = [
        np.where(linear, up(u + slip), np.where(silent, 0.0, up(np.maximum(u, 0) + lift))) for u in (a, b)
    ]
    if not scores.one_of:
        ends = [_exponential(v - enclosed(leaf["level"])) for v in ends]
    slope = (ends[1] - ends[0]) / np.where(b > a, b - a, 1.0)  # any slope will do
    line = enclosed(slope)
    offset = np.maximum((ends[0] - line * a).high, (ends[1] - line * b).high)
    tau = enclosed(leaf["tau"])
    falling = -(tau * line), -(tau * offset)
    zero = np.zeros_like(left[:own])
    return (
        Enclosed(np.concatenate([zero, falling[1].mid]), np.concatenate([zero, falling[1].rad])),
        Enclosed(np.concatenate([rising.mid, falling[0].mid]), np.concatenate([rising.rad, falling[0].rad])),
    )


def _log(count: int) -> Enclosed:
    """ln count."""
    value = np.log(count)
    return Enclosed(value, LIBRARY * (value + 1))


def _exponential(exponent: Enclosed) -> np.ndarray:
    """Floats above e^exponent."""
    return up(np.exp(exponent.high) * (1 + 4 * LIBRARY)) + TINY


def _entropy(share: np.ndarray) -> Enclosed:
    """-Σ π ln π + ln Σπ, of shares that add up to 1 or less."""
    positive = share[share > 0]
    if not len(positive):
        return Enclosed(-np.inf, 0.0)
    logs = np.log(positive)
    terms = enclosed(positive) * Enclosed(logs, LIBRARY * (np.abs(logs) + 1))
    total = enclosed(positive).sum()
    rest = np.log(total.low) if total.low > 0 else -np.inf
    return -terms.sum() + Enclosed(rest, LIBRARY * (np.abs(rest) + 1))
