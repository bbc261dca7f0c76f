"""How far a computation is: a callable that takes the share done, from 0 to 1."""

from collections.abc import Callable

Progress = Callable[[float], None]
Log = Callable[[str], None]  # takes a remark such as "accuracy 0.83"


def no_progress(_done: float) -> None:
    """Ignore the share that is done."""


def no_log(_text: str) -> None:
    """Ignore a remark."""


def part(progress: Progress, begin: float, end: float) -> Progress:
    """The progress of a step that is the part from `begin` to `end` of a whole."""
    return lambda done: progress(begin + (end - begin) * done)
