"""What to do with a result: why something is not certified or not closed, what would close it, and what to ask next."""

from collections import Counter
from typing import Any

import numpy as np

from featureprism._moved import FAR, ONE_DIRECTION, Moved

CLOSED = "closed"
NOT_CERTIFIED = "not certified yet"  # how the method of a point begins that nothing but attacks has measured
MIXED = 10.0  # ratio of standard deviations beyond which one norm mixes units
BY_SECONDS, BY_BRANCHES = "the seconds were used up", "the branches were used up"
SAID_ELSEWHERE = ("misclassified", "interrupted", "flipped", CLOSED)
INSTEAD = {
    "GELU": "ReLU, LeakyReLU, tanh and sigmoid networks can be proven",
    "LayerNorm": "BatchNorm folds into the layer before it and can be proven",
}


def next_steps(bracket: Any, moved: Moved | None) -> list[str]:
    """Sentences that say what a result leaves open and what can be done about it, the most important first."""
    steps = [*_misclassified(bracket), *_not_certified(bracket), *_open(bracket)]
    if moved is not None and moved.points:
        steps += [*_units(bracket), *_far_changes(moved)]
        if moved.agreement >= ONE_DIRECTION and len(moved.points) >= 5:
            steps.append(
                "One direction breaks most points, as theory predicts of features that are averages: "
                "`featureprism explain` compares with the theorems, `featureprism audit` offers heads that keep features apart."
            )
    return steps


def _misclassified(bracket: Any) -> list[str]:
    wrong = int((bracket.attacked == 0).sum())
    if not wrong:
        return []
    verb, radius = ("point is", "its radius is") if wrong == 1 else ("points are", "their radii are")
    advice = (
        f"{radius} 0" if wrong <= len(bracket) / 2 else "check that y has the labels as the model knows them"
    )
    return [f"{wrong} {verb} misclassified without any perturbation: {advice}."]


def _not_certified(bracket: Any) -> list[str]:
    reasons = Counter(m for m in bracket.method if m.startswith(NOT_CERTIFIED))
    if not reasons:
        return []
    reason = reasons.most_common(1)[0][0].removeprefix(NOT_CERTIFIED).lstrip(": ")
    hint = next((words for name, words in INSTEAD.items() if name in reason), "")
    because = f" because {reason}" if reason else ""
    return [
        f"Nothing is proven{because}: the radii are those of the attack alone, and shorter changes may exist."
        + (f" {hint[0].upper() + hint[1:]}." if hint else "")
    ]


def _open(bracket: Any) -> list[str]:
    reasons = Counter(
        r for r in bracket.stopped_because if r not in SAID_ELSEWHERE and not r.startswith("no method")
    )
    total, steps = sum(reasons.values()), []
    if not total:
        return []
    for reason, count in reasons.most_common(2):
        points = f"{count} of {len(bracket)} points {'is' if count == 1 else 'are'} still open"
        if reason.startswith((BY_SECONDS, BY_BRANCHES)):
            steps.append(f"{points}: {reason}; {_larger(bracket, reason)}.")
        else:
            steps.append(f"{points}: {reason}; the truth lies between the two radii.")
    return steps


def _larger(bracket: Any, reason: str) -> str:
    if reason.startswith(BY_BRANCHES):
        return "raise the number of branches"
    used = bracket.seconds * len(bracket)
    if not np.isfinite(used):
        return "raise the seconds of the budget"
    more = max(10, round(4 * used, -1))
    return (
        f"{used:.0f} CPU seconds did not close them: try {more:.0f}, four times as many "
        "(--seconds, or budget=fp.Budget(seconds=…)); what more would need is not known"
    )


def _units(bracket: Any) -> list[str]:
    spread = bracket.spread
    if bracket.unit or spread is None or bracket.features is None:
        return []
    varying = spread[spread > 0]
    if len(varying) < 2 or varying.max() / varying.min() < MIXED:
        return []
    return [
        'The features have different units, which one radius mixes: unit="std" (--unit std) measures every change in '
        "standard deviations."
    ]


def _far_changes(moved: Moved) -> list[str]:
    far = Counter(
        change.feature
        for point in moved.points
        for change in point.changes[:1]
        if not abs(change.deviations) < FAR
    )
    name, count = far.most_common(1)[0] if far else ("", 0)
    if count == 0 or count < len(moved.points) / 2:
        return []
    return [
        f"For {count} of {len(moved.points)} points {name} moves farther than data do (beyond {FAR:g} standard deviations): "
        "it hardly varies in the data, so drop it, or give it a weight."
    ]
