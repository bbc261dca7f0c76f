"""What people see in the terminal: progress bars and tables of claims."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from featureprism.certificates.referee import Ruling
from featureprism.context import Progress as Tick
from featureprism.lab import Verdict
from featureprism.records import Row
from featureprism.report.claims import (
    OUTSIDE,
    expected,
    in_sections,
    measured,
    premises,
    section,
    show,
    verdict,
)
from featureprism.report.stages import Lines, plain_lines


@runtime_checkable
class Tracker(Protocol):
    """Gives the progress callback of unit `index` out of `total`; `say` puts a remark beside the bar."""

    say: Callable[[str], None]

    def __call__(self, index: int, total: int, note: str = "") -> Tick: ...


class _Track:
    """A tracker that moves a bar."""

    def __init__(self, bars: Progress, title: str) -> None:
        self.bars, self.title, self.task = bars, title, bars.add_task(title, total=1)

    def __call__(self, index: int, total: int, note: str = "") -> Tick:
        self.bars.update(self.task, total=total, description=f"{self.title} {note}")
        return lambda done: self.bars.update(self.task, completed=round(index + done, 2))

    def say(self, text: str) -> None:
        self.bars.update(self.task, description=f"{self.title} {text}")


class _LineTrack:
    """A tracker that writes lines now and then, none of a run that is over before the first is due."""

    def __init__(self, lines: Lines) -> None:
        self.lines, self.remark = lines, ""
        lines.last = lines.began

    def __call__(self, index: int, total: int, note: str = "") -> Tick:
        def tick(done: float) -> None:
            words = f"{index} of {total} {note or self.remark}".rstrip()
            self.lines.tell((index + done) / max(total, 1), words)

        return tick

    def say(self, text: str) -> None:
        self.remark = text


@contextmanager
def progress_bar(title: str, *, console: Console | None = None) -> Iterator[Tracker]:
    """A bar on stderr over the units of a run, moving within a unit too; lines where there is no terminal.

    One long call: `with progress_bar("training") as track: gradient_descent(..., progress=track(0, 1))`.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        with plain_lines(title, console) as lines:
            yield _LineTrack(lines)
        return
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
    with bars:
        yield _Track(bars, title)


KKT_WORDS = {
    "points": "points",
    "stationarity": "stationarity: ‖θ - Σ λ_i y_i ∇N(x_i)‖/‖θ‖ (0 at a KKT point)",
    "stationarity_w": "  in the first-layer weights",
    "stationarity_b": "  in the biases",
    "stationarity_v": "  in the second layer",
    "slackness": "complementary slackness: largest λ_i (margin - 1)/Σλ (0)",
    "feasibility": "1 - least margin as given; the audit rescales to least margin 1",
    "balance": "balance: |v_j² - ‖w_j‖² - b_j²|/max v² (0)",
    "sum_gap": "|Σλ/(‖θ‖²/2) - 1| (0)",
    "normalised_margin": "normalised margin: least y N(x)/‖θ‖²",
    "support": "support points (λ_i > 0)",
    "on_kink": "pairs (neuron, point) on a kink",
    "tolerance": "tolerance of kinks",
    "reference": "compared with",
    "reference_stationarity": "  its stationarity",
    "margin_share": "  this network's margin ÷ its margin",
    "cosine_positive": "  cosine of the summed neurons with v > 0",
    "cosine_negative": "  cosine of the summed neurons with v < 0",
    "forgotten": "one ascent step takes out point",
    "forgotten_multiplier": "  its multiplier λ",
    "forgotten_share": "  the step ÷ ‖θ‖",
    "forgotten_margin": "  its margin after the step, the least before being 1",
    "forgotten_least": "  least margin of the others after the step (at most 0: some are lost)",
    "epsilon_before": "  ε on the others without the step: ‖θ - Σ λ_i y_i ∇N(x_i)‖",
    "epsilon_after": "  ε after it (None: no KKT point, some are lost)",
    "delta_before": "  δ on the others without the step: largest λ_i (margin - 1)",
    "delta_after": "  δ after it",
    "witness": "other data with the same network",
    "witness_points": "  points",
    "witness_moved": "  farthest move ÷ the point's norm",
    "witness_stationarity": "  stationarity on them",
    "witness_slackness": "  complementary slackness on them",
}


def kkt_table(facts: Row) -> Table:
    """The numbers of a KKT audit with their names."""
    table = Table(title="KKT conditions of the max-margin problem", title_justify="left", show_header=False)
    for key, text in KKT_WORDS.items():
        if key in facts:
            value = facts[key]
            table.add_row(text, show(value) if isinstance(value, float) else str(value))
    return table


COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow", "not measured": "yellow"}


def claims_table(title: str, verdicts: Sequence[Verdict]) -> Table:
    """Who says what, what was measured, whether it holds; the paper inside its premises, outside them, and what is ours."""
    table = Table(title=title, title_justify="left", expand=False)
    for column in ("claim", "statement", "measured", "expected", ""):
        table.add_column(column, overflow="fold", no_wrap=column == "claim")
    for name, part in in_sections(judged.as_row() for judged in verdicts).items():
        table.add_section()
        table.add_row("", f"[bold]{name}[/]")
        for claim in part:
            said = escape(claim["says"] + (f" ({premises(claim)})" if section(claim) == OUTSIDE else ""))
            colour = COLOURS[claim["verdict"]]
            table.add_row(
                claim["id"], said, measured(claim), expected(claim), f"[{colour}]{verdict(claim)}[/]"
            )
    return table


def duration(seconds: float) -> str:
    """Seconds as a person would say them: 40 s, 12 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def estimates_table(items: Sequence[Row]) -> Table:
    """What every item will cost and how that is known; a dash where nobody knows."""
    table = Table(title="time on one core, and peak memory", title_justify="left")
    for name in ("item", "seeds left", "time", "memory", "from"):
        table.add_column(name)
    for e in items:
        time = "-" if e["seconds"] is None else duration(e["seconds"])
        memory = "-" if e["memory_mb"] is None else f"{e['memory_mb']:.0f} MB"
        table.add_row(e["item"], str(e["seeds"]), time, memory, e["source"])
    return table


def rulings_table(rulings: Sequence[Ruling]) -> Table:
    """A published curve, claim by claim."""
    table = Table(title="robust accuracy")
    for name in ("radius", "claimed", "proven", "not witnessed", "ruling"):
        table.add_column(name)
    for r in rulings:
        numbers = (f"{r.radius:g}", f"{r.claimed:g}", f"{r.least:.3f}", f"{r.most:.3f}")
        table.add_row(*numbers, "possible" if r.possible else f"[red]impossible[/red], {r.fault}")
    return table
