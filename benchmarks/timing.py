"""Timing that a busy machine disturbs little: interleaved repeats, the median of each."""

import time
from collections.abc import Callable
from statistics import median


def medians(*calls: Callable[[], object], repeats: int = 15) -> list[float]:
    """Median seconds of each call; the calls take turns, so that a slow moment hits all alike."""
    for call in calls:
        call()
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for record, call in zip(seconds, calls, strict=True):
            began = time.perf_counter()
            call()
            record.append(time.perf_counter() - began)
    return [median(record) for record in seconds]


class Ratio(str):
    """A row of the benchmark's output that knows its number."""

    def __new__(cls, text: str, _name: str, _value: float) -> "Ratio":
        return super().__new__(cls, text)

    def __init__(self, _text: str, name: str, value: float) -> None:
        self.name, self.value = name, value


def line(name: str, ratio: float, bound: float, *, at_most: bool = True) -> Ratio:
    """One row of the benchmark's output."""
    good = ratio <= bound if at_most else ratio >= bound
    text = (
        f"{'ok  ' if good else 'SLOW'} {name}: {ratio:.2f} ({'at most' if at_most else 'at least'} {bound:g})"
    )
    return Ratio(text, name, ratio)
