"""The lab: rows, claims, verdicts, rates, experiments, the registry of papers, and the engine that runs them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from featureprism.lab.bounds import Bound, above, at_least, at_most, below, between
from featureprism.lab.claim import Claim
from featureprism.lab.context import Context
from featureprism.lab.experiment import SCALES, Experiment, Measure, Paper, changed, fields_of
from featureprism.lab.intervals import mean_interval, share_interval
from featureprism.lab.looks import Looks
from featureprism.lab.premise import Premise, PremiseStatus, Requires, requires
from featureprism.lab.rate import Rate, rate
from featureprism.lab.registry import all_papers, experiments_called, item_called, paper_called
from featureprism.lab.rows import Row, Rows, Values, log_slope
from featureprism.lab.theorem import PremiseTable, Theorem, premises_of
from featureprism.lab.verdict import Outcome, Verdict, judge

if TYPE_CHECKING:
    from featureprism.lab.cluster import Cluster
    from featureprism.lab.engine import Budget, Rules, Summary, run_units, unit_events
    from featureprism.lab.executors import Executor, Local, Serial
    from featureprism.lab.reproduction import Failure, ItemJudged, Result, reproduce
    from featureprism.lab.spec_file import read_spec
    from featureprism.lab.store import Store
    from featureprism.lab.sweeps import Between, Sweep, draws, grid, of_function, of_item, sweep
    from featureprism.lab.unit import Unit, units_of
    from featureprism.lab.work import Limits

_ENGINE = {  # imported when used: claims can be read without it
    "cluster": ("Cluster",),
    "engine": ("Budget", "Rules", "Summary", "run_units", "unit_events"),
    "executors": ("Executor", "Local", "Serial"),
    "reproduction": ("Failure", "ItemJudged", "Result", "reproduce"),
    "spec_file": ("read_spec",),
    "store": ("Store",),
    "sweeps": ("Between", "Sweep", "draws", "grid", "of_function", "of_item", "sweep"),
    "unit": ("Unit", "units_of"),
    "work": ("Limits",),
}
_MODULE_OF = {name: module for module, names in _ENGINE.items() for name in names}

__all__ = [
    "SCALES",
    "Between",
    "Bound",
    "Budget",
    "Claim",
    "Cluster",
    "Context",
    "Executor",
    "Experiment",
    "Failure",
    "ItemJudged",
    "Limits",
    "Local",
    "Looks",
    "Measure",
    "Outcome",
    "Paper",
    "Premise",
    "PremiseStatus",
    "PremiseTable",
    "Rate",
    "Requires",
    "Result",
    "Row",
    "Rows",
    "Rules",
    "Serial",
    "Store",
    "Summary",
    "Sweep",
    "Theorem",
    "Unit",
    "Values",
    "Verdict",
    "above",
    "all_papers",
    "at_least",
    "at_most",
    "below",
    "between",
    "changed",
    "draws",
    "experiments_called",
    "fields_of",
    "grid",
    "item_called",
    "judge",
    "log_slope",
    "mean_interval",
    "of_function",
    "of_item",
    "paper_called",
    "premises_of",
    "rate",
    "read_spec",
    "reproduce",
    "requires",
    "run_units",
    "share_interval",
    "sweep",
    "unit_events",
    "units_of",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
