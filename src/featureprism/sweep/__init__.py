"""Many settings, seeds and points, kept as they are done and resumed."""

from featureprism.sweep.cluster import Cluster
from featureprism.sweep.engine import Summary, sweep
from featureprism.sweep.executors import Executor, Local, Serial
from featureprism.sweep.radii import Request, bracket_points
from featureprism.sweep.runner import Result, Unit, finished_rows, prepare_folder, run, strict, units
from featureprism.sweep.spec import Between, Budget, Sweep, did_you_mean, draws, grid, of_function, of_item
from featureprism.sweep.spec_file import read_spec
from featureprism.sweep.store import Store
from featureprism.sweep.work import Limits

__all__ = [
    "Between",
    "Budget",
    "Cluster",
    "Executor",
    "Limits",
    "Local",
    "Request",
    "Result",
    "Serial",
    "Store",
    "Summary",
    "Sweep",
    "Unit",
    "bracket_points",
    "did_you_mean",
    "draws",
    "finished_rows",
    "grid",
    "of_function",
    "of_item",
    "prepare_folder",
    "read_spec",
    "run",
    "strict",
    "sweep",
    "units",
]
