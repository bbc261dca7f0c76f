"""The answer to "how far is this from breaking?": per point a proven and a witnessed radius, printed, drawn, saved and handed over."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.checker.certificate import Certificate
from featureprism.checker.proofs import KINDS, Proof, Statement, proof_bytes, read_proofs
from featureprism.files import write_whole

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
    `statement` says what the proofs are about: norm, bounds, the hashes of model and points; `margin` by how much each class wins at
    least, where that was asked for. All may be missing.

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
    statement: Statement | None = None
    margin: Float[Tensor, " n"] | None = None

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
        if math.isinf(high):
            half = f"beyond {low:.4g} (proven), the attack flips {int(flipped.sum())}"
        return (
            f"{len(self)} points: half break {half}; {closed:.0%} of the brackets "
            f"closed to {CLOSED:.0%}; clean accuracy {float(right.double().mean()):.3f}"
            + (f"; nearest to breaking: points {worst}" if worst else "")
        )

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
            if certificate.radius > 0 and certificate.kind in KINDS
        ]

    def save(self, path: Path | str) -> None:
        """Write everything into one proof file (docs/proof_format.md), which `featureprism check` and `fp.check` verify.

        Parameters
        ----------
        path
            Of the .npz file to write, in one motion.
        """
        write_whole(Path(path), self.content())

    def content(self) -> bytes:
        """The content of the proof file that `save` writes."""
        n = len(self)
        optional = {name: getattr(self, name) for name in ("witness", "predicted", "rival")}
        others = {name: value.numpy() for name, value in optional.items() if value is not None}
        shares = [self.zero_gradient_share, self.blind_share, self.seconds]
        others |= {"method": np.array(self.method, dtype=str), "shares": np.array(shares)}
        others |= {"attacked": self.attacked.numpy(), "has_label": np.array(self.label is not None)}
        d = 0 if self.witness is None else self.witness.shape[1]
        statement = self.statement or Statement(np.full(d, -np.inf), np.full(d, np.inf), norm=self._norm())
        if self.classes is not None:
            statement = replace(statement, classes=self.classes.tolist())
        label = np.zeros(n, dtype=np.int64) if self.label is None else self.label.numpy()
        margin = None if self.margin is None else self.margin.numpy()
        return proof_bytes(statement, self.certified.numpy(), label, self.proofs(), margin, others)

    def _norm(self) -> float:
        """Of the proofs, where no statement says it."""
        return next((proof.certificate.norm for proof in self.proofs()), 2)

    @classmethod
    def load(cls, path: Path | str) -> "RadiusBracket":
        """The bracket of a file that `save` or `featureprism radius` wrote.

        Parameters
        ----------
        path
            Of the .npz file.

        Returns
        -------
        RadiusBracket
            With the proofs and what they are about.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"Cannot read {path}: {error.strerror or error}.") from error
        file = read_proofs(content, str(path))
        found = file.others
        if missing := [name for name in ("attacked", "method", "shares") if name not in found]:
            raise ValueError(f"{path} is no saved bracket: it lacks {', '.join(missing)}.")
        certificates: list[dict[int, Certificate]] = [{} for _ in file.certified]
        for proof in file.proofs:
            certificates[proof.point][proof.rival] = proof.certificate
        zero, blind, seconds = found["shares"].tolist()
        has_label = bool(found.get("has_label", True))
        return cls(
            torch.from_numpy(file.certified),
            torch.from_numpy(found["attacked"]),
            tuple(found["method"].tolist()),
            _tensor(found, "witness"),
            tuple(certificates) if has_label else (),
            zero,
            blind,
            seconds,
            label=torch.from_numpy(file.label) if has_label else None,
            predicted=_tensor(found, "predicted"),
            rival=_tensor(found, "rival"),
            classes=None if file.statement.classes is None else np.array(file.statement.classes),
            statement=file.statement,
            margin=torch.from_numpy(file.margin) if file.margin.any() else None,
        )


def _tensor(found: dict[str, np.ndarray], name: str) -> Tensor | None:
    return torch.from_numpy(found[name]) if name in found else None
