"""A claim is data: what is said, by whom, where, and the number that decides it. It can be read without running anything."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from featureprism.experiment.bounds import Bound
from featureprism.experiment.rows import Rows, Values
from featureprism.records import Row


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
class Under:
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


def under(*ids: str, **fields: Any) -> Under:
    """The premises of a theorem: `under("assumption-2-2", "theorem-3-1.n", name="within")`."""
    return Under(ids, fields)


@dataclass(frozen=True)
class Claim:
    """One statement with the number that decides it.

    `speaker="paper"`: what the paper says, in its own direction, also where it fails; "ours": a finding or a sharp law that is not
    printed. `value(rows)` gives one number per seed. `over`: "mean" for a statement about the average run, judged by the interval of
    the mean; "every seed" for a worst case, which one seed can refute. `reported`: the number the paper prints, if it prints one.
    `note` may depend on the rows.

    >>> import featureprism as fp
    >>> from featureprism.experiment import at_least, judge
    >>> claim = fp.Claim("accuracy", "Theorem 1", "every point is right", lambda rows: rows.per_seed("right"), at_least(0.9))
    >>> rows = fp.Rows.gather([{"seed": 0, "right": 0.97}, {"seed": 1, "right": 0.99}, {"seed": 2, "right": 0.98}])
    >>> judge(claim, rows).outcome.value
    'holds'
    """

    name: str
    source: str
    statement: str
    value: Callable[[Rows], Values]
    bound: Bound
    speaker: str = "paper"
    reported: float | None = None
    note: str | Callable[[Rows], str] = ""
    premises: Under = Under()
    over: str = "mean"

    def __post_init__(self) -> None:
        if self.speaker not in ("paper", "ours"):
            raise ValueError(f"{self.name}: the speaker is 'paper' or 'ours', got {self.speaker!r}.")
        if self.over not in ("mean", "every seed"):
            raise ValueError(f"{self.name}: judged over 'mean' or 'every seed', got {self.over!r}.")

    def as_row(self) -> Row:
        """What can be said of it before any run."""
        return {
            "name": self.name,
            "speaker": self.speaker,
            "source": self.source,
            "statement": self.statement,
            "relation": self.bound.relation,
            "bound": self.bound.value,
            "over": self.over,
            "reported": self.reported,
            "premises": list(self.premises.ids),
            "note": self.note if isinstance(self.note, str) else "",
        }

    def _repr_html_(self) -> str:
        """Who says what, where, and the bound, for notebooks."""
        who = "the paper" if self.speaker == "paper" else "ours"
        return f"<p><b>{escape(self.name)}</b> ({escape(self.source)}; {who}): {escape(self.statement)} [{escape(str(self.bound))}]</p>"


def check_names(claims: Iterable[Claim]) -> None:
    """Refuse two claims of one name."""
    seen: set[str] = set()
    for claim in claims:
        if claim.name in seen:
            raise ValueError(f"Two claims are called '{claim.name}'.")
        seen.add(claim.name)
