"""What a claim or a premise expects of its number: a bound on one side, or a range."""

import math
from dataclasses import dataclass
from typing import Any

RELATIONS = {"<": "<", "<=": "≤", ">": ">", ">=": "≥", "in": "in"}  # as stored, and as shown
LOOSE = 10.0  # a one-sided bound that is missed by more than this factor is no evidence


@dataclass(frozen=True)
class Bound:
    """An interval in which the number of a claim should lie.

    Parameters
    ----------
    low, high : float
        Ends of the interval; infinite where there is none.
    is_open : bool
        Whether the ends are left out.
    """

    low: float = -math.inf
    high: float = math.inf
    is_open: bool = False

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"A bound needs low ≤ high, got {self.low} and {self.high}.")

    @classmethod
    def of(cls, relation: str, value: Any) -> "Bound":
        """The bound that is stored as a relation and its value; a range has two.

        >>> str(Bound.of("<=", 0.1)), str(Bound.of("in", [0.9, 1.1]))
        ('≤ 0.1', '0.9 to 1.1')
        """
        if relation not in RELATIONS:
            raise ValueError(f"Unknown relation {relation!r}; choose one of {', '.join(RELATIONS)}.")
        if relation == "in":
            return cls(*value)
        ends = {"low": value} if relation[0] == ">" else {"high": value}
        return cls(**ends, is_open="=" not in relation)

    def holds(self, value: float) -> bool:
        """Whether the value is inside; NaN never is."""
        return self.low < value < self.high if self.is_open else self.low <= value <= self.high

    def contains(self, low: float, high: float) -> bool:
        """Whether all of an interval is inside."""
        return self.holds(low) and self.holds(high)

    def excludes(self, low: float, high: float) -> bool:
        """Whether all of an interval is outside, on one side."""
        if self.is_open:
            return high <= self.low or low >= self.high
        return high < self.low or low > self.high

    def distance(self, value: float) -> float:
        """The distance of a value from the nearest end."""
        return min(abs(value - end) for end in (self.low, self.high) if math.isfinite(end))

    @property
    def relation(self) -> str:
        """<, <=, >, >= or in."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return "in"
        return ("<" if math.isfinite(self.high) else ">") + ("" if self.is_open else "=")

    @property
    def value(self) -> float | list[float]:
        """The one end of a one-sided bound, or both."""
        if self.relation == "in":
            return [self.low, self.high]
        return self.high if math.isfinite(self.high) else self.low

    def slack(self, value: float) -> float | None:
        """value ÷ bound for a bound on one side; None for a range, or a bound of 0."""
        return None if isinstance(self.value, list) or self.value == 0 else value / self.value

    def is_loose(self, value: float) -> bool:
        """Whether a one-sided bound holds by more than a factor of 10, or whatever the sign."""
        slack = self.slack(value)
        if slack is None or not self.holds(value):
            return False
        upper = math.isfinite(self.high)
        is_positive = (self.high if upper else self.low) > 0
        return slack < 1 / LOOSE if is_positive == upper else slack > LOOSE

    def __str__(self) -> str:
        if isinstance(self.value, list):
            return f"{self.low:g} to {self.high:g}"
        return f"{RELATIONS[self.relation]} {self.value:g}"


def below(value: float) -> Bound:
    """The bound "less than the value".

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import featureprism as fp
    >>> str(fp.lab.below(0.1)), fp.lab.below(0.1).holds(0.1)
    ('< 0.1', False)
    """
    return Bound(high=value, is_open=True)


def at_most(value: float) -> Bound:
    """The bound "the value or less".

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import featureprism as fp
    >>> str(fp.lab.at_most(0.1)), fp.lab.at_most(0.1).holds(0.1)
    ('≤ 0.1', True)
    """
    return Bound(high=value)


def above(value: float) -> Bound:
    """The bound "more than the value".

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import featureprism as fp
    >>> str(fp.lab.above(0.1)), fp.lab.above(0.1).holds(0.1)
    ('> 0.1', False)
    """
    return Bound(low=value, is_open=True)


def at_least(value: float) -> Bound:
    """The bound "the value or more".

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import featureprism as fp
    >>> str(fp.lab.at_least(0.1)), fp.lab.at_least(0.1).holds(0.1)
    ('≥ 0.1', True)
    """
    return Bound(low=value)


def between(low: float, high: float) -> Bound:
    """The bound "from low to high".

    Parameters
    ----------
    low, high : float
        Ends of the interval, both included.

    Returns
    -------
    Bound

    Examples
    --------
    >>> import featureprism as fp
    >>> str(fp.lab.between(0.9, 1.1)), fp.lab.between(0.9, 1.1).holds(1.0)
    ('0.9 to 1.1', True)
    """
    return Bound(low, high)
