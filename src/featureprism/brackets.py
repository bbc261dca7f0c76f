"""The answer to "how far is this from breaking?": per point a proven and a witnessed radius, printed, drawn, saved and handed over."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.checker.certificate import Certificate
from featureprism.checker.proofs import Proof, as_arrays, from_arrays
from featureprism.files import read_arrays, write_whole

CHECKABLE = (
    "cells",
    "lines",
    "ellipsoid",
    "crown",
    "lipschitz",
    "closed form",
    "deep",
    "norm product",
)  # what a proof file can hold
NOT_CERTIFIED = "not certified yet"  # how the method of a point begins that nothing but attacks has measured
CLOSED = 0.01  # a bracket whose gap is no larger counts as closed
WORST = 3  # points that are named as the ones nearest to breaking
COLUMNS = ("certified", "attacked")
OF_CLASSES = ("label", "predicted", "rival")


@dataclass(frozen=True, repr=False)
class RadiusBracket:
    """Proven ≤ true ≤ witnessed: per point, no δ below `certified` flips, the witness of norm `attacked` does.

    `method` names what proved each point, `witness` holds the flipping perturbations, `certificates` what can be checked (from the
    front door one for each rival of a point), `blind_share` on how many points plain PGD fails beyond the witness, `seconds` the
    average time of a point. `label`, `predicted` and `rival`, the class that the witness leads to, are positions among `classes`.
    All may be missing.

    >>> import torch
    >>> import featureprism as fp
    >>> bracket = fp.RadiusBracket(certified=torch.tensor([0.5, 0.2]), attacked=torch.tensor([0.502, 0.4]))
    >>> [round(gap, 3) for gap in bracket.gap.tolist()]
    [0.004, 0.5]
    >>> low, high = bracket.accuracy([0.3])
    >>> low.item(), high.item()
    (0.5, 1.0)
    """

    certified: Float[Tensor, " n"]
    attacked: Float[Tensor, " n"]
    method: tuple[str, ...] = ()
    witness: Float[Tensor, "n d"] | None = None
    certificates: tuple[Any, ...] = ()
    zero_gradient_share: float = math.nan
    blind_share: float = math.nan
    seconds: float = math.nan
    label: Int[Tensor, " n"] | None = None
    predicted: Int[Tensor, " n"] | None = None
    rival: Int[Tensor, " n"] | None = None
    classes: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.certified.shape != self.attacked.shape:
            raise ValueError("Both sides of a bracket need one radius per point.")
        if bool(torch.isnan(self.certified).any() or torch.isnan(self.attacked).any()):
            raise ValueError("A bracket cannot hold NaN: use certified 0, attacked inf for unknown.")
        if not bool((self.certified <= self.attacked).all()):
            worst = float((self.certified - self.attacked).max())
            raise ValueError(f"A certificate exceeds an attack by {worst:.3g}: one of them is wrong.")

    def __len__(self) -> int:
        return len(self.certified)

    @property
    def gap(self) -> Float[Tensor, " n"]:
        """(attacked - certified)/attacked, 0 where both are equal."""
        closed = self.certified == self.attacked
        return torch.where(closed, torch.zeros_like(self.attacked), 1 - self.certified / self.attacked)

    def accuracy(
        self, radii: Float[Tensor, " m"] | Float[np.ndarray, " m"] | Sequence[float]
    ) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
        """Robust accuracy at each radius, as (certified, attacked): the truth lies between."""
        column = torch.as_tensor(radii, dtype=self.certified.dtype).reshape(-1, 1)
        certified, attacked = self.certified.unsqueeze(0) > column, self.attacked.unsqueeze(0) > column
        return certified.double().mean(dim=1), attacked.double().mean(dim=1)

    def __repr__(self) -> str:
        """One line: medians, how many brackets are closed, clean accuracy, and the points nearest to breaking."""
        if not len(self):
            return "no points"
        low, high = (float(side.median()) for side in (self.certified, self.attacked))
        closed, right = float((self.gap <= CLOSED).double().mean()), self.attacked > 0
        flipped = right & torch.isfinite(self.attacked)
        order = torch.where(flipped, self.attacked, math.inf).argsort()[: min(WORST, int(flipped.sum()))]
        worst = ", ".join(f"{i} ({float(self.attacked[i]):.3g})" for i in order.tolist())
        half = f"between {low:.4g} (proven) and {high:.4g} (attacked)"
        if reason := self._not_certified():
            half = f"within {high:.4g} (attacked)" if math.isfinite(high) else "nowhere that the attack found"
            tail = f"; nearest to breaking: points {worst}" if worst else ""
            accuracy = f"clean accuracy {float(right.double().mean()):.3f}"
            return f"{len(self)} points: half break {half}; {reason}; {accuracy}{tail}"
        if math.isinf(high):
            half = f"beyond {low:.4g} (proven), the attack flips {int(flipped.sum())}"
        return (
            f"{len(self)} points: half break {half}; {closed:.0%} of the brackets "
            f"closed to {CLOSED:.0%}; clean accuracy {float(right.double().mean()):.3f}"
            + (f"; nearest to breaking: points {worst}" if worst else "")
        )

    def _not_certified(self) -> str:
        """Why nothing is proven, where nothing but attacks has measured the points that are classified correctly."""
        of_right = {m for m, radius in zip(self.method, self.attacked.tolist(), strict=False) if radius > 0}
        reasons = sorted(m for m in of_right if m.startswith(NOT_CERTIFIED))
        return reasons[0] if reasons and len(reasons) == len(of_right) else ""

    def _repr_html_(self) -> str:
        """The line and the curve, for notebooks."""
        drawing = import_module("featureprism.report.brackets").curve_as_svg(self) if len(self) else ""
        return f"<p>{html.escape(repr(self))}</p>{drawing}"

    def plot(self) -> Any:
        """Robust accuracy against radius, the truth in the band between proven and attacked; a matplotlib figure."""
        return import_module("featureprism.report.brackets").curve(self)

    def columns(self) -> dict[str, np.ndarray]:
        """index, label, predicted, rival, certified, attacked, method: one row for each point, classes by name."""
        table: dict[str, np.ndarray] = {"index": np.arange(len(self))}
        for name in OF_CLASSES:
            values: Tensor | None = getattr(self, name)
            if values is not None:
                positions = values.numpy()
                table[name] = positions if self.classes is None else self.classes[positions]
        table |= {name: getattr(self, name).numpy() for name in COLUMNS}
        return table | ({"method": np.array(self.method)} if self.method else {})

    def to_frame(self) -> Any:
        """The columns as a pandas DataFrame."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ValueError("to_frame needs pandas: pip install pandas, or use columns().") from error
        return pandas.DataFrame(self.columns())

    def proofs(self) -> list[Proof]:
        """Every certificate that can be checked, with the point, the class and the rival that it is about."""
        if self.label is None:
            return []
        return [
            Proof(i, int(self.label[i]), rival, certificate)
            for i, of_point in enumerate(self.certificates)
            for rival, certificate in of_point.items()
            if certificate.radius > 0 and certificate.kind in CHECKABLE
        ]

    def save(self, path: Path | str) -> None:
        """Write everything, proofs as well, as plain arrays into one .npz file."""
        sides = {name: getattr(self, name).numpy() for name in COLUMNS}
        optional = {name: getattr(self, name) for name in ("witness", *OF_CLASSES)}
        arrays = sides | {name: value.numpy() for name, value in optional.items() if value is not None}
        shares = [self.zero_gradient_share, self.blind_share, self.seconds]
        arrays |= {"method": np.array(self.method, dtype=str), "shares": np.array(shares)}
        arrays |= {} if self.classes is None else {"classes": np.array(self.classes.tolist())}
        arrays |= {f"proof_{name}": value for name, value in as_arrays(self.proofs()).items()}
        content = BytesIO()
        np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]
        write_whole(Path(path), content.getvalue())

    @classmethod
    def load(cls, path: Path | str) -> "RadiusBracket":
        """The bracket of a file that `save` wrote."""
        found = read_arrays(Path(path))
        if missing := [name for name in (*COLUMNS, "method", "shares") if name not in found]:
            raise ValueError(f"{path} is no saved bracket: it lacks {', '.join(missing)}.")
        tensor = partial(_tensor, found)
        n = len(found["certified"])
        certificates: list[dict[int, Certificate]] = [{} for _ in range(n)]
        written = {name.removeprefix("proof_"): a for name, a in found.items() if name.startswith("proof_")}
        for proof in from_arrays(written):
            certificates[proof.point][proof.rival] = proof.certificate
        zero, blind, seconds = found["shares"].tolist()
        return cls(
            torch.from_numpy(found["certified"]),
            torch.from_numpy(found["attacked"]),
            tuple(found["method"].tolist()),
            tensor("witness"),
            tuple(certificates) if "label" in found else (),
            zero,
            blind,
            seconds,
            *(tensor(name) for name in OF_CLASSES),
            classes=found.get("classes"),
        )


def _tensor(found: dict[str, np.ndarray], name: str) -> Tensor | None:
    return torch.from_numpy(found[name]) if name in found else None
