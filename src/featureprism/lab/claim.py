"""A claim is data: what is said, by whom, where, and the number that decides it. It can be read without running anything."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from featureprism.lab.bounds import Bound
from featureprism.lab.rows import Rows, Values
from featureprism.records import Row

ORIGINS = ("paper", "featureprism")
AGGREGATES = ("mean", "worst", "share")


@dataclass(frozen=True)
class Regime:
    """The premises under which a theorem speaks, and how many of them hold in a run."""

    num_premises: int
    failing: tuple[str, ...]

    @property
    def inside(self) -> bool | None:
        """Whether the theorem speaks of this run; None when no premise was measured."""
        return None if self.num_premises == 0 else not self.failing

    def as_row(self) -> Row:
        """For JSON."""
        holding = self.num_premises - len(self.failing)
        return {
            "inside": self.inside,
            "premises": self.num_premises,
            "holding": holding,
            "failing": list(self.failing),
        }


@dataclass(frozen=True)
class Requires:
    """Premises by the beginning of their ids ("assumption-4-3" stands for all of its parts), in the runs with these fields."""

    ids: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def regime(self, rows: Rows) -> Regime:
        """Which of the premises hold in every run that measured them."""
        parts = rows.of("premise", **self.fields).groups("id")
        chosen = {id: part for id, part in parts.items() if self._names(id)}
        failing = tuple(id for id, part in chosen.items() if not all(row["holds"] is True for row in part))
        return Regime(len(chosen), failing)

    def _names(self, id: str) -> bool:
        return any(id == own or id.startswith(f"{own}.") for own in self.ids)


def requires(*ids: str, **fields: Any) -> Requires:
    """The premises of a theorem: `requires("assumption-2-2", "theorem-3-1.n", name="within")`."""
    return Requires(ids, fields)


@dataclass(frozen=True)
class Claim:
    """One statement with the number that decides it.

    Parameters
    ----------
    name : str
        Name within the item; the id of a claim is ITEM.NAME.
    source : str
        Where the statement stands: "Theorem 1", "Figure 2".
    says : str
        One whole sentence in the paper's direction that can be understood alone.
    value : callable
        `value(rows)` gives one number for each seed.
    bound : Bound
        What the number must satisfy.
    quantity : str
        What the number is: "ℓ2 radius at which half of the test points are broken".
    because : str
        Where the bound comes from.
    origin : {"paper", "featureprism"}
        Who makes the statement. What a paper says keeps the paper's direction, also where it fails.
    aggregate : {"mean", "worst", "share"}
        "mean": a statement about the average run, judged by the interval of the mean. "worst": a statement about every run, which one
        seed can refute. "share": values are 0 or 1, and the share of ones is judged by its exact binomial interval.
    premises : Requires
        Premises of the theorem, as `requires("assumption-2-2")`.
    formula : str
        The statement in LaTeX, where it has one.
    headline : bool
        Whether it is one of the few claims (at most seven) that the paper's abstract makes.
    reported : float, optional
        The number the paper prints.
    note : str or callable
        A remark; may depend on the rows.
    ceiling : callable, optional
        `ceiling(rows)` gives the best value that any network of this size could reach, one for each seed. Where that misses the bound,
        the verdict is "out of reach".

    Examples
    --------
    >>> import featureprism as fp
    >>> from featureprism.lab import at_least, judge
    >>> claim = fp.Claim(
    ...     "accuracy",
    ...     source="Theorem 1",
    ...     says="A trained network classifies nearly every new point correctly.",
    ...     quantity="share of test points that are classified correctly",
    ...     bound=at_least(0.9),
    ...     because="nine of ten is what we call nearly every point",
    ...     value=lambda rows: rows.per_seed("right"),
    ... )
    >>> rows = fp.Rows.gather([{"seed": 0, "right": 0.97}, {"seed": 1, "right": 0.99}, {"seed": 2, "right": 0.98}])
    >>> judge(claim, rows).outcome.value
    'holds'
    """

    name: str
    source: str
    says: str
    value: Callable[[Rows], Values]
    bound: Bound
    origin: str = "paper"
    reported: float | None = None
    note: str | Callable[[Rows], str] = ""
    premises: Requires = Requires()
    aggregate: str = "mean"
    quantity: str = ""
    because: str = ""
    formula: str = ""
    headline: bool = False
    ceiling: Callable[[Rows], Values] | None = None

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"{self.name}: the origin is one of {', '.join(ORIGINS)}, got {self.origin!r}.")
        if self.aggregate not in AGGREGATES:
            raise ValueError(
                f"{self.name}: the aggregate is one of {', '.join(AGGREGATES)}, got {self.aggregate!r}."
            )

    def as_row(self) -> Row:
        """What can be said of it before any run."""
        return {
            "name": self.name,
            "origin": self.origin,
            "source": self.source,
            "says": self.says,
            "quantity": self.quantity,
            "because": self.because,
            "formula": self.formula,
            "headline": self.headline,
            "relation": self.bound.relation,
            "bound": self.bound.value,
            "aggregate": self.aggregate,
            "reported": self.reported,
            "premises": list(self.premises.ids),
            "note": self.note if isinstance(self.note, str) else "",
        }

    def _repr_html_(self) -> str:
        """Who says what, where, and the bound, for notebooks."""
        who = "the paper" if self.origin == "paper" else "featureprism"
        return f"<p><b>{escape(self.name)}</b> ({escape(self.source)}; {who}): {escape(self.says)} [{escape(str(self.bound))}]</p>"


def check_names(claims: Iterable[Claim]) -> None:
    """Refuse two claims of one name."""
    seen: set[str] = set()
    for claim in claims:
        if claim.name in seen:
            raise ValueError(f"Two claims are called '{claim.name}'.")
        seen.add(claim.name)
