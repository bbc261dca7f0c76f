"""The answer to "how far is this from breaking?": per point a proven and a witnessed radius, printed, drawn, saved and handed over."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from featureprism._files import write_whole
from featureprism._moved import Moved, what_moved
from featureprism._next_steps import NOT_CERTIFIED, next_steps
from featureprism.checker.certificate import Certificate
from featureprism.checker.proofs import KINDS, Proof, Statement, proof_bytes, read_proofs

CLOSED = 0.01  # a bracket whose gap is no larger counts as closed
WORST = 3  # points that are named as the ones nearest to breaking
COLUMNS = ("certified", "attacked")
SHARES = ("zero_gradient_share", "blind_share", "seconds")
ARRAYS = ("certified", "attacked", "witness", "label", "predicted", "target", "margin")
OF_CLASSES = ("label", "predicted", "target")


@dataclass(frozen=True, repr=False)
class RadiusBracket:
    """Proven ≤ true ≤ witnessed: no perturbation shorter than `certified` flips a point, the witness of norm `attacked` does.

    Attributes
    ----------
    certified, attacked : array of shape (n,)
        Proven and witnessed radius of every point; 0 for misclassified points, `attacked` inf where no flip is known.
    method : tuple of str
        What proved each point.
    stopped_because : tuple of str
        Why the proof of each point ended where it did; "closed" where nothing is left to prove.
    witness : array of shape (n, d)
        Perturbations that flip the points.
    certificates : tuple of dict
        For every point what can be checked, one certificate for each other class.
    label, predicted, target : array of shape (n,)
        True class, predicted class, and the class that the witness leads to, as positions among `classes`.
    classes : array
        Names of the classes.
    zero_gradient_share, blind_share : float
        Share of points at which the gradient vanishes, and at which plain PGD fails beyond the witness.
    seconds : float
        Average CPU time of a point.
    statement : Statement
        What the proofs are about: norm, bounds, the hashes of model and points.
    margin : array of shape (n,)
        By how much each class wins at least, where that was asked for.
    points, features, spread : optional
        The points themselves, the names of their features, and the standard deviation of each feature.
    unit : str
        "std" where radii are in standard deviations, "" where they are in the units of the points.

    Examples
    --------
    >>> import numpy as np
    >>> import featureprism as fp
    >>> bracket = fp.RadiusBracket(certified=np.array([0.5, 0.2]), attacked=np.array([0.502, 0.4]))
    >>> bracket.gap.round(3).tolist()
    [0.004, 0.5]
    >>> low, high = bracket.accuracy([0.3])
    >>> low.item(), high.item()
    (0.5, 1.0)
    """

    certified: Float[np.ndarray, " n"]
    attacked: Float[np.ndarray, " n"]
    method: tuple[str, ...] = ()
    witness: Float[np.ndarray, "n d"] | None = None
    certificates: tuple[Any, ...] = ()
    zero_gradient_share: float = math.nan
    blind_share: float = math.nan
    seconds: float = math.nan
    label: Int[np.ndarray, " n"] | None = None
    predicted: Int[np.ndarray, " n"] | None = None
    target: Int[np.ndarray, " n"] | None = None
    classes: np.ndarray | None = None
    statement: Statement | None = None
    margin: Float[np.ndarray, " n"] | None = None
    stopped_because: tuple[str, ...] = ()
    points: Float[np.ndarray, "n d"] | None = None
    features: tuple[str, ...] | None = None
    spread: Float[np.ndarray, " d"] | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        if self.certified.shape != self.attacked.shape:
            raise ValueError("Both sides of a bracket need one radius per point.")
        if np.isnan(self.certified).any() or np.isnan(self.attacked).any():
            raise ValueError("A bracket cannot hold NaN: use certified 0, attacked inf for unknown.")
        if not (self.certified <= self.attacked).all():
            worst = float((self.certified - self.attacked).max())
            raise ValueError(f"A certificate exceeds an attack by {worst:.3g}: one of them is wrong.")

    def __len__(self) -> int:
        return len(self.certified)

    @property
    def gap(self) -> Float[np.ndarray, " n"]:
        """(attacked - certified)/attacked, 0 where both are equal."""
        closed = self.certified == self.attacked
        ratio = np.divide(self.certified, self.attacked, out=np.ones_like(self.attacked), where=~closed)
        return 1 - ratio

    @property
    def half_radius(self) -> tuple[float, float]:
        """The least radius at which half of the points are broken, proven and attacked: the lower medians of both sides."""
        if not len(self):
            return math.nan, math.nan
        return lower_median(self.certified), lower_median(self.attacked)

    @property
    def half_interval(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """95 % intervals of both half radii, for points drawn like these: order statistics, exact whatever the distribution."""
        return median_interval(self.certified), median_interval(self.attacked)

    def accuracy(self, radii: Any) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Robust accuracy at each radius, as (certified, attacked): the truth lies between."""
        column = np.asarray(radii, dtype=float).reshape(-1, 1)
        certified, attacked = (self.certified > column), (self.attacked > column)
        return certified.mean(axis=1), attacked.mean(axis=1)

    @classmethod
    def joined(cls, parts: "Sequence[RadiusBracket]") -> "RadiusBracket":
        """The bracket of all points of several brackets of one model."""
        if len(parts) == 1:
            return parts[0]
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ARRAYS
            if all(getattr(part, name) is not None for part in parts)
        }
        lists = {
            name: tuple(entry for part in parts for entry in getattr(part, name))
            for name in ("method", "certificates", "stopped_because")
        }
        sizes = np.array([len(part) for part in parts])
        shares = {
            name: float(np.average([getattr(part, name) for part in parts], weights=sizes)) for name in SHARES
        }
        fields: dict[str, Any] = {**arrays, **lists, **shares}
        return cls(**fields, classes=parts[0].classes)

    def __repr__(self) -> str:
        """One line: medians, how many brackets are closed, clean accuracy, and the points nearest to breaking."""
        if not len(self):
            return "no points"
        low, high = self.half_radius
        right = self.attacked > 0
        if not right.any():
            return f"{len(self)} points: all are misclassified without any perturbation; clean accuracy 0"
        closed = (self.gap[right] <= CLOSED).mean()
        flipped = right & np.isfinite(self.attacked)
        order = np.where(flipped, self.attacked, math.inf).argsort(kind="stable")[
            : min(WORST, int(flipped.sum()))
        ]
        worst = ", ".join(f"{i} ({self.attacked[i]:.3g})" for i in order.tolist())
        tail = f"clean accuracy {right.mean():.3f}" + (
            f"; nearest to breaking: points {worst}" if worst else ""
        )
        if reason := self._not_certified():
            half = f"within {high:.4g} (attacked)" if math.isfinite(high) else "nowhere that the attack found"
            return f"{len(self)} points: half break {half}; {reason}; {tail}"
        half = f"between {low:.4g} (proven) and {high:.4g} (attacked)"
        if math.isinf(high):
            half = f"beyond {low:.4g} (proven), the attack flips {int(flipped.sum())}"
        return f"{len(self)} points: half break {half}; {closed:.0%} of the brackets closed to {CLOSED:.0%}; {tail}"

    def __str__(self) -> str:
        """The line, what moved, and what to do now."""
        lines = [repr(self)]
        if len(self) and self.norm:
            lines.append(f"Radii are {self.measure}.")
        moved = self.explain() if self.witness is not None and len(self) else None
        if moved is not None and moved.points:
            lines += ["What moved:", *(f"  {line}" for line in str(moved).splitlines())]
        if steps := self.next_steps(moved):
            lines += ["What now:", *(f"  - {step}" for step in steps)]
        return "\n".join(lines)

    @property
    def norm(self) -> float:
        """2 or inf; 0 where the bracket does not say."""
        return 0 if self.statement is None else self.statement.norm

    @property
    def measure(self) -> str:
        """What a radius measures, in words."""
        norm = {2: "ℓ2 norms", math.inf: "largest changes (ℓ∞)", 1: "ℓ1 norms"}.get(self.norm, "norms")
        units = " of changes in standard deviations" if self.unit == "std" else " of changes"
        weighted = self.statement is not None and self.statement.weights is not None and not self.unit
        return norm + units + (" times the weights of the features" if weighted else "")

    def explain(self, x: Any = None, features: Sequence[str] | None = None) -> Moved:
        """What the witnesses changed: features by name, in standard deviations, for every point and over all points.

        Parameters
        ----------
        x : array of shape (n, d), optional
            The points, for a bracket that was loaded from a file.
        features : sequence of str, optional
            Names of the features (default: the columns of the DataFrame that was given).

        Returns
        -------
        Moved
            Printed, it begins with a sentence; a notebook also shows pictures of square inputs.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> import featureprism as fp
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> bracket = fp.robust_radius(LogisticRegression(max_iter=500).fit(X, y), X[::30], y[::30])
        >>> bracket.explain().features[:2]
        ('sepal width (cm)', 'petal width (cm)')
        """
        if self.witness is None:
            raise ValueError("This bracket holds no witnesses; robust_radius makes brackets that do.")
        points = self.points if x is None else np.asarray(x, dtype=float).reshape(self.witness.shape)
        spread = self.spread if points is None or self.spread is not None else points.std(axis=0)
        names = self.features if features is None else tuple(features)
        if names is not None and len(names) != self.witness.shape[1]:
            raise ValueError(f"{len(names)} names for {self.witness.shape[1]} features.")
        words = [self._class_names(positions) for positions in (self.label, self.target)]
        return what_moved(points, self.witness, self.attacked, *words, spread=spread, names=names)

    def _class_names(self, positions: np.ndarray | None) -> list[str]:
        if positions is None:
            return [""] * len(self)
        return [str(v) for v in (positions if self.classes is None else self.classes[positions]).tolist()]

    def next_steps(self, moved: Moved | None = None) -> list[str]:
        """What the result leaves open and what can be done about it, one sentence each."""
        return next_steps(self, moved) if len(self) else []

    def _not_certified(self) -> str:
        """Why nothing is proven, where nothing but attacks has measured the points that are classified correctly."""
        of_right = {m for m, radius in zip(self.method, self.attacked.tolist(), strict=False) if radius > 0}
        reasons = sorted(m for m in of_right if m.startswith(NOT_CERTIFIED))
        return reasons[0] if reasons and len(reasons) == len(of_right) else ""

    def _repr_html_(self) -> str:
        """The line, the curve, what moved and what now, for notebooks."""
        if not len(self):
            return f"<p>{html.escape(repr(self))}</p>"
        drawing = import_module("featureprism.lab.bracket_figure").curve_as_svg(self)
        moved = None if self.witness is None else self.explain()
        shown = "" if moved is None or not moved.points else f"<h4>What moved</h4>{moved._repr_html_()}"
        steps = "".join(f"<li>{html.escape(step)}</li>" for step in self.next_steps(moved))
        now = f"<h4>What now</h4><ul>{steps}</ul>" if steps else ""
        return f"<p>{html.escape(repr(self))}</p>{drawing}{shown}{now}"

    def plot(self) -> Any:
        """Robust accuracy against radius, the truth in the band between proven and attacked; a matplotlib figure."""
        return import_module("featureprism.lab.bracket_figure").curve(self)

    def columns(self) -> dict[str, np.ndarray]:
        """index, label, predicted, target, certified, attacked, method: one row for each point, classes by name."""
        table: dict[str, np.ndarray] = {"index": np.arange(len(self))}
        for name in OF_CLASSES:
            positions = getattr(self, name)
            if positions is not None:
                table[name] = positions if self.classes is None else self.classes[positions]
        table |= {name: getattr(self, name) for name in COLUMNS}
        words = {"method": self.method, "stopped_because": self.stopped_because}
        return table | {name: np.array(values) for name, values in words.items() if values}

    def to_frame(self) -> Any:
        """The columns as a pandas DataFrame."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise ValueError("to_frame needs pandas: pip install pandas, or use columns().") from error
        return pandas.DataFrame(self.columns())

    def proofs(self) -> list[Proof]:
        """Every certificate that can be checked, with the point, the class and the target that it is about."""
        if self.label is None:
            return []
        return [
            Proof(i, int(self.label[i]), target, certificate)
            for i, of_point in enumerate(self.certificates)
            for target, certificate in of_point.items()
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
        optional = {name: getattr(self, name) for name in ("witness", "predicted", "target")}
        others = {name: value for name, value in optional.items() if value is not None}
        shares = [self.zero_gradient_share, self.blind_share]
        others |= {"method": np.array(self.method, dtype=str), "shares": np.array(shares)}
        others["seconds"] = np.array(
            self.seconds
        )  # apart: nothing else differs when the same is proven again
        others |= {
            "attacked": self.attacked,
            "stopped_because": np.array(self.stopped_because, dtype=str),
            "has_label": np.array(self.label is not None),
        }
        d = 0 if self.witness is None else self.witness.shape[1]
        statement = self.statement or Statement(np.full(d, -np.inf), np.full(d, np.inf), norm=self._norm())
        if self.classes is not None:
            statement = replace(statement, classes=self.classes.tolist())
        label = np.zeros(n, dtype=np.int64) if self.label is None else self.label
        return proof_bytes(statement, self.certified, label, self.proofs(), self.margin, others)

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
        others = file.others
        if missing := [name for name in ("attacked", "method", "shares") if name not in others]:
            raise ValueError(f"{path} is no saved bracket: it lacks {', '.join(missing)}.")
        certificates: list[dict[int, Certificate]] = [{} for _ in file.certified]
        for proof in file.proofs:
            certificates[proof.point][proof.rival] = proof.certificate
        zero, blind = others["shares"].tolist()[:2]
        has_label = bool(others.get("has_label", True))
        return cls(
            file.certified,
            others["attacked"],
            tuple(others["method"].tolist()),
            others.get("witness"),
            tuple(certificates) if has_label else (),
            zero,
            blind,
            float(others.get("seconds", math.nan)),
            label=file.label if has_label else None,
            predicted=others.get("predicted"),
            target=others.get("target", others.get("rival")),
            classes=None if file.statement.classes is None else np.array(file.statement.classes),
            statement=file.statement,
            margin=file.margin if file.margin.any() else None,
            stopped_because=tuple(others["stopped_because"].tolist()) if "stopped_because" in others else (),
        )


def lower_median(values: Float[np.ndarray, " n"]) -> float:
    """The least value that at least half of the values do not exceed."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def median_interval(values: Float[np.ndarray, " n"], level: float = 0.95) -> tuple[float, float]:
    """The exact interval of the median of what the values are drawn from: two order statistics, whatever the distribution.

    x_(k) to x_(n+1-k) with the largest k such that P(Bin(n, ½) < k) ≤ (1 - level)/2; radii are not negative, so 0 to inf for few.

    >>> median_interval(np.arange(1.0, 11.0))
    (2.0, 9.0)
    """
    n, k, ways, tail = len(values), 0, 1, 1  # ways: n over k, tail: their sum
    while tail / 2**n <= (1 - level) / 2:
        ways, k = ways * (n - k) // (k + 1), k + 1
        tail += ways
    if k == 0:
        return 0.0, math.inf
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])
