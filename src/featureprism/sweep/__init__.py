"""Many settings × seeds, resumed."""

from featureprism.sweep.runner import Result, Unit, finished_rows, prepare_folder, run, strict, units

__all__ = ["Result", "Unit", "finished_rows", "prepare_folder", "run", "strict", "units"]
