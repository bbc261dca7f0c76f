"""Claims in words: how a judged claim (a row of claims.json) reads in a table, wherever the table is."""

import math
from collections.abc import Iterable

from featureprism.lab import Bound
from featureprism.records import Row

INSIDE, OUTSIDE, PAPER, OURS = (
    "the paper says, inside its premises",
    "the paper says, outside its premises",
    "the paper says",
    "our own findings",
)
SECTIONS = (INSIDE, OUTSIDE, PAPER, OURS)
VERDICTS = ("holds", "fails", "undecided", "not measured")


def show(value: float | None) -> str:
    """A number as a reader wants it: five significant digits."""
    return "unknown" if value is None or math.isnan(value) else f"{value:.5g}"


def section(claim: Row) -> str:
    """Who speaks, and whether the premises hold in this run."""
    if claim["origin"] == "featureprism":
        return OURS
    return {True: INSIDE, False: OUTSIDE, None: PAPER}[claim["regime"]["inside"]]


def in_sections(claims: Iterable[Row]) -> dict[str, list[Row]]:
    """The claims of each section that has any."""
    claims = list(claims)
    parts = {name: [claim for claim in claims if section(claim) == name] for name in SECTIONS}
    return {name: part for name, part in parts.items() if part}


def measured(claim: Row) -> str:
    """The mean and its interval over seeds, or the range for a claim about every seed."""
    low, high = claim["interval"]
    if claim["measured"] is None or low is None or high is None:
        return show(claim["measured"])
    if claim["aggregate"] == "worst":
        return f"{show(low)} to {show(high)}"
    return f"{show(claim['measured'])} ± {(high - low) / 2:.2g}"


def expected(claim: Row) -> str:
    """The bound, and what the paper reports where it prints a number."""
    words = str(Bound.of(claim["relation"], claim["bound"]))
    return words if claim["reported"] is None else f"{words} (reported: {claim['reported']:g})"


def verdict(claim: Row) -> str:
    """The verdict, what would decide it, and whether it is loose."""
    if claim["verdict"] == "undecided":
        seeds = claim.get("seeds_to_decide")  # published results leave out what is empty
        return f"undecided ({f'{seeds} seeds would decide' if seeds else 'more seeds'})"
    return f"{claim['verdict']} (loose)" if claim["loose"] else claim["verdict"]


def slack(claim: Row) -> str:
    """measured ÷ bound for a claim on one side."""
    return "" if claim["slack"] is None else f"{claim['slack']:.3g}"


def premises(claim: Row) -> str:
    """Which premises fail, if any were measured."""
    regime = claim["regime"]
    if regime["inside"] is None:
        return ""
    if regime["inside"]:
        return f"all {regime['premises']} premises hold"
    return f"{len(regime['failing'])} of {regime['premises']} premises fail: {', '.join(regime['failing'])}"


def tally(claims: Iterable[Row]) -> str:
    """How many hold, fail and are undecided, section by section."""
    lines = []
    for name, part in in_sections(claims).items():
        counts = {word: sum(claim["verdict"] == word for claim in part) for word in VERDICTS}
        lines.append(
            f"{name}: "
            + ", ".join(f"{count} {_verb(word, count)}" for word, count in counts.items() if count)
        )
    return "; ".join(lines)


def _verb(word: str, count: int) -> str:
    return word.removesuffix("s") if count != 1 and word in ("holds", "fails") else word
