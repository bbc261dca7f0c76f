"""Real numbers of which floats know a middle and a radius: every operation counts its own rounding.

IEEE: fl(a ∘ b) = (a ∘ b)(1 + θ) + η, |θ| ≤ U, and η is less than the least normal number. n products summed in any order are off
by at most γ_n Σ|a_i b_i|, γ_n = nU/(1 - nU). Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, (3.5).
NaN and inf pass through, and prove nothing in the end: every question asked of them is answered False.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

U = 2.0**-53
TINY = (
    2.0**-1000
)  # more than all underflows of one operation on up to 2^20 terms; callers scale so that 1 is a usual size
LIBRARY = (
    16 * U
)  # relative error granted to exp, log and real powers; no other function of the C library is relied on
WHOLE_POWERS = 8  # up to here powers are products
SLACK = 2.0**-33  # relative: claims and stored bounds leave so much room for another order of summation
ROOM = 4.0  # times so many roundings are counted while a proof is written
_counted = 1.0


@contextmanager
def with_room() -> Iterator[None]:
    """Every rounding counts ROOM times: what is verified so, another machine verifies without it."""
    global _counted
    before, _counted = _counted, ROOM
    try:
        yield
    finally:
        _counted = before


def unit() -> float:
    """The relative error of one operation, as it is counted."""
    return U * _counted


def up(value: Any) -> Any:
    """The next float above: undoes one rounding to nearest."""
    return np.nextafter(value, np.inf)


def down(value: Any) -> Any:
    """The next float below."""
    return np.nextafter(value, -np.inf)


def gamma(n: int) -> float:
    """γ_n, itself rounded up."""
    return _counted * n * U / (1 - n * U) * (1 + 4 * U)


def outward(radius: Any, n: int = 0) -> Any:
    """At least the radius whose float evaluation took up to n + 8 roundings of terms that are not negative."""
    return radius * (1 + 4 * (n + 8) * U) + TINY


@dataclass(frozen=True, eq=False)
class Enclosed:
    """Numbers v with |v - mid| ≤ rad, entry by entry; floats and arrays beside them are exact."""

    mid: Any
    rad: Any = 0.0

    __array_ufunc__ = None  # array ∘ Enclosed is asked of Enclosed

    @property
    def low(self) -> Any:
        """A float below."""
        return down(self.mid - self.rad)

    @property
    def high(self) -> Any:
        """A float above."""
        return up(self.mid + self.rad)

    @property
    def size(self) -> Any:
        """A float above the absolute value."""
        return up(np.abs(self.mid) + self.rad)

    def __neg__(self) -> "Enclosed":
        return Enclosed(-self.mid, self.rad)

    def __add__(self, other: Any) -> "Enclosed":
        if not isinstance(other, Enclosed):  # exact
            mid = self.mid + other
            return Enclosed(mid, outward(self.rad + unit() * np.abs(mid)))
        mid = self.mid + other.mid
        return Enclosed(mid, outward(self.rad + other.rad + unit() * np.abs(mid)))

    def __sub__(self, other: Any) -> "Enclosed":
        return self + -enclosed(other)

    def __rsub__(self, other: Any) -> "Enclosed":
        return enclosed(other) + -self

    def __mul__(self, other: Any) -> "Enclosed":
        # ab - mid·mid' = mid (b - mid') + (a - mid) b
        if not isinstance(other, Enclosed):  # exact
            mid = self.mid * other
            return Enclosed(mid, outward(self.rad * np.abs(other) + unit() * np.abs(mid)))
        mid = self.mid * other.mid
        spread = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
        return Enclosed(mid, outward(spread + unit() * np.abs(mid)))

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, index: Any) -> "Enclosed":
        return Enclosed(self.mid[index], self._radii()[index])

    def _radii(self) -> np.ndarray:
        """One for each entry of mid."""
        shape = np.shape(self.mid)
        return self.rad if np.shape(self.rad) == shape else np.broadcast_to(self.rad, shape)

    def __matmul__(self, other: Any) -> "Enclosed":
        """Products of matrices and vectors: γ_n |A||B| for the rounding, |A| rad B + rad A (|B| + rad B) for what is not known."""
        a, b = (Enclosed(v.mid, v._radii()) for v in (self, enclosed(other)))
        n, left, right = np.shape(a.mid)[-1], np.abs(a.mid), np.abs(b.mid)
        radius = gamma(n) * (left @ right)
        if np.any(b.rad):
            radius = radius + left @ b.rad
        if np.any(a.rad):
            radius = radius + a.rad @ (right + b.rad)
        return Enclosed(a.mid @ b.mid, outward(radius, n))

    def sum(self) -> "Enclosed":
        """The sum of all entries."""
        n = np.size(self.mid)
        return Enclosed(np.sum(self.mid), outward(np.sum(self.rad + gamma(n) * np.abs(self.mid)), n))


def enclosed(value: Any) -> Enclosed:
    """Itself, or a float or an array taken to be exact."""
    return value if isinstance(value, Enclosed) else Enclosed(value, np.zeros(np.shape(value)))


def where(condition: Any, yes: Any, no: Any) -> Enclosed:
    """Entry by entry one of two."""
    yes, no = enclosed(yes), enclosed(no)
    return Enclosed(np.where(condition, yes.mid, no.mid), np.where(condition, yes.rad, no.rad))


def power(t: Any, p: float) -> Enclosed:
    """t^p for floats t ≥ 0: small whole powers by products, others as the C library gives them."""
    if p in range(WHOLE_POWERS + 1):
        result = enclosed(np.ones(np.shape(t)))
        for _ in range(int(p)):
            result = result * t
        return result
    value = np.power(t, p)
    return Enclosed(value, outward(LIBRARY * value))
