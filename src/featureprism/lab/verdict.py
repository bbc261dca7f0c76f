"""A verdict that can be believed: it holds or fails only when the seeds agree, and says how many more would decide.

The interval is Student's t interval of the mean over seeds: seeds are independent draws of the same experiment, their number is small
(3 to 5), and there a percentile bootstrap, which never leaves the range of the values, covers the truth far less often than it says.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from html import escape

import numpy as np

from featureprism.lab.bounds import Bound
from featureprism.lab.claim import Claim, Regime
from featureprism.lab.rows import Rows, Values
from featureprism.records import Row

LEVEL = 0.95
MOST_SEEDS = 1000  # beyond this we say that no sensible number of seeds decides


class Outcome(StrEnum):
    """How a claim ended."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Verdict:
    """A claim beside what was measured: mean and interval over seeds, the outcome, and where the theorem stands."""

    id: str
    claim: Claim
    values: tuple[float, ...]
    measured: float
    interval: tuple[float, float]
    outcome: Outcome
    regime: Regime
    note: str = ""
    seeds_to_decide: int | None = None

    @property
    def slack(self) -> float | None:
        """measured ÷ bound, for a bound on one side."""
        return None if math.isnan(self.measured) else self.claim.bound.slack(self.measured)

    @property
    def is_loose(self) -> bool:
        """Whether the bound holds by more than a factor of 10: no evidence."""
        return self.outcome == Outcome.HOLDS and self.claim.bound.is_loose(self.measured)

    def as_row(self) -> Row:
        """For claims.json and `--json`."""
        return {
            "id": self.id,
            **self.claim.as_row(),
            "measured": self.measured,
            "interval": list(self.interval),
            "values": list(self.values),
            "verdict": str(self.outcome),
            "seeds_to_decide": self.seeds_to_decide,
            "regime": self.regime.as_row(),
            "slack": self.slack,
            "loose": self.is_loose,
            "note": self.note,
        }

    def _repr_html_(self) -> str:
        """The claim, what was measured, and the outcome, for notebooks."""
        low, high = self.interval
        regime = {True: ", inside its premises", False: ", outside its premises", None: ""}[
            self.regime.inside
        ]
        told = f"{self.measured:.5g} in [{low:.5g}, {high:.5g}] over {len(self.values)} seeds: {self.outcome}{regime}"
        return f"{self.claim._repr_html_()}<p>{escape(told)}</p>"


def judge(claim: Claim, rows: Rows, id: str = "") -> Verdict:
    """The verdict over the seeds of a run."""
    values = np.asarray(claim.value(rows), dtype=float)
    if len(values) != len(rows.seeds):
        raise ValueError(f"{claim.name} has {len(values)} values for {len(rows.seeds)} seeds.")
    regime = claim.premises.regime(rows)
    measured = float(values.mean()) if len(values) else math.nan
    note = _note(claim, rows, is_measured=not math.isnan(measured))
    if math.isnan(measured):
        ends, outcome, needed = (math.nan, math.nan), Outcome.NOT_MEASURED, None
    elif claim.aggregate == "worst" or not np.isfinite(values).all():
        ends, needed = (float(values.min()), float(values.max())), None
        outcome = Outcome.HOLDS if claim.bound.contains(*ends) else Outcome.FAILS
    else:
        ends = mean_interval(values)
        outcome = decide(claim.bound, ends)
        needed = seeds_to_decide(values, claim.bound) if outcome == Outcome.UNDECIDED else None
    return Verdict(id, claim, tuple(values.tolist()), measured, ends, outcome, regime, note, needed)


def of_one_draw(verdict: Verdict) -> Verdict:
    """The verdict of seeds that share what the claim speaks of: as of a single seed, which decides nothing."""
    if verdict.outcome == Outcome.NOT_MEASURED:
        return verdict
    return replace(verdict, interval=(-math.inf, math.inf), outcome=Outcome.UNDECIDED, seeds_to_decide=None)


def _note(claim: Claim, rows: Rows, *, is_measured: bool) -> str:
    """The note; one that needs numbers which are not there is left out."""
    if isinstance(claim.note, str):
        return claim.note
    try:
        return claim.note(rows)
    except Exception:
        if is_measured:
            raise
        return ""


def decide(bound: Bound, interval: tuple[float, float]) -> Outcome:
    """Holds when the interval is inside the bound, fails when it is outside."""
    if bound.contains(*interval):
        return Outcome.HOLDS
    return Outcome.FAILS if bound.excludes(*interval) else Outcome.UNDECIDED


def mean_interval(values: Values, level: float = LEVEL) -> tuple[float, float]:
    """Student's t interval of the mean; all numbers for a single value."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return -math.inf, math.inf
    mean, half = float(values.mean()), _half_width(float(values.std(ddof=1)), len(values), level)
    return mean - half, mean + half


def seeds_to_decide(values: Values, bound: Bound) -> int | None:
    """The least number of seeds whose interval would decide if mean and spread stayed as they are; None if there is none."""
    if len(values) < 2:
        return None
    room, spread = bound.room(float(values.mean())), float(values.std(ddof=1))
    more = range(len(values) + 1, MOST_SEEDS + 1)
    return next((num for num in more if _half_width(spread, num, LEVEL) < room), None)


def _half_width(spread: float, num: int, level: float) -> float:
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(num - 1, (1 + level) / 2)) * spread / math.sqrt(num)
