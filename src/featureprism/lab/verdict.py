"""A verdict that can be believed: it holds or fails only when the seeds agree, and says how many more would decide."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from featureprism.lab.bounds import Bound
from featureprism.lab.claim import Claim
from featureprism.lab.intervals import LEVEL, half_width, mean_interval, share_interval
from featureprism.lab.premise import PremiseStatus
from featureprism.lab.rate import Rate
from featureprism.lab.rows import Row, Rows, Values

MOST_SEEDS = 1000  # beyond this we say that no sensible number of seeds decides


class Outcome(StrEnum):
    """How a claim ended.

    "holds" and "fails" need an interval that is clear of the bound. "out of reach": the claim does not hold, and no network of this
    size could have met the bound; it counts neither as held nor as failed.
    """

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    OUT_OF_REACH = "out of reach"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Verdict:
    """A claim beside what was measured.

    Parameters
    ----------
    id : str
        ITEM.NAME.
    claim : Claim
        What was said.
    values : tuple of float
        One value for each seed.
    measured : float
        Their mean.
    interval : (float, float)
        95 % interval of the mean or of the share; for a claim about every seed, the least and the largest value.
    outcome : Outcome
        Whether the claim holds.
    regime : PremiseStatus
        Which of the theorem's premises hold in this run.
    note : str
        A remark.
    seeds_to_decide : int, optional
        For an undecided claim: how many seeds would decide it if mean and spread stayed as they are.
    ceiling : float, optional
        The best value that a network of this size could reach, where the claim names one and does not hold.
    level : float
        Confidence of the interval.
    reason : str
        For an undecided claim: why no more seeds were run.
    """

    id: str
    claim: Claim
    values: tuple[float, ...]
    measured: float
    interval: tuple[float, float]
    outcome: Outcome
    regime: PremiseStatus
    note: str = ""
    seeds_to_decide: int | None = None
    ceiling: float | None = None
    level: float = LEVEL
    reason: str = ""

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
            "ceiling": self.ceiling,
            "level": self.level,
            "reason": self.reason,
            "regime": self.regime.as_row(),
            "slack": self.slack,
            "loose": self.is_loose,
            "note": self.note,
        }

    def _repr_html_(self) -> str:
        """The table of claims with this one alone, for notebooks."""
        from featureprism.lab.printers import to_html
        from featureprism.lab.table import ClaimTable

        return to_html(ClaimTable.of_rows(self.id, "measured", [self.as_row()]))


def judge(claim: Claim, rows: Rows, id: str = "", level: float = LEVEL) -> Verdict:
    """The verdict over the seeds of a run.

    Parameters
    ----------
    claim : Claim
        What is said, and the number that decides it.
    rows : Rows
        What was measured.
    id : str
        How the verdict is called: ITEM.NAME.
    level : float
        Confidence of the interval over seeds.

    Returns
    -------
    Verdict
        Its outcome is "not measured" as soon as the value of one seed is NaN.

    Raises
    ------
    ValueError
        If there is not one value for each seed, or if a claim with aggregate "share" has values other than 0 and 1.

    Examples
    --------
    >>> import featureprism as fp
    >>> claim = fp.Claim('small', 'Theorem 1', 'The error is small.', lambda rows: rows.per_seed('error'), fp.lab.at_most(0.1))
    >>> rows = fp.lab.Rows.gather({'seed': s, 'error': 0.05 + 0.001 * s} for s in range(3))
    >>> print(fp.lab.judge(claim, rows).outcome)
    holds
    """
    value = claim.value(rows)
    values = np.asarray(value.exponents if isinstance(value, Rate) else value, dtype=float)
    _check_values(claim, values, rows)
    is_measured = len(values) > 0 and not np.isnan(values).any()
    ends, outcome = (math.nan, math.nan), Outcome.NOT_MEASURED
    note, ceiling, needed = _note(claim, rows, is_measured=is_measured), None, None
    if is_measured:
        ends, outcome = assess(claim.bound, values, claim.aggregate, level)
        if isinstance(value, Rate) and value.is_power_law is False:
            ends = value.end_interval(level)
            outcome = decide(claim.bound, ends)
            note = f"{value}; {note}" if note else str(value)
        if claim.ceiling is not None and outcome != Outcome.HOLDS:
            best = np.asarray(claim.ceiling(rows), dtype=float)
            ceiling, outcome = _below_ceiling(claim, values, best, outcome, level)
        if outcome == Outcome.UNDECIDED:
            needed = seeds_to_decide(values, claim.bound, claim.aggregate, level)
    return Verdict(
        id=id,
        claim=claim,
        values=tuple(values.tolist()),
        measured=_mean(values),
        interval=ends,
        outcome=outcome,
        regime=claim.premises.regime(rows),
        note=note,
        seeds_to_decide=needed,
        ceiling=ceiling,
        level=level,
    )


def _check_values(claim: Claim, values: Values, rows: Rows) -> None:
    if len(values) != len(rows.seeds):
        raise ValueError(f"{claim.name} has {len(values)} values for {len(rows.seeds)} seeds.")
    if claim.aggregate == "share" and not np.isin(values[~np.isnan(values)], (0, 1)).all():
        raise ValueError(
            f"{claim.name}: the values of a share are 0 or 1 for each seed, got {values.tolist()}."
        )


def assess(
    bound: Bound, values: Values, aggregate: str, level: float = LEVEL
) -> tuple[tuple[float, float], Outcome]:
    """The interval over seeds, and whether it is clear of the bound."""
    if aggregate == "worst":
        ends = float(values.min()), float(values.max())
        return ends, Outcome.HOLDS if bound.contains(*ends) else Outcome.FAILS
    if aggregate == "share":
        ends = share_interval(int(values.sum()), len(values), level)
    elif np.isfinite(values).all():
        ends = mean_interval(values, level)
    else:  # the mean of a quantity that can be infinite is infinite; the seeds still may agree
        ends = float(values.min()), float(values.max())
        if not bound.contains(*ends) and not bound.holds(_mean(values)):
            return ends, Outcome.FAILS
    return ends, decide(bound, ends)


def _below_ceiling(
    claim: Claim, values: Values, ceilings: Values, outcome: Outcome, level: float
) -> tuple[float | None, Outcome]:
    """The best possible value, and "out of reach" where the measured one misses a bound that the best possible misses, too.

    A claim about every run is refuted by a run that could have met the bound and did not.
    """
    if len(ceilings) != len(values):
        raise ValueError(f"{claim.name} has {len(ceilings)} ceilings for {len(values)} seeds.")
    if np.isnan(ceilings).any():
        return None, outcome
    best = _mean(ceilings)
    if claim.aggregate != "worst":
        _, possible = assess(claim.bound, ceilings, claim.aggregate, level)
        return best, Outcome.OUT_OF_REACH if possible == Outcome.FAILS else outcome
    pairs = zip(values.tolist(), ceilings.tolist(), strict=True)
    is_refuted = any(not claim.bound.holds(value) and claim.bound.holds(most) for value, most in pairs)
    return best, Outcome.FAILS if is_refuted else Outcome.OUT_OF_REACH


def _mean(values: Values) -> float:
    """The mean over seeds; NaN where one is missing, or where infinities of both signs meet."""
    with np.errstate(invalid="ignore"):
        return float(values.mean()) if len(values) else math.nan


def as_one_draw(verdict: Verdict) -> Verdict:
    """The verdict of seeds that share what the claim speaks of: as of a single seed, which decides nothing."""
    if verdict.outcome == Outcome.NOT_MEASURED:
        return verdict
    return replace(
        verdict,
        interval=(-math.inf, math.inf),
        outcome=Outcome.UNDECIDED,
        seeds_to_decide=None,
        reason="its seeds share the weights of one training",
    )


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


def seeds_to_decide(
    values: Values, bound: Bound, aggregate: str = "mean", level: float = LEVEL
) -> int | None:
    """The least number of seeds whose interval would decide if mean and spread stayed as they are; None if there is none."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    more, mean = range(len(values) + 1, MOST_SEEDS + 1), float(values.mean())
    if aggregate == "share":
        decided = (
            n for n in more if decide(bound, share_interval(round(mean * n), n, level)) != Outcome.UNDECIDED
        )
        return next(decided, None)
    distance, spread = bound.distance(mean), float(values.std(ddof=1))
    return next((num for num in more if half_width(spread, num, level) < distance), None)
