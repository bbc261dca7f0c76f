"""What people see in the terminal: progress bars and tables of claims."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from featureprism.records import Claim, Row
from featureprism.records import Progress as Tick


@dataclass(frozen=True)
class Tracker:
    """A bar that is being shown: called, it gives the progress callback of unit `index` out of `total`."""

    bars: Progress
    task: TaskID
    title: str

    def __call__(self, index: int, total: int, note: str = "") -> Tick:
        self.bars.update(self.task, total=total, description=f"{self.title} {note}")
        return lambda done: self.bars.update(self.task, completed=round(index + done, 2))

    def announce(self, text: str) -> None:
        """Show a remark ("accuracy 0.83") beside the title."""
        self.bars.update(self.task, description=f"{self.title} {text}")


@contextmanager
def progress_bar(title: str, *, console: Console | None = None) -> Iterator[Tracker]:
    """A bar on stderr over the units of a run, moving within a unit too.

    One long call: `with progress_bar("training") as track: gradient_descent(..., progress=track(0, 1))`.
    """
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
    )
    with bars:
        yield Tracker(bars, bars.add_task(title, total=1), title)


def show(value: float) -> str:
    """A number as a reader wants it: five significant digits."""
    return "unknown" if math.isnan(value) else f"{value:.5g}"


def expectation(claim: Claim) -> str:
    """The bound of a claim in words."""
    if isinstance(claim.bound, tuple):
        return f"{claim.bound[0]:g} to {claim.bound[1]:g}"
    return f"{claim.relation} {claim.bound:g}"


def verdict(holds: bool | None) -> str:
    """Yes, no or unknown."""
    return {True: "holds", False: "fails", None: "unknown"}[holds]


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
}


def kkt_table(facts: Row) -> Table:
    """The numbers of a KKT audit with their names."""
    table = Table(title="KKT conditions of the max-margin problem", title_justify="left", show_header=False)
    for key, text in KKT_WORDS.items():
        if key in facts:
            value = facts[key]
            table.add_row(text, show(value) if isinstance(value, float) else str(value))
    return table


def claims_table(title: str, claims: list[Claim]) -> Table:
    """What the paper says, what was measured, whether it holds."""
    table = Table(title=title, title_justify="left", expand=False)
    for column in ("claim", "the paper says", "measured", "expected", ""):
        table.add_column(column, overflow="fold", no_wrap=column == "claim")
    colours = {True: "green", False: "red", None: "yellow"}
    for claim in claims:
        spread = "" if math.isnan(claim.spread) else f" ± {claim.spread:.2g}"
        table.add_row(
            claim.id,
            claim.statement,
            show(claim.measured) + spread,
            expectation(claim),
            f"[{colours[claim.holds]}]{verdict(claim.holds)}[/]",
        )
    return table
