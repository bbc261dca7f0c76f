"""Rates: how a quantity grows or falls with a size, with an interval over seeds.

Statements about limits (t → ∞, d → ∞) and about orders (O(1/n)) speak of growth, which one finite value cannot show. A rate fits
ln y = ln C + a ln x for each seed; whether a power law fits at all is seen from the local exponents at the two ends of the sizes.
"""

import math
from dataclasses import dataclass

import numpy as np

from featureprism.lab.intervals import LEVEL, mean_interval
from featureprism.lab.rows import Rows, Values

BEND = 0.2  # local exponents at the two ends that differ by more than this are no power law


@dataclass(frozen=True)
class Rate:
    """A power law y = C x^a for each seed, and how far the points bend away from it.

    Parameters
    ----------
    sizes : (float, float)
        Least and largest x over all seeds.
    exponents : Values
        a for each seed: least-squares slope of ln y against ln x. NaN for a seed with fewer than two sizes, or with a value that has
        no logarithm.
    constants : Values
        C for each seed.
    first_exponents, last_exponents : Values
        Slopes of the quadratic least-squares fit of ln y in ln x at the least and at the largest size; NaN with fewer than three sizes.
    tolerance : float
        Difference of the two that still counts as a power law.

    Examples
    --------
    >>> import numpy as np
    >>> from featureprism.lab import Rows, rate
    >>> rows = Rows.gather({"seed": s, "n": n, "error": (1 + 0.01 * s) * n**-0.5} for s in range(3) for n in (10, 100, 1000))
    >>> law = rate(rows, x="n", y="error")
    >>> round(law.exponent, 6), law.is_power_law
    (-0.5, True)
    >>> print(law)
    1.01 x^-0.5 (exponent -0.5 to -0.5 over 3 seeds)
    """

    sizes: tuple[float, float]
    exponents: Values
    constants: Values
    first_exponents: Values
    last_exponents: Values
    tolerance: float = BEND

    @property
    def exponent(self) -> float:
        """Mean exponent over seeds."""
        return float(np.mean(self.exponents))

    @property
    def constant(self) -> float:
        """Geometric mean of the constants."""
        return float(np.exp(np.mean(np.log(self.constants))))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean exponent over seeds."""
        return mean_interval(self.exponents)

    @property
    def curvatures(self) -> Values:
        """Last minus first local exponent for each seed: 0 for a power law, negative where y saturates or falls faster and faster."""
        return self.last_exponents - self.first_exponents

    @property
    def curvature(self) -> float:
        """Mean curvature over seeds."""
        return float(np.mean(self.curvatures))

    @property
    def curvature_interval(self) -> tuple[float, float]:
        """95 % interval of the mean curvature over seeds."""
        return mean_interval(self.curvatures)

    @property
    def is_power_law(self) -> bool | None:
        """False when the curvature's interval is farther from 0 than the tolerance; None when fewer than three sizes were measured."""
        if not np.isfinite(self.curvatures).all():
            return None
        low, high = self.curvature_interval
        return not (low > self.tolerance or high < -self.tolerance)

    def end_interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The interval that covers the local exponents at both ends of the sizes, each with its interval over seeds."""
        ends = [mean_interval(self.first_exponents, level), mean_interval(self.last_exponents, level)]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def predict(self, x: float) -> float:
        """The fitted y at a size."""
        return self.constant * x**self.exponent

    def __str__(self) -> str:
        if not np.isfinite(self.exponents).all():
            return "no rate: fewer than two sizes, or values that are not positive"
        if self.is_power_law is False:
            first, last = float(self.first_exponents.mean()), float(self.last_exponents.mean())
            return (
                f"not a power law: the local exponent goes from {first:.3g} at x = {self.sizes[0]:g} "
                f"to {last:.3g} at x = {self.sizes[1]:g}"
            )
        low, high = self.interval
        spread = (
            f"{low:.3g} to {high:.3g} over {len(self.exponents)} seeds" if math.isfinite(low) else "one seed"
        )
        return f"{self.constant:.3g} x^{self.exponent:.3g} (exponent {spread})"


def rate(rows: Rows, *, x: str, y: str, tolerance: float = BEND) -> Rate:
    """The rate at which one field of the rows grows with another, seed by seed.

    Parameters
    ----------
    rows : Rows
        At least two different sizes for each seed; three to see a bend. Several rows of one size all count.
    x, y : str
        Names of the fields: the size and the quantity, both positive.
    tolerance : float
        See `Rate`.

    Returns
    -------
    Rate
        `exponents` has one number for each seed, in the order of the seeds. A claim whose `value` returns the `Rate` itself is judged
        by the exponents, and where the points bend by the local exponents at both ends.

    Examples
    --------
    >>> import featureprism as fp
    >>> rows = fp.lab.Rows.gather({'seed': s, 'n': n, 'error': (1 + 0.01 * s) * n**-0.5} for s in range(3) for n in (10, 100, 1000))
    >>> [round(e, 3) for e in fp.lab.rate(rows, x='n', y='error').exponents]
    [np.float64(-0.5), np.float64(-0.5), np.float64(-0.5)]
    """
    columns = [(part.column(x), part.column(y)) for part in rows.by_seed()]
    sizes = np.concatenate([size for size, _ in columns]) if columns else np.array([])
    fits = np.array([power_fit(*pair) for pair in columns]).reshape(len(columns), 4)
    ends = (float(sizes.min()), float(sizes.max())) if len(sizes) else (math.nan, math.nan)
    return Rate(ends, *fits.T, tolerance=tolerance)


def power_fit(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float, float]:
    """Exponent, constant, and local exponents at the least and the largest x; NaN where the points do not determine them."""
    unknown = math.nan
    if not (np.isfinite(x).all() and np.isfinite(y).all() and (x > 0).all() and (y > 0).all()):
        return unknown, unknown, unknown, unknown
    u, v = np.log(x), np.log(y)
    num = len(set(x.tolist()))
    if num < 2:
        return unknown, unknown, unknown, unknown
    centre = u.mean()
    slope, height = np.polyfit(u - centre, v, 1)
    constant = float(np.exp(height - slope * centre))
    if num < 3:
        return float(slope), constant, unknown, unknown
    bend, linear, _ = np.polyfit(u - centre, v, 2)
    first, last = (float(linear + 2 * bend * (end - centre)) for end in (u.min(), u.max()))
    return float(slope), constant, first, last
