"""Progress of a run: a bar in a terminal, one line in a notebook, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from featureprism.lab.engine import Step

EVERY = 15.0  # seconds between two plain lines
OFTEN = 0.5  # the same for a line that is written over
SURE = 0.02  # share of the work after which the time left is shown
Show = Callable[[float, str], None]


def time_left(share: float, elapsed: float) -> str:
    """What the rest takes if it goes on as so far; nothing while little is done."""
    if share < SURE or share >= 1:
        return ""
    seconds = round(elapsed * (1 - share) / share)
    return f"about {seconds // 60}:{seconds % 60:02d} left"


@contextmanager
def stage_progress(title: str, *, console: Console | None = None) -> Iterator[Show]:
    """A function of the share of the work that is done, and what is being done; for stages of different length."""
    console, began = console or Console(stderr=True), time.monotonic()
    if not console.is_terminal:
        with plain_lines(title, console) as lines:
            yield lines
        return
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
    )
    task = bars.add_task(title, total=1.0, left="")

    def show(share: float, words: str) -> None:
        left = time_left(share, time.monotonic() - began)
        bars.update(task, completed=share, description=f"{title} {words}", left=left)

    with bars:
        yield show


@contextmanager
def plain_lines(title: str, console: Console) -> Iterator["Lines"]:
    """Progress without a bar: a notebook has no cursor to move, and what rich draws there needs widgets."""
    lines = Lines(title, console)
    try:
        yield lines
    finally:
        lines.end()


class Lines:
    """A line when a stage ends, and now and then; in a notebook one line that is written over."""

    def __init__(self, title: str, console: Console) -> None:
        self.title, self.console = title, console
        self.began, self.last, self.ended, self.width = time.monotonic(), 0.0, "", 0

    def __call__(self, share: float, words: str) -> None:
        """Words before the first semicolon name what has ended: where they change, a line is due."""
        ended = words.partition(";")[0]
        self.write(share, words, is_due=ended != self.ended)
        self.ended = ended

    def write(self, share: float, words: str, *, is_due: bool = False) -> None:
        """Write a line if one is due, or it is long since the last."""
        now = time.monotonic()
        if not is_due and now - self.last < (OFTEN if self.console.is_jupyter else EVERY):
            return
        self.last = now
        left = time_left(share, now - self.began)
        line = f"{self.title}: {share:.0%}, {words}" + (f"; {left}" if left else "")
        if self.console.is_jupyter:
            sys.stderr.write(f"\r{line.ljust(self.width)}")
            sys.stderr.flush()
            self.width = len(line)
        else:
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Leave the line that is written over."""
        if self.width:
            sys.stderr.write("\n")


class ProgressBar:
    """How far a run is.

    `show(event)` takes the events of a run; `within(share)` and `log(text)` are for the context of a measurement in this process, and
    for a single long call: `with progress_bar("training") as bar: gradient_descent(..., progress=bar.within)`.
    """

    def __init__(self, title: str, draw: Callable[[float, int, str], None]) -> None:
        self.title, self._draw = title, draw
        self._ended, self._total, self._remark = 0, 1, ""

    def show(self, event: object) -> None:
        """Take an event of a run; only steps move the bar."""
        if isinstance(event, Step):
            self.move(event.ended, event.total, str(event))

    def move(self, ended: int, total: int, remark: str = "") -> None:
        """So many of all units have ended."""
        self._ended, self._total, self._remark = ended, total, remark or self._remark
        self.within(0.0)

    def within(self, share: float) -> None:
        """The share of the running unit that is done."""
        self._draw(self._ended + share, self._total, self._remark)

    def log(self, text: str) -> None:
        """A remark beside the bar."""
        self._remark = text


@contextmanager
def progress_bar(title: str, *, console: Console | None = None) -> Iterator[ProgressBar]:
    """A bar on stderr over the units of a run, moving within a unit too; lines where there is no terminal."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        with plain_lines(title, console) as lines:
            lines.last = lines.began  # no line of a run that is over before the first is due

            def write(done: float, total: int, remark: str) -> None:
                lines.write(done / max(total, 1), f"{int(done)} of {total} {remark}".rstrip())

            yield ProgressBar(title, write)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bars = Progress(*columns, console=console)
    task = bars.add_task(title, total=1)

    def draw(done: float, total: int, remark: str) -> None:
        bars.update(task, completed=round(done, 2), total=total, description=f"{title} {remark}")

    with bars:
        yield ProgressBar(title, draw)


def duration(seconds: float) -> str:
    """Seconds as a person would say them: 40 s, 12 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
