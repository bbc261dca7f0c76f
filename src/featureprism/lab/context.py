"""The context of a measurement beside its setting and seed: folders, device, progress and log."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from featureprism._progress import Log, Progress, no_log, no_progress, part
from featureprism.data.images import is_data


@dataclass(frozen=True)
class Context:
    """What a measurement may use beside its setting and seed.

    Parameters
    ----------
    data : Path, optional
        A folder of real data, or one .npz file.
    device : str
        Where image networks are trained.
    networks : Path, optional
        Where trained networks are kept.
    tolerant : bool
        Whether units count as finished whatever versions and kind of processor measured them: rows may differ in their last digits.
    progress : callable
        Takes the share that is done. Results never depend on it.
    log : callable
        Takes a remark such as "accuracy 0.83".
    """

    data: Path | None = None
    device: str = "cpu"
    networks: Path | None = None
    tolerant: bool = False
    progress: Progress = field(default=no_progress, compare=False)
    log: Log = field(default=no_log, compare=False)

    def __post_init__(self) -> None:
        if self.data is not None and not is_data(self.data):
            raise ValueError(
                f"{self.data} is neither a folder nor an .npz file; real data is in one of them."
            )

    def within(self, begin: float, end: float) -> "Context":
        """The context of a step that is the part from `begin` to `end` of the whole."""
        return replace(self, progress=part(self.progress, begin, end))

    def unwatched(self) -> "Context":
        """The same without progress and log, for another process."""
        return replace(self, progress=no_progress, log=no_log)

    @property
    def announce(self) -> Log:
        """The old name of `log`."""
        return self.log


def check_device(device: str) -> None:
    """Refuse a device that this machine does not have."""
    if device.partition(":")[0] not in ("cpu", "cuda", "mps"):
        raise ValueError(f"Device {device!r} cannot be used: choose cpu, cuda or mps.")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"Device {device!r} cannot be used: this machine, or this build of torch, has none; cpu is always there."
        ) from error
