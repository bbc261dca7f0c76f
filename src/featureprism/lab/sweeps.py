"""Sweeps: an item of a paper or a function, over a grid, a list or random draws of settings, and seeds.

In Python a `Sweep` is put together from `grid`, `draws` and `of_item`; `read_spec` reads the same from a TOML file.
"""

import itertools
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from featureprism._files import as_json, prepare_folder, write_whole
from featureprism._suggest import did_you_mean
from featureprism.lab.context import Context
from featureprism.lab.engine import Remark, Rules, Step, Summary, UnitEnded, last, unit_events
from featureprism.lab.executors import Executor
from featureprism.lab.experiment import Experiment, Measure, changed, fields_of
from featureprism.lab.registry import item_called
from featureprism.lab.rows import Row, Rows
from featureprism.lab.store import Store
from featureprism.lab.unit import Unit, unit_of
from featureprism.lab.verdict import Verdict
from featureprism.lab.work import DONE
from featureprism.seeds import generator_for

SimpleMeasure = Callable[[Row, int], list[Row]]  # takes a setting as a dictionary, and a seed


@dataclass(frozen=True, slots=True)
class GridPoint:
    """One setting to measure, and the changes that it was made with."""

    setting: Any
    changes: Row


@dataclass(frozen=True)
class Sweep:
    """What a sweep runs: an experiment, or a function under a name, at many points."""

    name: str
    source: Experiment | SimpleMeasure
    points: Sequence[GridPoint]
    seeds: Sequence[int] = (0,)
    rules: Rules = field(default_factory=lambda: Rules(retry=False))

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("There is no setting to run: the grid or list is empty.")
        if not self.seeds:
            raise ValueError("There is no seed to run.")

    def units(self, context: Context) -> Iterator[Unit]:
        """Setting × seed, in order."""
        return (self.unit(p.setting, seed, context) for p in self.points for seed in self.seeds)

    def unit(self, setting: Any, seed: int, context: Context) -> Unit:
        """One of its units."""
        if isinstance(self.source, Experiment):
            return unit_of(self.source, setting, seed, context)
        return Unit(self.name, self._measure, setting, seed, setting, tolerant=context.tolerant)

    @cached_property
    def _measure(self) -> Measure:
        assert not isinstance(self.source, Experiment)
        return partial(_measured, self.source)


def _measured(measure: SimpleMeasure, setting: Row, seed: int, _context: Context) -> Any:
    return measure(dict(setting), seed)


@dataclass(frozen=True)
class Between:
    """A random value from low to high, evenly or evenly in its logarithm; a whole number if both ends are."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low <= self.high or (self.log and self.low <= 0):
            raise ValueError(
                f"Cannot draw from {self.low} to {self.high}{' on a log scale' if self.log else ''}."
            )

    def draw(self, num: int, generator: torch.Generator) -> list[float]:
        """`num` values."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        # a whole number owns the unit around it, so that both ends come as often as the rest
        low, high = (self.low - 0.5, self.high + 0.5) if whole else (self.low, self.high)
        share = torch.rand(num, generator=generator, dtype=torch.float64)
        values = low * (high / low) ** share if self.log else low + (high - low) * share
        return [min(max(round(v), self.low), self.high) if whole else v for v in values.tolist()]


def grid(**values: Sequence[Any]) -> list[Row]:
    """Every combination of the values.

    Parameters
    ----------
    **values : sequences
        Values of each parameter, by its name.

    Returns
    -------
    list of dict
        One setting for each combination, the last name varying fastest.

    Examples
    --------
    >>> from featureprism.lab import grid
    >>> grid(alpha=[0.1, 0.2], p=[3])
    [{'alpha': 0.1, 'p': 3}, {'alpha': 0.2, 'p': 3}]
    """
    for name, choices in values.items():
        if len(choices) == 0:
            raise ValueError(f"The grid is empty: {name} has no values.")
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def draws(num: int, seed: int = 0, **values: Between | Sequence[Any]) -> list[Row]:
    """`num` random settings; every name has a generator to itself, so that one more name leaves the others as they were."""
    columns = {}
    for name, choices in values.items():
        generator = generator_for(f"draws of {name}", seed)
        if isinstance(choices, Between):
            columns[name] = choices.draw(num, generator)
        elif len(choices) == 0:
            raise ValueError(f"There is nothing to draw {name} from.")
        else:
            places = torch.randint(len(choices), (num,), generator=generator).tolist()
            columns[name] = [choices[i] for i in places]
    return [dict(zip(columns, point, strict=True)) for point in zip(*columns.values(), strict=True)]


def of_item(
    name: str,
    changes: Sequence[Row] = ({},),
    *,
    scale: str = "quick",
    where: Mapping[str, Any] | None = None,
    **options: Any,
) -> Sweep:
    """Plan a sweep of an item of a paper: each of its settings at a scale, with each of the changes.

    Parameters
    ----------
    name : str
        PAPER/ITEM.
    changes : sequence of dict
        Changes of the settings, for instance of `grid`.
    scale : str
        Scale whose settings are changed.
    where : mapping, optional
        Keep only the settings with these values.
    **options
        Fields of `Sweep`, such as `seeds` and `rules`.

    Returns
    -------
    Sweep
        What `sweep` runs.

    Examples
    --------
    >>> import featureprism as fp
    >>> plan = fp.lab.of_item('gmm-flow/figure-4', fp.lab.grid(alpha=[0.2, 0.1]), seeds=range(2))
    >>> len(plan.seeds)
    2
    """
    experiment, where = item_called(name), where or {}
    settings = experiment.settings(scale)
    known = list(dict.fromkeys(field for setting in settings for field in fields_of(setting)))
    for parameter in itertools.chain(where, *changes):
        if parameter not in known:
            raise ValueError(f"{name} has no parameter '{parameter}'. {did_you_mean(parameter, known)}")
    bases = [s for s in settings if all(fields_of(s).get(k) == v for k, v in where.items())]
    if not bases:
        raise ValueError(f"No setting of {name} at scale {scale} has {dict(where)}.")
    points = [GridPoint(changed(base, change, name), dict(change)) for change in changes for base in bases]
    return Sweep(name, experiment, points, **options)


def of_function(measure: SimpleMeasure, settings: Sequence[Row], *, name: str = "", **options: Any) -> Sweep:
    """Plan a sweep of a function.

    Parameters
    ----------
    measure : callable
        `measure(setting, seed)` returns a list of flat dictionaries.
    settings : sequence of dict
        Settings, for instance of `grid`.
    name : str
        Name of the sweep; by default that of the function.
    **options
        Fields of `Sweep`, such as `seeds` and `rules`.

    Returns
    -------
    Sweep
        What `sweep` runs.

    Examples
    --------
    >>> import featureprism as fp
    >>> plan = fp.lab.of_function(lambda setting, seed: [{'double': 2 * setting['a']}], fp.lab.grid(a=[1, 2]), name='double')
    >>> plan.name
    'double'
    """
    points = [GridPoint(setting, setting) for setting in settings]
    return Sweep(name or f"{measure.__module__}:{measure.__qualname__}", measure, points, **options)


@dataclass(frozen=True)
class PointVerdicts:
    """The verdicts of an item at one point of a sweep, or why it could not be judged there."""

    changes: Row
    verdicts: list[Verdict]
    problem: str = ""

    def as_row(self) -> Row:
        """For claims.json."""
        row: Row = {"point": self.changes, "claims": [verdict.as_row() for verdict in self.verdicts]}
        return row | ({"not judged": self.problem} if self.problem else {})


def sweep(plan: Sweep, out: Path, executor: Executor, *, context: Context = Context()) -> Summary:
    """Run what is missing of a sweep, and keep every result as soon as it is there.

    Parameters
    ----------
    plan : Sweep
        What to run.
    out : path
        Folder in which results are kept.
    executor : Serial, Local or Cluster
        Where units run.
    context : Context, optional
        Data folder and device.

    Returns
    -------
    Summary
        How many units finished, failed or are left.
    """
    return last(sweep_events(plan, out, executor, context=context))


def sweep_events(
    plan: Sweep, out: Path, executor: Executor, *, context: Context = Context()
) -> Generator[Step | UnitEnded | Remark, None, Summary]:
    """Run what is missing and keep it in `out`; claims.json there judges an item of a paper at every finished point.

    A grid may leave out what a claim compares: such a point is written down as not judged, with the reason.
    """
    prepare_folder(out)
    yield Step(0, len(plan.points) * len(plan.seeds), is_plan=True)  # to open a large store takes seconds
    with Store(out, write=True) as store:
        summary = yield from unit_events(
            store,
            plan.units(context),
            executor,
            context=context,
            rules=plan.rules,
            total=len(plan.points) * len(plan.seeds),
        )
        if isinstance(plan.source, Experiment):
            points = [point.as_row() for point in judge_points(plan, plan.source, store, context)]
            write_whole(out / "claims.json", as_json(points, indent=1))
    return summary


def judge_points(
    plan: Sweep, experiment: Experiment, store: Store, context: Context = Context()
) -> Iterator[PointVerdicts]:
    """The claims at every point whose units are all there."""
    groups: dict[str, list[GridPoint]] = {}
    for point in plan.points:
        groups.setdefault(json.dumps(point.changes, sort_keys=True), []).append(point)
    for points in groups.values():
        settings = [point.setting for i, point in enumerate(points) if point not in points[:i]]
        units = [plan.unit(setting, seed, context) for setting in settings for seed in plan.seeds]
        statuses = store.statuses(units)
        if all(statuses.get(unit.key) == DONE for unit in units):
            yield _judged(points[0].changes, experiment, Rows.gather(store.rows_of(units)))


def _judged(changes: Row, experiment: Experiment, rows: Rows) -> PointVerdicts:
    verdicts, problems = [], []
    for claim in experiment.claims:
        try:
            verdicts += replace(experiment, claims=(claim,)).judge(rows)
        except ValueError as error:
            problems.append(str(error))
    return PointVerdicts(changes, verdicts, problems[0] if problems else "")
