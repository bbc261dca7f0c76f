"""One table of claims, whatever shows it: what is said, what was measured at each scale, and whether it holds.

`printers` shows it in the terminal, as Markdown and as HTML.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from featureprism.lab.bounds import Bound
from featureprism.lab.experiment import SCALES, Experiment
from featureprism.lab.intervals import LEVEL
from featureprism.lab.rows import Row
from featureprism.lab.verdict import Outcome

if TYPE_CHECKING:
    from featureprism.lab.published import Published
    from featureprism.lab.reproduction import Result

NOT_PUBLISHED = "not published"
VERDICTS = (*map(str, Outcome), NOT_PUBLISHED)
MARKS = {
    "holds": "✓",
    "fails": "✗",
    "undecided": "?",
    "out of reach": "○",
    "not measured": "-",
    NOT_PUBLISHED: "·",
}


@dataclass(frozen=True)
class Line:
    """One claim: its words (see `Claim.as_row`), and the judged claim (see `Verdict.as_row`) at each scale that has one."""

    id: str
    claim: Row
    judged: Mapping[str, Row]

    @property
    def last(self) -> Row | None:
        """The judged claim at the largest scale, of those that were published as the item is now; else at the largest of all."""
        rows = [self.judged[s] for s in reversed(SCALES) if s in self.judged]
        return next((row for row in rows if row.get("is_current", True)), rows[0] if rows else None)

    @property
    def verdict(self) -> str:
        """The verdict of `last`."""
        return self.last["verdict"] if self.last else NOT_PUBLISHED

    @property
    def inside(self) -> bool | None:
        """Whether the premises hold at the largest scale; None where none was measured."""
        return (self.last.get("regime") or {}).get("inside") if self.last else None

    @property
    def is_headline(self) -> bool:
        """Whether the paper's abstract makes this claim."""
        return bool(self.claim.get("headline"))

    @property
    def origin(self) -> str:
        """Who makes the statement, in words."""
        return "the paper" if self.claim["origin"] == "paper" else "featureprism"

    @property
    def remarks(self) -> list[str]:
        """What stands beside the sentence: the number that is shown, where the bound comes from, premises that fail, the note."""
        quantity, because = self.claim.get("quantity", ""), self.claim.get("because", "")
        return [text for text in (quantity, because and f"bound: {because}") if text] + self.notes

    @property
    def notes(self) -> list[str]:
        """Premises that fail, and the note of the claim."""
        note = (self.last or {}).get("note") or self.claim.get("note", "")
        failing = failing_premises(self.last) if self.last else ""
        return [text for text in (failing, note) if text]


@dataclass(frozen=True)
class ClaimTable:
    """Claims under a title: headline claims first, then the paper's others, then those of featureprism."""

    title: str
    lines: tuple[Line, ...]
    scales: tuple[str, ...]

    def __post_init__(self) -> None:
        rank = {line.id: (not line.is_headline, line.claim["origin"] != "paper") for line in self.lines}
        object.__setattr__(self, "lines", tuple(sorted(self.lines, key=lambda line: rank[line.id])))

    @classmethod
    def of_result(cls, result: "Result") -> "ClaimTable":
        """The claims of an experiment that was just run."""
        title = f"{result.experiment.id}: {result.experiment.title}"
        return cls.of_rows(title, result.scale, [verdict.as_row() for verdict in result.verdicts])

    @classmethod
    def of_rows(cls, title: str, scale: str, rows: Iterable[Row]) -> "ClaimTable":
        """Judged claims of one scale, as claims.json has them."""
        return cls(title, tuple(Line(row["id"], row, {scale: row}) for row in rows), (scale,))

    @classmethod
    def of_published(cls, experiment: Experiment, published: "Published") -> "ClaimTable":
        """Every claim of an experiment with what was published of it; one that is new has no result yet."""
        judged: dict[str, dict[str, Row]] = {}
        for scale in (s for s in SCALES if experiment.id in published.get(s, {})):
            item = published[scale][experiment.id]
            for row in item["claims"]:
                judged.setdefault(row["id"], {})[scale] = row | {"is_current": item.get("is_current", True)}
        lines = [
            Line(id, claim.as_row(), judged.get(id, {}))
            for claim, id in ((claim, experiment.claim_id(claim)) for claim in experiment.claims)
        ]
        scales = tuple(scale for scale in SCALES if scale in published) or SCALES[:1]
        return cls(f"{experiment.id}: {experiment.title}", tuple(lines), scales)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def headlines(self) -> "ClaimTable":
        """Only the headline claims."""
        return ClaimTable(self.title, tuple(line for line in self.lines if line.is_headline), self.scales)


def counts(lines: Iterable[Line]) -> dict[str, int]:
    """How many claims have each verdict, at the largest scale of each."""
    verdicts = [line.verdict for line in lines]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def tally(lines: Iterable[Line]) -> str:
    """How many claims of the papers hold, fail and so on, and how many of featureprism."""
    lines, parts = list(lines), []
    for origin in ("the paper", "featureprism"):
        members = [line for line in lines if line.origin == origin]
        if members:
            name = "The paper's claims" if origin == "the paper" else "our own" if parts else "Our own claims"
            parts.append(f"{name}: {in_words(counts(members))}")
    return "; ".join(parts)


def in_words(numbers: Mapping[str, int]) -> str:
    """Counts of verdicts: "3 hold, 1 fails"."""
    return ", ".join(f"{count} {verb(word, count)}" for word, count in numbers.items() if count)


def verb(verdict: str, count: int) -> str:
    """A verdict with its number: one holds, two hold."""
    return verdict.removesuffix("s") if count != 1 and verdict in ("holds", "fails") else verdict


def show(value: float | None) -> str:
    """A number with five significant digits."""
    return "unknown" if value is None or math.isnan(value) else f"{value:.5g}"


def measured(claim: Row) -> str:
    """The mean and half of its interval; the range for a claim about every seed; so many of n for a share."""
    low, high = (math.nan if end is None else end for end in claim["interval"])
    if claim["measured"] is None or not (math.isfinite(low) and math.isfinite(high)):
        return show(claim["measured"])
    if claim["aggregate"] == "worst":
        return show(low) if low == high else f"{show(low)} to {show(high)}"
    if claim["aggregate"] == "share":
        return f"{sum(map(bool, claim['values']))} of {len(claim['values'])}"
    return with_half_width(claim["measured"], (high - low) / 2)


def with_half_width(value: float, half: float) -> str:
    """A number and half of its interval, both to the second digit of the interval."""
    if half == 0:
        return show(value)
    digits = 1 - math.floor(math.log10(half))
    shown = f"{round(value, digits):.{digits}f}" if 0 <= digits <= 6 else show(value)
    return f"{shown} ± {half:.2g}"


def expected(claim: Row, *, with_reported: bool = True) -> str:
    """The bound, and what the paper reports where it prints a number."""
    words = str(Bound.of(claim["relation"], claim["bound"]))
    reported = claim.get("reported")
    return words if reported is None or not with_reported else f"{words} (reported: {reported:g})"


def verdict(claim: Row) -> str:
    """The verdict, and what explains it: what would decide it, the best possible value, or that it is loose."""
    word = claim["verdict"]
    if word == "undecided":
        seeds = claim.get("seeds_to_decide")
        needed = f"{seeds} seeds would decide" if seeds else "no number of seeds would decide soon"
        reason = claim.get("reason")
        return f"undecided ({needed}; {reason})" if reason else f"undecided ({needed})"
    if word == "out of reach":
        return f"out of reach at this size (at best {show(claim.get('ceiling'))})"
    return f"{word} (loose)" if claim.get("loose") else word


def confidence(claim: Row) -> str:
    """The confidence of the interval where it is not 95 %."""
    level = claim.get("level", LEVEL)
    return "" if level == LEVEL else f"{level:.0%} interval over {len(claim['values'])} seeds"


def failing_premises(claim: Row) -> str:
    """Which premises of the theorem fail; empty where none does or none was measured."""
    regime = claim.get("regime") or {}
    if regime.get("inside") is not False:
        return ""
    failing: Sequence[str] = regime["failing"]
    return f"outside its premises: {len(failing)} of {regime['premises']} fail ({', '.join(failing)})"
