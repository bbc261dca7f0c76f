"""What several commands share: where they find data and device, where units run, and how settings are changed."""

import argparse
import ast
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from featureprism.commands.arguments import DATA, DEVICE
from featureprism.lab import Cluster, Local, Serial
from featureprism.lab.context import Context, check_device
from featureprism.lab.executors import Executor


def context_from(args: argparse.Namespace, networks: Path | None = None) -> Context:
    """The context of a command: --data and --device, else what the environment names; what is not there is refused.

    The environment is read here and nowhere else.
    """
    named = os.environ.get(DATA)
    data = args.data if args.data is not None else Path(named) if named else None
    device = args.device or os.environ.get(DEVICE) or "cpu"
    check_device(device)
    tolerant = getattr(args, "tolerant", False)
    return Context(data=data, device=device, networks=networks, tolerant=tolerant)


def chosen_executor(args: argparse.Namespace, memory_mb: float | None = None) -> Executor:
    """What they ask for; one worker is this process, which shows progress within a unit, unless memory is limited."""
    if args.scheduler and args.executor != "dask":
        raise ValueError("--scheduler needs --executor dask.")
    if args.executor == "dask":
        return Cluster(args.scheduler, args.workers, memory_mb, wait=args.wait, tolerant=args.tolerant)
    return Serial() if args.workers == 1 and memory_mb is None else Local(args.workers, memory_mb)


def parsed_changes(texts: Sequence[str]) -> dict[str, Any]:
    """--set field=value: numbers, true, false, lists and words."""
    return dict(_parsed(text) for text in texts)


def _parsed(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"--set takes FIELD=VALUE, got '{text}'.")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
