"""Two folders of results beside each other: the same verdicts, and how far the values are apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from featureprism.lab.page import read_items
from featureprism.lab.rows import Row

TOLERANCE = (
    1e-3  # relative: other processors sum in another order; trained networks carry that on to about 1e-5
)


@dataclass(frozen=True)
class Comparison:
    """Claims that both folders judge: how many, a sentence for each that differs, and the largest relative difference of a value."""

    num_claims: int
    differing: tuple[str, ...]
    largest: float

    def __str__(self) -> str:
        lines = [f"{self.num_claims} claims are judged in both, {len(self.differing)} differ."]
        if self.largest and not self.differing:
            lines.append(f"The values differ by at most {self.largest:.1g} of their size.")
        return "\n".join([*lines, *self.differing])


def compare(folder: Path, other: Path, *, tolerant: bool = False) -> Comparison:
    """Compare the claims of two folders: bit for bit, or `tolerant`: the same verdicts with values within a thousandth."""
    mine, theirs = _claims(folder), _claims(other)
    both = [key for key in mine if key in theirs]
    if not both:
        raise ValueError(f"{folder} and {other} have no claim of the same scale and seeds in common.")
    differing, largest = [], 0.0
    for key in both:
        gap = _gap(mine[key]["values"], theirs[key]["values"])
        largest = max(largest, gap)
        verdicts = [part[key]["verdict"] for part in (mine, theirs)]
        if verdicts[0] != verdicts[1] or gap > (TOLERANCE if tolerant else 0.0):
            differing.append(
                f"{key[0]} ({key[1]}): {verdicts[0]} here, {verdicts[1]} there; values differ by {gap:.2g}"
            )
    return Comparison(len(both), tuple(differing), largest)


def _claims(folder: Path) -> dict[tuple[str, ...], Row]:
    """Claims by item and name, scale, seeds and settings."""
    return {
        (
            f"{about['id']}.{claim['id'].rpartition('.')[2]}",
            about["scale"],
            str(about["seeds"]),
            str(about["settings"]),
        ): claim
        for about, claims in read_items(folder)
        for claim in claims
    }


def _gap(values: Sequence[float | None], others: Sequence[float | None]) -> float:
    """The largest difference, relative to the larger of both; infinite where only one is a number."""
    if len(values) != len(others):
        return math.inf
    gaps = [0.0]
    for a, b in zip(values, others, strict=True):
        if a is None or b is None:
            gaps.append(0.0 if a is b else math.inf)
        elif a != b:
            gaps.append(abs(a - b) / max(abs(a), abs(b)))
    return max(gaps)
