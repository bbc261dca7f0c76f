"""Progress of work in stages of different length: a bar in a terminal, plain lines elsewhere, and the time that is left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

EVERY = 15.0  # seconds between two plain lines
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
        yield _Lines(title, console)
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


class _Lines:
    """A line when a stage ends, and now and then."""

    def __init__(self, title: str, console: Console) -> None:
        self.title, self.console = title, console
        self.began, self.last, self.ended = time.monotonic(), 0.0, ""

    def __call__(self, share: float, words: str) -> None:
        now, ended = time.monotonic(), words.partition(";")[0]
        if ended == self.ended and now - self.last < EVERY:
            return
        self.last, self.ended = now, ended
        left = time_left(share, now - self.began)
        line = f"{self.title}: {share:.0%}, {words}" + (f"; {left}" if left else "")
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
