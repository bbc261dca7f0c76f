"""What everything shares: data sets, trajectories, brackets."""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.brackets import RadiusBracket as RadiusBracket
from featureprism.progress import Progress as Progress
from featureprism.progress import no_progress as silent  # noqa: F401

if TYPE_CHECKING:
    from featureprism.lab.premise import Premise as Premise

Row = dict[str, Any]  # flat: strings, numbers, booleans
Snapshot = TypeVar("Snapshot")
LARGEST = 1e100  # of a coordinate or a weight: squares and products of larger ones leave float64


def check_points(x: Tensor, y: Tensor | None = None, *, at_least: int = 0) -> None:
    """Refuse points that are not finite rows of real numbers, fewer than so many, and labels that are not one -1 or +1 per row."""
    if x.ndim != 2:
        raise ValueError(f"Points must be rows of shape (n, d), got shape {tuple(x.shape)}.")
    if len(x) < at_least:
        raise ValueError(f"Need at least {at_least} point, got {len(x)}: there is nothing to measure.")
    if x.is_complex():
        raise ValueError(f"Points must be real numbers, got {x.dtype}; take their real part first.")
    largest = max(map(abs, _range(x.detach())))
    if not largest < math.inf:
        raise ValueError("Points contain NaN or infinite values; drop or impute those rows first.")
    if largest > LARGEST:
        raise ValueError(
            f"Points have coordinates up to {largest:.3g}, which overflow when squared; scale them to below {LARGEST:g}."
        )
    if y is None:
        return
    if y.shape != x.shape[:1]:
        raise ValueError(f"Need one label per point: {x.shape[0]} points, labels {tuple(y.shape)}.")
    if y.is_complex():
        raise ValueError(f"Labels must be -1 or +1, got {y.dtype}; take their real part first.")
    if not bool(((y == 1) | (y == -1)).all()):
        found = sorted({float(v) for v in y.flatten().tolist()})[:5]
        raise ValueError(f"Labels must be -1 or +1, got {found}. Use data.to_signs(y) for 0/1 labels.")


def _range(x: Tensor) -> tuple[float, float]:
    """The least and the largest entry, NaN if any is; (0, 0) where there is none."""
    low, high = torch.aminmax(x) if x.numel() else (x.new_zeros(()), x.new_zeros(()))
    return float(low), float(high)


@dataclass(frozen=True)
class Dataset:
    """Points with labels ±1; the cluster index is the fine label, centres are its means.

    >>> import featureprism as fp
    >>> clusters = fp.orthonormal_clusters(50, 2, 1, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.sample(clusters, 6, generator=fp.generator_for("data", 0))
    >>> data.x.shape, data.y.tolist()
    (torch.Size([6, 50]), [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """

    x: Float[Tensor, "n d"]
    y: Float[Tensor, " n"]
    cluster: Int[Tensor, " n"]
    centres: Float[Tensor, "k d"]

    def __post_init__(self) -> None:
        check_points(self.x, self.y)

    def to(self, dtype: torch.dtype) -> "Dataset":
        """The same data in another floating-point type."""
        return Dataset(self.x.to(dtype), self.y.to(dtype), self.cluster, self.centres.to(dtype))


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

    `work` counts gradient evaluations; `error` is the integrator's own estimate, where it has one.

    >>> import featureprism as fp
    >>> from featureprism.records import Ended
    >>> run = fp.Trajectory([0.0, 1.0], ["start", "end"], Ended.TIME_REACHED, probes={"loss": [1.0, 0.1]})
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


def picture(image: Float[Tensor, "c h w"]) -> Row:
    """A picture with values in [0, 1] as fields of a row: its shape, and its bytes in base64."""
    data = (image.detach().clamp(0, 1) * 255).round().to(torch.uint8).numpy().tobytes()
    channels, height, width = image.shape
    return {
        "channels": channels,
        "height": height,
        "width": width,
        "pixels": base64.b64encode(data).decode(),
    }


def as_image(row: Row) -> Float[Tensor, "h w c"]:
    """The picture of a row, as drawing programs want it."""
    data = torch.frombuffer(bytearray(base64.b64decode(row["pixels"])), dtype=torch.uint8)
    return (data.reshape(row["channels"], row["height"], row["width"]).float() / 255).permute(1, 2, 0)


def __getattr__(name: str) -> Any:
    """`Premise` lives in featureprism.lab; this path stays until nobody imports it from here."""
    if name == "Premise":
        from featureprism.lab.premise import Premise

        return Premise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
