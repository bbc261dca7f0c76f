"""Progress of work in stages of different length: a bar in a terminal, one line in a notebook, plain lines elsewhere; the time left."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

EVERY = 15.0  # seconds between two plain lines
OFTEN = 0.5  # the same for a line that is written over
SURE = 0.02  # share of the work after which the time left is told
Show = Callable[[float, str], None]


def time_left(share: float, elapsed: float) -> str:
    """What the rest takes if it goes on as so far; nothing while little is done."""
    if share < SURE or share >= 1:
        return ""
    seconds = round(elapsed * (1 - share) / share)
    return f"about {seconds // 60}:{seconds % 60:02d} left"


@contextmanager
def stage_progress(title: str, *, console: Console | None = None) -> Iterator[Show]:
    """A function that is told the share of the work that is done, and what is being done."""
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
        self.tell(share, words, is_due=ended != self.ended)
        self.ended = ended

    def tell(self, share: float, words: str, *, is_due: bool = False) -> None:
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
