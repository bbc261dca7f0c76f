"""Many settings, seeds and points, kept as they are done and resumed."""

from featureprism.sweep.radii import Request, bracket_points
from featureprism.sweep.runner import Result, Unit, finished_rows, prepare_folder, run, strict, units

__all__ = [
    "Request",
    "Result",
    "Unit",
    "bracket_points",
    "finished_rows",
    "prepare_folder",
    "run",
    "strict",
    "units",
]
