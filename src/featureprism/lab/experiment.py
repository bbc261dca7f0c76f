"""A figure or theorem of a paper as something that can be run, and a paper as a set of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from featureprism.context import Context
from featureprism.lab.claim import Claim, check_names
from featureprism.lab.rows import Row, Rows
from featureprism.lab.verdict import Verdict, judge, of_one_draw

SCALES = ("quick", "standard", "paper")
Measure = Callable[[Any, int, Context], list[Row]]


@dataclass(frozen=True)
class Experiment:
    """`measure(setting, seed, context)` returns flat rows and depends on nothing else; claims judge them; drawing is the report's.

    `scales` maps quick, standard and paper to the settings that each runs: frozen dataclasses. `family`: experiments of one family
    use what others of it have computed in the same process, so that their units of one seed are better off on one worker. `long`:
    minutes even at the quick scale; run when named, or with --long. `foretell(setting, context)`: seconds of a unit on this machine,
    from a step that is timed; told before a run above the quick scale starts. `is_one_draw(rows)`: whether the seeds of a run share
    what the claims speak of, such as the weights of one training; then they count as one, and decide nothing. `draw(rows)` gives a
    matplotlib figure.

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
    >>> rows = fp.Rows.gather(row for seed in range(3) for row in item.measure(Setting(100), seed, None))
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
    long: bool = False
    foretell: Callable[[Any, Context], float] | None = None
    is_one_draw: Callable[[Rows], bool] | None = None
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

    def judge(self, rows: Rows) -> list[Verdict]:
        """Every claim beside what was measured."""
        verdicts = [self._judged(claim, rows) for claim in self.claims]
        if self.is_one_draw is None or not self.is_one_draw(rows):
            return verdicts
        return [of_one_draw(verdict) for verdict in verdicts]

    def _judged(self, claim: Claim, rows: Rows) -> Verdict:
        try:
            return judge(claim, rows, self.claim_id(claim))
        except Exception as error:  # whatever the function of a claim raises
            told = f"{type(error).__name__}: {error}"
            raise ValueError(
                f"The claim {self.claim_id(claim)} of {self.id} cannot be judged: {told}"
            ) from error

    def claim_id(self, claim: Claim) -> str:
        """ITEM.NAME."""
        return f"{self.item}.{claim.name}"


@dataclass(frozen=True)
class Paper:
    """Experiments under one name. `drawings`: by item, functions of the rows that give a matplotlib figure, for papers from outside.

    >>> import featureprism as fp
    >>> fp.Paper("my-paper", "Me 2026", experiments=()).name
    'my-paper'
    """

    name: str
    citation: str
    experiments: tuple[Experiment, ...]
    drawings: Mapping[str, Callable[[Rows], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for experiment in self.experiments:
            if experiment.paper != self.name:
                raise ValueError(f"{experiment.id} does not belong to the paper '{self.name}'.")


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
