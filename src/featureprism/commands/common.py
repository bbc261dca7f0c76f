"""What several commands share: how a command is added, and where units run."""

import argparse
from collections.abc import Callable

from featureprism.sweep import Cluster, Executor, Local, Serial

AddParser = Callable[[str, str, str], argparse.ArgumentParser]


def add_executor(command: argparse.ArgumentParser) -> None:
    """--executor, --workers and --scheduler."""
    command.add_argument(
        "--executor", choices=("local", "dask"), default="local", help="where units run (default: local)"
    )
    command.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="how many local processes (default: one for each core; 1 runs in this process)",
    )
    command.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://10.0.0.1:8786")


def chosen_executor(args: argparse.Namespace, memory_mb: float | None = None) -> Executor:
    """What they ask for; one worker is this process, which shows progress within a unit, unless memory is limited."""
    if args.scheduler and args.executor != "dask":
        raise ValueError("--scheduler needs --executor dask.")
    if args.executor == "dask":
        return Cluster(args.scheduler, args.workers, memory_mb)
    return Serial() if args.workers == 1 and memory_mb is None else Local(args.workers, memory_mb)
