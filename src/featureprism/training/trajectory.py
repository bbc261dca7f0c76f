"""A training run seen at chosen times, and how it ended."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import Any, Generic, TypeVar

Snapshot = TypeVar("Snapshot")


class Ended(Enum):
    """How a run ended, with advice."""

    TIME_REACHED = "ran to the requested time or number of steps"
    LOSS_BELOW_TARGET = "loss fell below the target"
    DIVERGED = "loss is no longer finite; lower step_size or use the mean or per-cluster loss"
    STEP_LIMIT = "gave up before the requested time; loosen rtol or shorten t_end"
    SILENT = "every neuron is silent on every point, so the gradient vanished; use a wider network or another start"
    NOT_CONVERGED = "step halving did not settle; pass a smaller step_size"

    @property
    def is_complete(self) -> bool:
        """Whether the run reached what was asked of it."""
        return self in (Ended.TIME_REACHED, Ended.LOSS_BELOW_TARGET)


@dataclass(frozen=True)
class Trajectory(Generic[Snapshot]):
    """A run seen at chosen times: snapshots, what probes measured there, and how it ended.

    Parameters
    ----------
    times : list of float
        When the snapshots were taken.
    snapshots : list
        The networks; `last` is the last one.
    ended : Ended
        How the run ended, with advice where it is not complete.
    probes : mapping
        What each probe measured at these times.
    work : int
        Gradient evaluations.
    error : float
        The integrator's own estimate; NaN where it has none.

    Examples
    --------
    >>> import featureprism as fp
    >>> from featureprism.training import Ended
    >>> run = fp.training.Trajectory([0.0, 1.0], ["start", "end"], Ended.TIME_REACHED, probes={"loss": [1.0, 0.1]})
    >>> run.last, run.ended.is_complete
    ('end', True)
    """

    times: list[float]
    snapshots: list[Snapshot]
    ended: Ended
    probes: Mapping[str, list[Any]] = field(default_factory=dict)
    work: int = 0
    error: float = math.nan

    @property
    def last(self) -> Snapshot:
        """The snapshot at the last recorded time."""
        return self.snapshots[-1]

    def _repr_html_(self) -> str:
        """How the run went and what its probes saw last, for notebooks."""
        numbers = {k: v[-1] for k, v in self.probes.items() if v and isinstance(v[-1], int | float)}
        cells = "".join(f"<tr><td>{escape(k)}</td><td>{v:.5g}</td></tr>" for k, v in numbers.items())
        span = f"{len(self.times)} snapshots" + (
            f" from {self.times[0]:g} to {self.times[-1]:g}" if self.times else ""
        )
        return f"<p>{span}; {self.work} gradients; {escape(self.ended.value)}</p><table>{cells}</table>"
