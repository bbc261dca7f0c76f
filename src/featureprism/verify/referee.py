"""A published curve of robust accuracy beside what is proven and what is witnessed: which of its points are impossible?"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from featureprism.brackets import RadiusBracket

COLUMNS = ("radius", "robust_accuracy")
SURE = 0.999  # of a random part of the points, before a claim about all of them is called impossible


@dataclass(frozen=True)
class Ruling:
    """One point of a curve: the claim, between which numbers the truth lies, and what is wrong with the claim (nothing: possible)."""

    radius: float
    claimed: float
    least: float  # proven
    most: float  # witnessed
    fault: str

    @property
    def possible(self) -> bool:
        """Whether nothing is wrong with the claim."""
        return not self.fault


def read_curve(path: Path) -> tuple[np.ndarray, np.ndarray, float]:
    """Radii, claimed accuracies, and half a unit of the last digit that they are printed with."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"Cannot read {path}: {error}; a .csv with the columns {', '.join(COLUMNS)} is wanted."
        ) from error
    if not rows or any(row.get(name) is None for row in rows for name in COLUMNS):
        raise ValueError(
            f"{path} must have the columns {' and '.join(COLUMNS)}, and at least one line below them."
        )
    try:
        radii, claimed = (np.array([float(row[name]) for row in rows]) for name in COLUMNS)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; radii and accuracies are numbers.") from error
    if not (radii >= 0).all() or not ((claimed >= 0) & (claimed <= 1)).all():
        raise ValueError(f"{path}: radii must not be negative, and accuracies lie between 0 and 1.")
    digits = max(len(row[COLUMNS[1]].strip().partition(".")[2]) for row in rows)
    order = np.argsort(radii, kind="stable")
    return radii[order], claimed[order], 0.5 * 10.0**-digits


def judge_curve(
    bracket: RadiusBracket,
    radii: np.ndarray,
    claimed: np.ndarray,
    tolerance: float,
    num_claimed: int | None = None,
) -> list[Ruling]:
    """A ruling for every claim, in the order of the radii.

    Robust accuracy at r is the share of points that no perturbation up to r flips. It lies between the share that is proven beyond r
    and the share that is not witnessed within r. With `num_claimed`, the claims were measured on that many points, of which these
    are a random part: then the limits are those that SURE of all random parts respect.
    """
    least, most = bracket.accuracy(radii)
    if num_claimed is not None:
        least, most = _of_all(least, most, len(bracket), num_claimed)
    rulings = []
    lowest = np.inf
    for r, claim, low, high in zip(radii, claimed, least, most, strict=True):
        fault = ""
        if claim > high + tolerance:
            fault = f"too high: witnesses leave at most {high:.3g}"
        elif claim < low - tolerance:
            fault = f"too low: at least {low:.3g} is proven"
        elif claim > lowest + 2 * tolerance:
            fault = f"rises: {lowest:.3g} was claimed at a smaller radius"
        lowest = min(lowest, claim)
        rulings.append(Ruling(float(r), float(claim), float(low), float(high), fault))
    return rulings


def _of_all(least: np.ndarray, most: np.ndarray, known: int, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Limits on the share among `total` points when a random `known` of them have shares between `least` and `most`."""
    from scipy.stats import hypergeom  # takes a second to import

    if total < known:
        raise ValueError(f"The claims cannot be about {total} points when {known} are given.")
    count = np.arange(total + 1)  # of robust points among all
    low, high = np.zeros_like(least), np.ones_like(most)
    for i, (bottom, top) in enumerate(zip(least, most, strict=True)):
        not_too_few = hypergeom.sf(round(bottom * known) - 1, total, count, known) > 1 - SURE
        not_too_many = hypergeom.cdf(round(top * known), total, count, known) > 1 - SURE
        low[i], high[i] = count[not_too_few].min() / total, count[not_too_many].max() / total
    return low, high
