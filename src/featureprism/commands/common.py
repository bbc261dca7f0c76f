"""What several commands share: how a command is added, where it finds data and device, and where units run."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from featureprism.context import Context, check_device
from featureprism.sweep import Cluster, Executor, Local, Serial

AddParser = Callable[[str, str, str], argparse.ArgumentParser]
DATA = "FEATUREPRISM_DATA"  # the folder of real data, or one .npz file
DEVICE = "FEATUREPRISM_DEVICE"  # where image networks are trained: cpu, cuda, mps


def add_context(command: argparse.ArgumentParser) -> None:
    """--data and --device."""
    command.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help=f"folder with archives or .npz files, or one .npz file (default: ${DATA}, then the cache of fetch)",
    )
    command.add_argument(
        "--device",
        metavar="NAME",
        help=f"where image networks are trained: cpu, cuda, mps (default: ${DEVICE}, or cpu)",
    )


def context_from(args: argparse.Namespace, networks: Path | None = None) -> Context:
    """The context of a command: --data and --device, else what the environment names; what is not there is refused.

    The environment is read here and nowhere else.
    """
    named = os.environ.get(DATA)
    data = args.data if args.data is not None else Path(named) if named else None
    device = args.device or os.environ.get(DEVICE) or "cpu"
    check_device(device)
    return Context(data=data, device=device, networks=networks)


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
    command.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://10.0.0.1:8786"
    )


def chosen_executor(args: argparse.Namespace, memory_mb: float | None = None) -> Executor:
    """What they ask for; one worker is this process, which shows progress within a unit, unless memory is limited."""
    if args.scheduler and args.executor != "dask":
        raise ValueError("--scheduler needs --executor dask.")
    if args.executor == "dask":
        return Cluster(args.scheduler, args.workers, memory_mb)
    return Serial() if args.workers == 1 and memory_mb is None else Local(args.workers, memory_mb)
