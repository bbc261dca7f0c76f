"""What to sweep: an item of a paper or a function of one's own, over a grid, a list or random draws of settings, and seeds.

In Python a `Sweep` is put together from `grid`, `draws` and `of_item`; `read_spec` reads the same from a TOML file.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from featureprism.context import Context
from featureprism.lab import Experiment, changed, fields_of
from featureprism.papers import item_called
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.suggest import did_you_mean
from featureprism.sweep.engine import Rules
from featureprism.sweep.unit import Unit, unit_of

OwnMeasure = Callable[[Row, int], list[Row]]  # a function of one's own: a setting as a dictionary, and a seed


@dataclass(frozen=True)
class Point:
    """One setting to measure, and the changes that it was made with."""

    setting: Any
    changes: Row


@dataclass(frozen=True)
class Sweep:
    """Everything that is asked of a sweep: an experiment, or a function of one's own under a name, at many points."""

    what: str
    source: Experiment | OwnMeasure
    points: Sequence[Point]
    seeds: Sequence[int] = (0,)
    rules: Rules = field(default_factory=lambda: Rules(retry=False))

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("There is no setting to run: the grid or list is empty.")
        if not self.seeds:
            raise ValueError("There is no seed to run.")

    def units(self, context: Context) -> list[Unit]:
        """Setting × seed, each once, in order."""
        return [self.unit(p.setting, seed, context) for p, seed in itertools.product(self.points, self.seeds)]

    def unit(self, setting: Any, seed: int, context: Context) -> Unit:
        """One of its units."""
        if isinstance(self.source, Experiment):
            return unit_of(self.source, setting, seed, context)
        return Unit(self.what, partial(_measured, self.source), setting, seed, fields_of(setting))


def _measured(measure: OwnMeasure, setting: Row, seed: int, _context: Context) -> Any:
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
    """Every combination of the values, the last name varying fastest."""
    for name, own in values.items():
        if len(own) == 0:
            raise ValueError(f"The grid is empty: {name} has no values.")
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def draws(num: int, seed: int = 0, **values: Between | Sequence[Any]) -> list[Row]:
    """`num` random settings; every name has its own generator, so that one more name leaves the others as they were."""
    columns = {}
    for name, own in values.items():
        generator = generator_for(f"draws of {name}", seed)
        if isinstance(own, Between):
            columns[name] = own.draw(num, generator)
        elif len(own) == 0:
            raise ValueError(f"There is nothing to draw {name} from.")
        else:
            places = torch.randint(len(own), (num,), generator=generator).tolist()
            columns[name] = [own[i] for i in places]
    return [dict(zip(columns, point, strict=True)) for point in zip(*columns.values(), strict=True)]


def of_item(
    name: str,
    changes: Sequence[Row] = ({},),
    *,
    scale: str = "quick",
    where: Mapping[str, Any] | None = None,
    **options: Any,
) -> Sweep:
    """Sweep an item of a paper: each of its settings at a scale that has the values `where`, changed in every way asked for.

    `options` are those of `Sweep`: seeds, rules.
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
    points = [Point(changed(base, change, name), dict(change)) for change in changes for base in bases]
    return Sweep(name, experiment, points, **options)


def of_function(measure: OwnMeasure, settings: Sequence[Row], *, name: str = "", **options: Any) -> Sweep:
    """Sweep one's own `measure(setting, seed) -> rows`; `options` are those of `Sweep`."""
    points = [Point(dict(setting), dict(setting)) for setting in settings]
    return Sweep(name or f"{measure.__module__}:{measure.__qualname__}", measure, points, **options)
