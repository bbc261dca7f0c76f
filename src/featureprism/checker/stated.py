"""The receiver states the question; the proofs of a file answer it, or are refused."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from featureprism.checker.float32 import float32_margin
from featureprism.checker.models import Model, input_dim, model_sha256, points_sha256
from featureprism.checker.proofs import ARITHMETICS, ProofFile, Statement, norm_word
from featureprism.checker.scaled import LARGEST
from featureprism.checker.verify import verified_radii
from featureprism.checker.weights import weighted_model

CLOSE = 1 + 1e-9  # standard deviations that were summed in another order are the same weights
SHOWN = 20  # points that a message names


@dataclass(frozen=True, eq=False)
class Stated:
    """A norm, a radius (None: whatever is claimed), bounds of perturbed points (None: none), whose arithmetic, and weights.

    The norm is that of weights ∘ δ (None: 1 everywhere); a feature with the weight inf does not move.
    """

    norm: float = 2
    eps: float | None = None
    bounds: tuple[Any, Any] | None = None
    arithmetic: str = "real"
    weights: Any = None

    def __post_init__(self) -> None:
        if self.norm not in (1, 2, math.inf):
            raise ValueError("norm must be 1, 2 or inf.")
        if self.eps is not None and not 0 < self.eps < math.inf:
            raise ValueError(f"eps must be positive and finite, got {self.eps}.")
        if self.arithmetic not in ARITHMETICS:
            raise ValueError(f'arithmetic must be "real" or "float32", got {self.arithmetic!r}.')

    def sides(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """(d,) Lower and upper bounds."""
        try:
            lower, upper = (-math.inf, math.inf) if self.bounds is None else self.bounds
            sides = [np.broadcast_to(np.asarray(side, dtype=np.float64), (dim,)) for side in (lower, upper)]
        except (ValueError, TypeError) as error:
            raise ValueError(f"bounds must be (lower, upper), numbers or {dim} numbers each.") from error
        if not (sides[0] <= sides[1]).all():
            raise ValueError("Lower bounds must not be above upper ones.")
        return sides[0], sides[1]

    def weight(self, dim: int) -> np.ndarray:
        """(d,) Weights of the coordinates."""
        try:
            given = 1.0 if self.weights is None else self.weights
            weights = np.broadcast_to(np.asarray(given, dtype=np.float64), (dim,))
        except (ValueError, TypeError) as error:
            raise ValueError(f"weights must be one number or {dim} numbers.") from error
        if not (weights > 0).all():
            raise ValueError("Weights must be positive; inf for a feature that does not move.")
        return weights


@dataclass(frozen=True, eq=False)
class Checked:
    """What was verified: for every point a radius, below which no perturbation changes its class. True if nothing was refused."""

    stated: Stated
    statement: Statement
    verified: np.ndarray  # (n,)
    certified: np.ndarray  # (n,) what was claimed

    @property
    def refused(self) -> np.ndarray:
        """Points whose claim does not follow from the proofs."""
        return np.flatnonzero(~(self.verified >= self.certified))

    def __bool__(self) -> bool:
        return not len(self.refused)

    @property
    def proven(self) -> np.ndarray:
        """(n,) Whether each point is proven to keep its class: at eps, or at all."""
        return self.verified >= self.stated.eps if self.stated.eps is not None else self.verified > 0

    @property
    def median(self) -> float:
        """Of the verified radii, the lower one of two."""
        return float(np.sort(self.verified)[(len(self.verified) - 1) // 2])

    def __str__(self) -> str:
        n, count = len(self.verified), int(self.proven.sum())
        where = f"{norm_name(self.stated.norm)} radius"
        weights = self.statement.weights
        inside = ("" if weights is None else " of weighted features") + within(self.statement)
        if self.stated.eps is None:
            words = f"{count} of {n} points have a proven {where}{inside}, median {self.median:.5g}"
        else:
            verb, own = ("is", "its") if count == 1 else ("are", "their")
            words = f"at {where} {self.stated.eps:g}{inside}, {count} of {n} points {verb} proven to keep {own} class"
        if self.statement.arithmetic != "real":
            words += f" in {self.statement.arithmetic}"
        if not self:
            named = ", ".join(map(str, self.refused[:SHOWN])) + (" ..." if len(self.refused) > SHOWN else "")
            words += f"; refused: points {named}"
        return words

    def facts(self) -> dict[str, Any]:
        """The same for programs."""
        s = self.statement
        bounds = [[float(v) for v in side] for side in (s.lower, s.upper)]
        return {
            "points": len(self.verified),
            "norm": norm_word(s.norm),
            "bounds": bounds if within(s) else None,
            "weights": None if s.weights is None else s.weights.tolist(),
            "eps": self.stated.eps,
            "proven": int(self.proven.sum()),
            "certified": int((self.certified > 0).sum()),
            "verified": int(((self.certified > 0) & (self.verified >= self.certified)).sum()),
            "refused": self.refused.tolist(),
            "median": self.median,
            "radii": self.verified.tolist(),
            "arithmetic": s.arithmetic,
            "model_sha256": s.model.sha256,
            "model_source": s.model.source,
            "model_source_sha256": s.model.source_sha256,
            "model_reader": s.model.reader,
            "points_sha256": s.points_sha256,
        }


def norm_name(norm: float) -> str:
    """ℓ2 or ℓ∞."""
    return "ℓ∞" if norm == math.inf else f"ℓ{norm:g}"


def within(statement: Statement) -> str:
    """The bounds in words; nothing where there are none."""
    lower, upper = statement.lower, statement.upper
    if not (np.isfinite(lower).any() or np.isfinite(upper).any()):
        return ""
    same = len(set(lower.tolist())) == len(set(upper.tolist())) == 1
    return f" within [{lower[0]:g}, {upper[0]:g}]" if same else " within bounds for each coordinate"


def checked(
    file: ProofFile,
    model: Model,
    x: np.ndarray,
    labels: np.ndarray,
    stated: Stated,
    verify: Callable[[], Any] | None = None,
    progress: Callable[[float], None] = lambda _share: None,
) -> Checked:
    """Verify the proofs of a file against a model and points, after what is stated; `verify` is another checker, for radii (n,)."""
    refuse_other(file, model, x, labels, stated)
    if verify is not None:
        radii = np.array(verify(), dtype=np.float64)
    else:
        weights, norm = file.statement.weights, file.statement.norm
        known, points = (model, x) if weights is None else (weighted_model(model, weights), x * weights)
        if not (np.abs(points) <= LARGEST).all():
            raise ValueError(f"The weighted points must have coordinates of at most {LARGEST:g}.")
        radii = verified_radii(known, points, labels, file.proofs, norm, progress, file.margin)
    if file.statement.arithmetic == "float32":
        radii = _in_float32(file, model, x, radii)
    stretch = stretch_of(file.statement, stated)
    return Checked(stated, file.statement, radii / stretch, file.certified / stretch)


def stretch_of(statement: Statement, stated: Stated) -> float:
    """At least 1: a ball of the stated weights lies in one of the file's weights that is larger by this factor."""
    asked = stated.weight(len(statement.lower))
    weights = np.ones_like(asked) if statement.weights is None else statement.weights
    stretch = float((weights / asked).max())
    return 1.0 if stretch <= 1 else stretch * (1 + 2.0**-50)


def _in_float32(file: ProofFile, model: Model, x: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """(n,) What holds of a program in float32: no more than is claimed, and nothing where rounding errors may exceed the margin."""
    held, s = np.zeros(len(x)), file.statement
    for i in np.flatnonzero((radii > 0) & (file.certified > 0)):
        radius = min(float(radii[i]), float(file.certified[i]))
        try:
            needed = float32_margin(model, x[i], int(file.label[i]), radius, s.norm, (s.lower, s.upper))
        except ValueError:  # a model, or a region, that no bound holds for
            continue
        held[i] = radius if needed <= file.margin[i] else 0.0
    return held


def refuse_other(file: ProofFile, model: Model, x: np.ndarray, labels: np.ndarray, stated: Stated) -> None:
    """A ValueError where a file is about something else, or something weaker, than what is stated."""
    statement, dim = file.statement, input_dim(model)
    if x.shape[1] != dim:
        raise ValueError(f"The points have {x.shape[1]} coordinates, the model takes {dim}.")
    if len(x) != len(file.certified):
        raise ValueError(f"The proofs speak of {len(file.certified)} points, {len(x)} are given.")
    if len(statement.lower) != dim:
        raise ValueError(
            f"The proofs have bounds for {len(statement.lower)} coordinates, the points have {dim}."
        )
    if statement.norm != stated.norm:
        raise ValueError(
            f"The proofs are about {norm_name(statement.norm)}, not about {norm_name(stated.norm)}."
        )
    if stated.arithmetic == "float32" != statement.arithmetic:
        raise ValueError("The proofs are about real numbers, not about a program in float32.")
    lower, upper = stated.sides(dim)
    if not ((statement.lower <= lower) & (statement.upper >= upper)).all():
        asked = "no bounds" if stated.bounds is None else "these bounds"
        raise ValueError(
            f"The proofs hold only{within(statement)}, which is narrower than {asked}; state --bounds."
        )
    if stretch_of(statement, stated) > CLOSE:
        asked = "no weights" if stated.weights is None else "these weights"
        raise ValueError(
            f"The proofs are about features with other weights, which say less than {asked} ask; state the unit and the fixed "
            "features of the proofs."
        )
    if statement.weights is not None and statement.arithmetic == "float32":
        raise ValueError("Proofs about float32 take no weights of features.")
    found = model_sha256(model)
    if statement.model.sha256 != found:
        raise ValueError(
            f"The proofs are about another model: SHA-256 {statement.model.sha256[:16]}, not {found[:16]}."
        )
    if not np.array_equal(labels, file.label):
        raise ValueError("The proofs are about points with other labels.")
    found = points_sha256(x, labels)
    if statement.points_sha256 != found:
        raise ValueError(
            f"The proofs are about other points: SHA-256 {statement.points_sha256[:16]}, not {found[:16]}."
        )


def file_content(path: Path) -> bytes:
    """The bytes of a file, or one sentence why they cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror or error}.") from error
