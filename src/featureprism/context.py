"""What a measurement is given beside its setting and seed: where data and networks are, the device, and whom to tell of progress."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from featureprism.records import Progress, silent


def speechless(_text: str) -> None:
    """The remarks of those who do not want to hear any."""


def part(progress: Progress, begin: float, end: float) -> Progress:
    """The progress of a step that is the part from `begin` to `end` of a whole."""
    return lambda done: progress(begin + (end - begin) * done)


@dataclass(frozen=True)
class Context:
    """`data`: a folder of real data or one .npz file; `device`: where image networks are trained; `networks`: where they are kept.

    None stands for "nobody said". `progress` and `announce` ("accuracy 0.83") are for whoever watches; results never depend on them.
    """

    data: Path | None = None
    device: str = "cpu"
    networks: Path | None = None
    progress: Progress = field(default=silent, compare=False)
    announce: Callable[[str], None] = field(default=speechless, compare=False)

    def __post_init__(self) -> None:
        if self.data is not None and not is_data(self.data):
            raise ValueError(
                f"{self.data} is neither a folder nor an .npz file; real data is in one of them."
            )

    def within(self, begin: float, end: float) -> "Context":
        """The context of a step that is the part from `begin` to `end` of the whole."""
        return replace(self, progress=part(self.progress, begin, end))

    def unwatched(self) -> "Context":
        """The same for a process in which nobody watches."""
        return replace(self, progress=silent, announce=speechless)


def is_data(path: Path) -> bool:
    """Whether a path can hold real data: a folder or an .npz file."""
    return path.is_dir() or (path.is_file() and path.suffix == ".npz")


def check_device(device: str) -> None:
    """Say in one sentence when the device is not there."""
    if device.partition(":")[0] not in ("cpu", "cuda", "mps"):
        raise ValueError(f"Device {device!r} cannot be used: choose cpu, cuda or mps.")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"Device {device!r} cannot be used: this machine, or this build of torch, has none; cpu is always there."
        ) from error
