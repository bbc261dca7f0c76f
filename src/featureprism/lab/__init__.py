"""The lab: rows, claims, verdicts, rates, experiments, the registry of papers, and the engine that runs them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from featureprism.lab.bounds import Bound, above, at_least, at_most, below, between
from featureprism.lab.claim import Claim
from featureprism.lab.context import Context
from featureprism.lab.experiment import Experiment, Paper
from featureprism.lab.looks import Looks
from featureprism.lab.premise import Premise, requires
from featureprism.lab.rate import Rate, rate
from featureprism.lab.registry import all_papers, experiments_called, item_called, paper_called
from featureprism.lab.rows import Rows
from featureprism.lab.theorem import PremiseTable, Theorem, premises_of
from featureprism.lab.verdict import Outcome, Verdict, judge

if TYPE_CHECKING:
    from featureprism.lab.cluster import Cluster
    from featureprism.lab.engine import Rules
    from featureprism.lab.executors import Local, Serial
    from featureprism.lab.reproduction import Result, reproduce
    from featureprism.lab.spec_file import read_spec
    from featureprism.lab.store import Store
    from featureprism.lab.sweeps import grid, of_function, of_item, sweep
    from featureprism.lab.work import Limits

_ENGINE = {  # imported when used: claims can be read without it
    "cluster": ("Cluster",),
    "engine": ("Rules",),
    "executors": ("Local", "Serial"),
    "reproduction": ("Result", "reproduce"),
    "spec_file": ("read_spec",),
    "store": ("Store",),
    "sweeps": ("grid", "of_function", "of_item", "sweep"),
    "work": ("Limits",),
}
_MODULE_OF = {name: module for module, names in _ENGINE.items() for name in names}

__all__ = [
    "Bound",
    "Claim",
    "Cluster",
    "Context",
    "Experiment",
    "Limits",
    "Local",
    "Looks",
    "Outcome",
    "Paper",
    "Premise",
    "PremiseTable",
    "Rate",
    "Result",
    "Rows",
    "Rules",
    "Serial",
    "Store",
    "Theorem",
    "Verdict",
    "above",
    "all_papers",
    "at_least",
    "at_most",
    "below",
    "between",
    "experiments_called",
    "grid",
    "item_called",
    "judge",
    "of_function",
    "of_item",
    "paper_called",
    "premises_of",
    "rate",
    "read_spec",
    "reproduce",
    "requires",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
