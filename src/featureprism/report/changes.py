"""A verdict that changes between scales, explained by what was measured: values, seeds, sizes and premises at each of them."""

from itertools import pairwise
from typing import Any

from featureprism.records import Row
from featureprism.report import claims as words

Way = dict[str, Row]  # a judged claim by scale, from small to large
SHOWN = 6  # sizes that are told


def changes(ways: dict[str, Way]) -> dict[str, Way]:
    """The claims whose verdict changes: first those that hold at one scale and fail at another, then those undecided at one."""
    changed = {name: way for name, way in ways.items() if len(_verdicts(way)) > 1}
    return dict(sorted(changed.items(), key=lambda pair: not {"holds", "fails"} <= _verdicts(pair[1])))


def _verdicts(way: Way) -> set[str]:
    return {claim["verdict"] for claim in way.values()}


def sentence(name: str, way: Way, statement: str = "") -> str:
    """What was measured at each scale, and what made the difference."""
    steps = [f"**{claim['verdict']}** at {scale} ({_found(claim)})" for scale, claim in way.items()]
    said = f": {statement}" if statement else ""
    told = [why(way), _premises(way), _last_note(way)]
    return f"- `{name}`{said} [{words.expected(_first(way))}]. {', '.join(steps)}. {' '.join(t for t in told if t)}"


def _found(claim: Row) -> str:
    """The measured value, and how many seeds keep the bound."""
    found, values = words.measured(claim), claim["values"]
    if claim["measured"] is None:
        return found
    return f"{found}; {sum(_keeps(claim, v) for v in values)} of {len(values)} seeds"


def _keeps(claim: Row, value: float | None) -> bool:
    """Whether one seed is within the bound; on it is not below or above it."""
    if value is None:
        return False
    gap = depth(claim, value)
    return gap > 0 if claim["relation"] in ("<", ">") else gap >= 0


def why(way: Way) -> str:
    """What made the difference, by what was measured: the bound, the value, or its spread over seeds; of the last step that changed."""
    pairs = [(a, b) for a, b in pairwise(way.items()) if a[1]["verdict"] != b[1]["verdict"]]
    (small, before), (large, after) = pairs[-1]
    if before["bound"] != after["bound"]:
        return f"The bound is a law in the sizes: {words.expected(after)} at {large}."
    missing = [scale for scale, claim in ((small, before), (large, after)) if None in claim["interval"]]
    if missing:
        return f"At {' and '.join(missing)} it could not be measured."
    if after["aggregate"] == "worst":
        return _worst_seed(large, before, after)
    shift = f"from {words.show(before['measured'])} to {words.show(after['measured'])}"
    if apart(before, after):
        course = _course(before, after)
        return f"From {small} to {large} the value itself moves, {shift}, {course} and by more than the spread over seeds."
    return (
        f"From {small} to {large} the value stays within the spread over seeds ({shift}); the interval is {_widths(before, after)},"
        f" and a bound is {_where(before)} it at {small}, {_where(after)} it at {large}."
    )


def _course(before: Row, after: Row) -> str:
    """Where a value goes: across its bound, or only towards or away from it."""
    was, now = depth(before), depth(after)
    if (was >= 0) != (now >= 0):
        return "into its bound" if now > was else "out of its bound"
    if now >= 0:
        return "further into its bound" if now > was else "towards the edge of its bound"
    return "nearer to its bound" if now > was else "further from its bound"


def _widths(before: Row, after: Row) -> str:
    """How wide the interval over seeds is, before and after."""
    first, then = (f"± {half_width(claim):.2g}" for claim in (before, after))
    if first == then:
        return f"as wide ({then})"
    return f"{'narrower' if half_width(after) < half_width(before) else 'wider'} ({first}, then {then})"


def _worst_seed(large: str, before: Row, after: Row) -> str:
    """One seed can refute a claim about every seed; how far the worst is from the bound, before and after."""
    gaps = [min(depth(claim, v) for v in claim["values"] if v is not None) for claim in (before, after)]
    return (
        f"The worst seed decides: it is {_side(gaps[0])} the bound by {abs(gaps[0]):.3g}, and {_side(gaps[1])} it by"
        f" {abs(gaps[1]):.3g} at {large}."
    )


def _side(gap: float) -> str:
    return "within" if gap >= 0 else "beyond"


def _where(claim: Row) -> str:
    return "inside" if claim["verdict"] == "undecided" else "outside"


def _premises(way: Way) -> str:
    """Which premises fail at which scale, where they were measured."""
    known = {
        scale: claim["regime"]
        for scale, claim in way.items()
        if (claim.get("regime") or {}).get("inside") is not None
    }
    if not known:
        return ""
    told = {
        scale: "all hold" if regime["inside"] else f"{', '.join(regime['failing'])} fails"
        for scale, regime in known.items()
    }
    if len(set(told.values())) == 1:
        return f"Of its premises {next(iter(told.values()))} at every scale."
    return f"Of its premises {'; '.join(f'at {scale} {what}' for scale, what in told.items())}."


def _last_note(way: Way) -> str:
    note = list(way.values())[-1].get("note")
    return f"({note}.)" if note else ""


def _first(way: Way) -> Row:
    return next(iter(way.values()))


def apart(one: Row, other: Row) -> bool:
    """Whether two intervals over seeds have no number in common."""
    return one["interval"][1] < other["interval"][0] or other["interval"][1] < one["interval"][0]


def half_width(claim: Row) -> float:
    """Half of the interval over seeds."""
    return (claim["interval"][1] - claim["interval"][0]) / 2


def depth(claim: Row, value: float | None = None) -> float:
    """How far inside its bound a claim (or one of its values) lies: negative outside."""
    value, bound = claim["measured"] if value is None else value, claim["bound"]
    if claim["relation"] == "in":
        return min(value - bound[0], bound[1] - value)
    return bound - value if claim["relation"] in ("<", "<=") else value - bound


def sizes_of(settings: list[Row]) -> Row:
    """Every number of an item's settings as [least, largest], and how many settings there are."""
    numbers: dict[str, list[Any]] = {}
    for setting in settings:
        for name, value in setting.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers.setdefault(name, []).append(value)
    return {"settings": [len(settings)] * 2} | {name: [min(v), max(v)] for name, v in numbers.items()}


def sizes_told(by_scale: dict[str, Row]) -> str:
    """What differs between the settings of two or more scales: dim 400 → 1000 → 2000; nothing where some did not keep them."""
    if not all(by_scale.values()):
        return ""
    names = dict.fromkeys(name for sizes in by_scale.values() for name in sizes)
    told = []
    for name in names:
        values = [_range(sizes.get(name)) for sizes in by_scale.values()]
        if len(set(values)) > 1:
            told.append(f"{name} {' → '.join(values)}")
    return "; ".join(told[:SHOWN])


def _range(ends: list[float] | None) -> str:
    if ends is None:
        return "–"
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"
