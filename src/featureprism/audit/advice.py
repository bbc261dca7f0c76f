"""What an audit advises: which head proves most at no significant loss of accuracy, and whether that is more than chance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from featureprism.brackets import lower_median, median_interval
from featureprism.lab.intervals import share_interval, sign_test
from featureprism.lab.rows import Row

YOURS = "your head"
LEVEL = 0.05  # of all tests of an audit together
WHERE = "Radii are distances between embeddings (median of test points); they promise nothing directly about images or texts."


@dataclass(frozen=True, eq=False)
class Contender:
    """A head on test points: which of all it gets right, and both radii of those that are bracketed, in an order that all share."""

    name: str
    family: str
    right: Bool[np.ndarray, " m"]
    certified: Float[np.ndarray, " n"]
    attacked: Float[np.ndarray, " n"]
    is_saved: bool = False  # as heads/*.npz

    @property
    def proven(self) -> float:
        """The median proven radius."""
        return lower_median(self.certified)

    def as_row(self) -> Row:
        """Accuracy with the exact binomial interval, medians of both radii with intervals from order statistics; all of 95 %."""
        intervals = {
            "accuracy": share_interval(int(self.right.sum()), len(self.right)),
            "certified_radius": median_interval(self.certified),
            "attacked_radius": median_interval(self.attacked),
        }
        ends = {
            f"{name}_{end}": v
            for name, pair in intervals.items()
            for end, v in zip(("low", "high"), pair, strict=True)
        }
        numbers = {
            "accuracy": float(self.right.mean()),
            "certified_radius": self.proven,
            "attacked_radius": lower_median(self.attacked),
        }
        return {"head": self.name, "family": self.family, "points": len(self.certified), **numbers, **ends}


@dataclass(frozen=True, eq=False)
class Decision:
    """Whether to take another head than the one at hand."""

    now: Contender
    leader: Contender  # the largest proven radius among those that are not significantly less accurate
    saved: Contender  # the same among the heads that the audit saves, and the one at hand
    ties: tuple[Contender, ...]  # as accurate, and not significantly below the leader in proven radius
    num_tests: int  # that share the level
    points_wanted: int = 0  # so many would be bracketed if the file had them

    def is_significant(self, better: Contender) -> bool:
        """Whether a head proves more than the one at hand beyond chance."""
        return proves_more(better, self.now) * self.num_tests <= LEVEL

    @property
    def is_settled(self) -> bool:
        """Whether more points would not change what is advised: the leader is at hand, or beyond chance better."""
        return self.leader is self.now or self.is_significant(self.leader)

    @property
    def taken(self) -> Contender:
        """The leader where it is beyond chance better, else the head at hand."""
        return self.leader if self.is_settled else self.now


def less_accurate(head: Contender, now: Contender) -> float:
    """p-value of McNemar's exact test that a head is right less often, on all test points."""
    return sign_test(int((now.right & ~head.right).sum()), int((head.right & ~now.right).sum()))


def proves_more(head: Contender, other: Contender) -> float:
    """p-value of the exact sign test that a head proves the larger radius at more than half of the points."""
    return sign_test(*_wins(head, other))


def _wins(head: Contender, other: Contender) -> tuple[int, int]:
    """At how many of the points that both share each proves the larger radius."""
    n = min(len(head.certified), len(other.certified))
    mine, theirs = head.certified[:n], other.certified[:n]
    return int((mine > theirs).sum()), int((mine < theirs).sum())


def decide(contenders: Sequence[Contender], num_looks: int = 1) -> Decision:
    """Compare all heads with yours, or with the ReLU head where there is none.

    Able is who is not significantly less accurate (McNemar's exact test, 5 % each); the leader is the able head with the largest median
    proven radius. It is taken if the exact sign test of proven radii, point by point, is significant at 5 % after Bonferroni's
    correction for all heads and for every time that points were added.
    """
    now = next((c for c in contenders if c.family == "yours"), None)
    now = now or next(c for c in contenders if c.family == "ReLU")
    able = [c for c in contenders if c is now or less_accurate(c, now) > LEVEL]
    leader = max(able, key=lambda c: (c.proven, c is now))
    saved = max((c for c in able if c.is_saved or c is now), key=lambda c: (c.proven, c is now))
    num_tests = max(1, len(contenders) - 1) * num_looks
    ties = [c for c in able if c is not leader and proves_more(leader, c) * num_tests > LEVEL]
    ties.sort(key=lambda c: -c.proven)
    return Decision(now, leader, saved, tuple(ties), num_tests)


def recommendation(decision: Decision) -> Row:
    """The decision in words."""
    d = decision
    best_saved = d.saved if d.saved is not d.now and d.is_significant(d.saved) else None
    if d.leader is d.now:
        words = [
            f"Keep {d.now.name}: it is proven to hold {_radius(d.now)}, and no head that is as accurate proves more."
        ]
    elif d.is_settled:
        words = [f"Take '{d.leader.name}': {_compared(d)}"]
        if d.leader.is_saved:
            words.append("It is saved as head.npz.")
        else:
            words.append("It is a baseline that the audit does not save.")
            words.append(
                f"Of the saved heads '{best_saved.name}' proves most, {_radius(best_saved)}: head.npz."
                if best_saved
                else f"No saved head proves significantly more than {d.now.name}."
            )
    else:
        words = [
            f"No significant difference: keep {d.now.name}.",
            f"'{d.leader.name}' has the largest proven radius, {_radius(d.leader)} against {_radius(d.now)}, but {_sign(d)}.",
        ]
        if d.points_wanted > len(d.now.certified):
            words.append(f"{len(d.now.certified)} test points are all that the file has.")
    others = [c for c in d.ties if c is not d.now]
    if others:
        names = ", ".join(f"'{c.name}' ({c.proven:.3g})" for c in others)
        words.append(f"Not significantly below '{d.leader.name}' in what is proven: {names}.")
    return {
        "kind": "recommendation",
        "head": d.taken.name,
        "text": " ".join([*words, WHERE]),
        "leader": d.leader.name,
        "saved": None if best_saved is None else best_saved.name,
        "ties": [c.name for c in d.ties],
        "points": len(d.leader.certified),
        "p_value": min(1.0, proves_more(d.leader, d.now) * d.num_tests),
        "p_value_accuracy": less_accurate(d.leader, d.now),
        "tests": d.num_tests,
    }


def _radius(head: Contender) -> str:
    low, high = median_interval(head.certified)
    return f"{head.proven:.3g} [{low:.3g}, {high:.3g}]"


def _compared(d: Decision) -> str:
    gain = 100 * float(d.leader.right.mean() - d.now.right.mean())
    loss = (
        ""
        if gain >= 0
        else f", a loss that is not significant (McNemar's exact test, p = {less_accurate(d.leader, d.now):.2g})"
    )
    return (
        f"half of the test points are proven to hold up to {_radius(d.leader)} instead of {_radius(d.now)} for {d.now.name}; "
        f"{_sign(d)}. "
        f"Accuracy {d.leader.right.mean():.1%} instead of {d.now.right.mean():.1%}{loss}."
    )


def _sign(d: Decision) -> str:
    wins, losses = _wins(d.leader, d.now)
    p = min(1.0, proves_more(d.leader, d.now) * d.num_tests)
    return f"it proves more at {wins} points and less at {losses} (exact sign test, p = {p:.2g} for {d.num_tests} tests)"
