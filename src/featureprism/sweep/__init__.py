"""Many settings, seeds and points: one engine and one store."""

from featureprism.sweep.cluster import Cluster
from featureprism.sweep.engine import Budget, Rules, Summary, run_units
from featureprism.sweep.executors import Executor, Local, Serial
from featureprism.sweep.reproduction import Failure, Result, reproduce
from featureprism.sweep.spec import Between, Sweep, draws, grid, of_function, of_item
from featureprism.sweep.spec_file import read_spec
from featureprism.sweep.store import Store
from featureprism.sweep.sweeps import sweep
from featureprism.sweep.unit import Unit, units_of
from featureprism.sweep.work import Limits

__all__ = [
    "Between",
    "Budget",
    "Cluster",
    "Executor",
    "Failure",
    "Limits",
    "Local",
    "Result",
    "Rules",
    "Serial",
    "Store",
    "Summary",
    "Sweep",
    "Unit",
    "draws",
    "grid",
    "of_function",
    "of_item",
    "read_spec",
    "reproduce",
    "run_units",
    "sweep",
    "units_of",
]
