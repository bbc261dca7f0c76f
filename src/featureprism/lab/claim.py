"""A claim is data: what is said, by whom, where, and the number that decides it. It can be read without running anything."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape

from featureprism.lab.bounds import Bound
from featureprism.lab.premise import Requires
from featureprism.lab.rate import Rate
from featureprism.lab.rows import Row, Rows, Values

ORIGINS = ("paper", "featureprism")
AGGREGATES = ("mean", "worst", "share")
SHARES = ("share ", "fraction ", "accuracy")  # a quantity that begins so lies between 0 and 1


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
        `value(rows)` gives one number for each seed, or a `Rate`, whose exponents are then judged.
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
    range : (float, float), optional
        Least and largest value that the quantity can have; (0, 1) for a quantity that begins with "share", "fraction" or "accuracy".
        A mean is at the edge of its range only when every value is, so that a mean claim which only the edge satisfies could never hold
        with an interval: it is refused.
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

    Raises
    ------
    ValueError
        For an unknown origin or aggregate, and for a bound that only the edge of the range satisfies, unless the aggregate is "worst".

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
    >>> rows = fp.lab.Rows.gather([{"seed": 0, "right": 0.97}, {"seed": 1, "right": 0.99}, {"seed": 2, "right": 0.98}])
    >>> judge(claim, rows).outcome.value
    'holds'
    """

    name: str
    source: str
    says: str
    value: Callable[[Rows], Values | Rate]
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
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"{self.name}: the origin is one of {', '.join(ORIGINS)}, got {self.origin!r}.")
        if self.aggregate not in AGGREGATES:
            raise ValueError(
                f"{self.name}: the aggregate is one of {', '.join(AGGREGATES)}, got {self.aggregate!r}."
            )
        self._check_range()

    def _check_range(self) -> None:
        """Refuse a bound that no value satisfies, or a mean that only the edge of the range does."""
        ends = self.range
        if ends is None and (self.aggregate == "share" or self.quantity.startswith(SHARES)):
            ends = (0.0, 1.0)
        if ends is None:
            return
        low, high = max(ends[0], self.bound.low), min(ends[1], self.bound.high)
        words = f"{self.name}: no value between {ends[0]:g} and {ends[1]:g} is {self.bound}"
        if low > high or (low == high and not self.bound.holds(low)):
            raise ValueError(f"{words}; choose another bound or range.")
        if low == high and self.aggregate != "worst":
            raise ValueError(
                f"{words} except {low:g} itself, and a {self.aggregate} is there only if every seed is: use "
                'aggregate="worst" for a statement about every run, or aggregate="share" with values 0 and 1 and a bound '
                "such as at_least(0.9)."
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
