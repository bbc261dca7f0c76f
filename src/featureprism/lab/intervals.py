"""Confidence intervals and tests: Student's for a mean, Clopper and Pearson's for a share, the sign test for pairs."""

import math

import numpy as np

LEVEL = 0.95


def mean_interval(values: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """Student's t interval of the mean; all numbers for a single value.

    Seeds are independent draws of the same experiment and their number is small, where a percentile bootstrap, which never leaves the
    range of the values, covers the truth far less often than it says.
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return -math.inf, math.inf
    mean, half = float(values.mean()), half_width(float(values.std(ddof=1)), len(values), level)
    return mean - half, mean + half


def half_width(spread: float, num: int, level: float = LEVEL) -> float:
    """Half of the length of Student's interval, for a standard deviation and a number of values."""
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(num - 1, (1 + level) / 2)) * spread / math.sqrt(num)


def share_interval(successes: int, num: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact binomial interval of a share (Clopper and Pearson, Biometrika 1934).

    >>> low, high = share_interval(5, 5)
    >>> round(low, 3), high
    (0.478, 1.0)
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, num - successes + 1, tail))
    high = 1.0 if successes == num else float(betaincinv(successes + 1, num - successes, 1 - tail))
    return low, high


def sign_test(wins: int, losses: int) -> float:
    """P(at least so many wins) if wins and losses are as likely: the exact one-sided test of pairs, ties left out.

    With points that one classifier alone gets right as wins, and those that the other alone does as losses, it is McNemar's exact test.

    >>> sign_test(5, 0), sign_test(0, 0), sign_test(3, 1)
    (0.03125, 1.0, 0.3125)
    """
    n, ways, tail = wins + losses, 1, 1
    for k in range(losses):
        ways = ways * (n - k) // (k + 1)
        tail += ways
    return tail / 2**n
