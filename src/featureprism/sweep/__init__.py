"""Old path of the engine in featureprism.lab."""

from featureprism.lab.cluster import Cluster
from featureprism.lab.engine import Budget, Rules, Summary, run_units
from featureprism.lab.executors import Executor, Local, Serial
from featureprism.lab.reproduction import Failure, Result, reproduce
from featureprism.lab.spec_file import read_spec
from featureprism.lab.store import Store
from featureprism.lab.sweeps import Between, Sweep, draws, grid, of_function, of_item, sweep
from featureprism.lab.unit import Unit, units_of
from featureprism.lab.work import Limits

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
