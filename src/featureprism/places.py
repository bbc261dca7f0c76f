"""Where things are: data, devices and trained networks, as the environment says (the command line sets it)."""

import os
from pathlib import Path

import torch

DATA = "FEATUREPRISM_DATA"  # the folder of real data, or one .npz file
DEVICE = "FEATUREPRISM_DEVICE"  # where image networks are trained: cpu, cuda, mps
NETWORKS = (
    "FEATUREPRISM_NETWORKS"  # where trained image networks are kept, for resuming and for other experiments
)
NEARBY = Path("../shared/data")  # looked at when no folder is named


def data_place() -> Path | None:
    """The folder or .npz file that was named, else the folder nearby if there is one; what is named must exist."""
    named = os.environ.get(DATA)
    if named is None:
        return NEARBY if NEARBY.is_dir() else None
    return check_place(Path(named))


def check_place(place: Path) -> Path:
    """The same folder or .npz file, or one sentence about what is wrong."""
    if not (place.is_dir() or (place.is_file() and place.suffix == ".npz")):
        raise ValueError(f"{place} is neither a folder nor an .npz file; --data and {DATA} want one of them.")
    return place


def device() -> str:
    """The device for image networks; the CPU unless another was named."""
    return os.environ.get(DEVICE, "cpu")


def check_device() -> None:
    """Say in one sentence when the device is not there."""
    if device().partition(":")[0] not in ("cpu", "cuda", "mps"):
        raise ValueError(f"Device {device()!r} cannot be used: choose cpu, cuda or mps.")
    try:
        torch.empty(0, device=device())
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"Device {device()!r} cannot be used: {str(error).splitlines()[0]}") from error


def networks_folder() -> Path | None:
    """Where trained image networks are kept; None when nobody said."""
    named = os.environ.get(NETWORKS)
    return None if named is None else Path(named)
