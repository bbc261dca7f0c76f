"""A figure or theorem of a paper as something that can be run, and a paper as a set of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from featureprism._suggest import did_you_mean
from featureprism.lab.claim import Claim, check_names
from featureprism.lab.context import Context
from featureprism.lab.letters import read_letters
from featureprism.lab.looks import Looks
from featureprism.lab.rows import Row, Rows
from featureprism.lab.theorem import Theorem
from featureprism.lab.verdict import Verdict, as_one_draw, judge

SCALES = ("quick", "standard", "paper")
HEADLINES = 7  # claims that the abstract of a paper makes, at most
Measure = Callable[[Any, int, Context], list[Row]]


@dataclass(frozen=True)
class Experiment:
    """A figure or theorem of a paper as something that can be run.

    Parameters
    ----------
    id : str
        PAPER/ITEM.
    source, title, about : str
        Where it stands, what it is called, and a paragraph about it.
    scales : mapping
        Settings (frozen dataclasses or dictionaries) that run at "quick", "standard" and "paper".
    measure : callable
        `measure(setting, seed, context)` returns flat rows and depends on nothing else.
    claims : tuple of Claim
        What the rows decide.
    family : str
        Experiments of one family use what others of it have computed in the same process, so that their units of one seed run on one
        worker where possible.
    slow : bool
        Takes minutes even at the quick scale; runs when named, or with --slow.
    shared_weights : callable, optional
        `shared_weights(rows)`: whether the seeds of a run share the weights of one training; then they count as one draw, and decide
        nothing.
    draw : callable, optional
        `draw(rows)` gives a matplotlib figure.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import featureprism as fp
    >>> from featureprism.lab import below
    >>> @dataclass(frozen=True)
    ... class Setting:
    ...     size: int
    >>> def measure(setting, seed, context):
    ...     return [{"seed": seed, "error": setting.size ** -0.5}]
    >>> error = fp.Claim("error", "Theorem 1", "the error is small", lambda rows: rows.per_seed("error"), below(0.2))
    >>> item = fp.Experiment("my-paper/theorem-1", "Me 2026, Theorem 1", "Errors fall", {"quick": [Setting(100)]}, measure, (error,))
    >>> rows = fp.lab.Rows.gather(row for seed in range(3) for row in item.measure(Setting(100), seed, None))
    >>> [verdict.outcome.value for verdict in item.judge(rows)]
    ['holds']
    """

    id: str
    source: str
    title: str
    scales: Mapping[str, Sequence[Any]]
    measure: Measure
    claims: tuple[Claim, ...]
    about: str = ""
    family: str = ""
    slow: bool = False
    shared_weights: Callable[[Rows], bool] | None = None
    draw: Callable[[Rows], Any] | None = None

    def __post_init__(self) -> None:
        if self.id.count("/") != 1:
            raise ValueError(f"An experiment is called PAPER/ITEM, got '{self.id}'.")
        if unknown := set(self.scales) - set(SCALES):
            raise ValueError(
                f"{self.id}: unknown scales {', '.join(sorted(unknown))}; known: {', '.join(SCALES)}."
            )
        check_names(self.claims)

    @property
    def paper(self) -> str:
        """The paper it belongs to."""
        return self.id.partition("/")[0]

    @property
    def item(self) -> str:
        """Its name within the paper."""
        return self.id.partition("/")[2]

    def settings(self, scale: str) -> Sequence[Any]:
        """What runs at a scale."""
        if scale not in self.scales:
            raise ValueError(f"{self.id} has no scale {scale!r}; choose one of {', '.join(self.scales)}.")
        return self.scales[scale]

    def judge(self, rows: Rows, looks: Looks | None = None) -> list[Verdict]:
        """Every claim beside what was measured; with `looks` by the first look that decides."""
        verdicts = [self._judged(claim, rows, looks) for claim in self.claims]
        if self.shared_weights is None or not self.shared_weights(rows):
            return verdicts
        return [as_one_draw(verdict) for verdict in verdicts]

    def _judged(self, claim: Claim, rows: Rows, looks: Looks | None) -> Verdict:
        id = self.claim_id(claim)
        try:
            return judge(claim, rows, id) if looks is None else looks.judge(claim, rows, id)
        except Exception as error:  # whatever the function of a claim raises
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"The claim {id} of {self.id} cannot be judged: {reason}") from error

    def with_settings(self, scale: str, changes: Mapping[str, Any]) -> "Experiment":
        """The experiment with other values in every setting of a scale; a field that none of them has is refused."""
        if not changes:
            return self
        settings = self.settings(scale)
        known = list(dict.fromkeys(name for setting in settings for name in fields_of(setting)))
        for name in changes:
            if name not in known:
                raise ValueError(f"{self.id} has no setting '{name}'. {did_you_mean(name, known)}")
        other = [changed(setting, changes, self.id) for setting in settings]
        unique = [setting for i, setting in enumerate(other) if setting not in other[:i]]
        return replace(self, scales={scale: unique})

    def claim_id(self, claim: Claim) -> str:
        """ITEM.NAME."""
        return f"{self.item}.{claim.name}"


@dataclass(frozen=True)
class Paper:
    """Experiments under one name.

    Parameters
    ----------
    name : str
        As in PAPER/ITEM.
    citation : str
        Authors, title, place, year.
    experiments : tuple of Experiment
        In reading order.
    theorems : tuple of Theorem
        Whose premises sizes decide, for `featureprism premises`.
    story : path, optional
        A Markdown file that tells the paper to somebody who has not read it (see `featureprism.lab.story`). A file `letters.md`
        beside it explains the letters of the paper's claims (see `featureprism.lab.letters`).

    Examples
    --------

    >>> import featureprism as fp
    >>> fp.Paper("my-paper", "Me 2026", experiments=()).name
    'my-paper'
    """

    name: str
    citation: str
    experiments: tuple[Experiment, ...]
    theorems: tuple[Theorem, ...] = ()
    story: Path | None = None

    @property
    def reference(self) -> str:
        """The first paragraph of the citation, on one line."""
        return " ".join(self.citation.strip().partition("\n\n")[0].split())

    @property
    def letters(self) -> dict[str, str]:
        """What the letters of the claims stand for; empty where no file says it."""
        path = self.story.with_name("letters.md") if self.story else None
        return read_letters(path) if path and path.is_file() else {}

    def __post_init__(self) -> None:
        for experiment in self.experiments:
            if experiment.paper != self.name:
                raise ValueError(f"{experiment.id} does not belong to the paper '{self.name}'.")
        headlines = [claim.name for e in self.experiments for claim in e.claims if claim.headline]
        if len(headlines) > HEADLINES:
            raise ValueError(
                f"{self.name} has {len(headlines)} headline claims ({', '.join(headlines)}); choose at most {HEADLINES}."
            )


def fields_of(setting: Any) -> Row:
    """A setting as a flat row: the fields of a dataclass, or a dictionary as it is."""
    if is_dataclass(setting):
        return {f.name: getattr(setting, f.name) for f in fields(setting)}
    return dict(setting)


def changed(setting: Any, changes: Mapping[str, Any], name: str = "the setting") -> Any:
    """The setting with other values, in the types of the old ones; what does not fit is refused."""
    known = fields_of(setting)
    new = {
        key: _like(known[key], value, f"{key} of {name}") for key, value in changes.items() if key in known
    }
    return replace(setting, **new) if is_dataclass(setting) else {**setting, **new}  # type: ignore[type-var]


def _like(model: Any, value: Any, name: str) -> Any:
    if isinstance(model, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(model) is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e6
    if isinstance(model, tuple) and isinstance(value, list):
        return tuple(value)
    if type(value) is not type(model):
        words = {
            int: "a whole number",
            float: "a number",
            str: "a word",
            bool: "true or false",
            tuple: "a list",
        }
        raise ValueError(f"{name} must be {words.get(type(model), type(model).__name__)}, got {value!r}.")
    return value
