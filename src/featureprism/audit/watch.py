"""How far an audit is: every stage writes its progress into a small file, whichever process it runs in."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from featureprism._files import write_whole
from featureprism._progress import Progress

EVERY = 0.5  # seconds between two notes of a stage
Show = Callable[[float, str], None]  # the share of the work that is done, and what is being done


def noted(file: Path, progress: Progress) -> Progress:
    """A progress that is also written to a file, so that other processes see it."""
    last = 0.0

    def report(done: float) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY or done >= 1:
            last = time.monotonic()
            write_whole(file, f"{done:.4f}")
        progress(done)

    return report


class StageProgress:
    """Adds up what stages have reported: finished ones whole, running ones in part, each by its cost."""

    def __init__(self, costs: dict[str, float], files: Callable[[str], Path], show: Show) -> None:
        self.costs, self.files, self.show = costs, files, show
        self.finished: set[str] = set()

    def refresh(self) -> None:
        """Read the notes, and show where things are."""
        running = {name: self._noted(name) for name in self.costs if name not in self.finished}
        done = sum(self.costs[name] for name in self.finished) + sum(
            self.costs[name] * (share or 0.0) for name, share in running.items()
        )
        busy = [f"{name} {share:.0%}" for name, share in running.items() if share is not None]
        words = f"{len(self.finished)} of {len(self.costs)} stages" + (f"; {', '.join(busy)}" if busy else "")
        self.show(done / max(sum(self.costs.values()), 1e-9), words)

    def end(self, names: Sequence[str]) -> None:
        """Count stages as finished."""
        self.finished.update(names)

    def _noted(self, name: str) -> float | None:
        """How far a stage says it is; None before its first note."""
        try:
            return float(self.files(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
