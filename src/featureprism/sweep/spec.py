"""What to sweep: an item of a paper or a function of one's own, over a grid, a list or random draws of settings, and seeds.

In Python a `Sweep` is put together from `grid`, `draws` and `of_item`; `read_spec` reads the same from a TOML file.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any

import torch

from featureprism.papers import PAPERS
from featureprism.records import Experiment, Progress, Row, silent
from featureprism.seeds import generator_for
from featureprism.sweep.runner import content_hash, with_source
from featureprism.sweep.work import Limits, Measure, Task

FAILED, OLD_CODE = "failed", "old code"  # what `rerun` may name


@dataclass(frozen=True)
class Budget:
    """When to stop starting tasks: after so many seconds, or so many tasks; what is left waits for the next call."""

    seconds: float = math.inf
    tasks: float = math.inf


@dataclass(frozen=True)
class Sweep:
    """Everything that is asked of a sweep. `what` names what is swept; `measure(setting, seed)` returns flat rows.

    A finished task is never run twice, unless `rerun` names "failed" (those that failed) or "old code" (those that other code ran).
    """

    what: str
    measure: Measure
    settings: Sequence[Row]
    seeds: Sequence[int] = (0,)
    limits: Limits = field(default_factory=Limits)
    budget: Budget = field(default_factory=Budget)
    rerun: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.settings:
            raise ValueError("There is no setting to run: the grid or list is empty.")
        if not self.seeds:
            raise ValueError("There is no seed to run.")

    def tasks(self) -> list[Task]:
        """Setting × seed, each once, in order."""
        found = {}
        for setting, seed in itertools.product(self.settings, self.seeds):
            key = content_hash([self.what, setting, seed])[:16]
            found.setdefault(key, Task(key, dict(setting), seed))
        return list(found.values())


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
    points: Sequence[Row] = ({},),
    *,
    scale: str = "quick",
    where: Mapping[str, Any] | None = None,
    **options: Any,
) -> Sweep:
    """Sweep an item of a paper: each of its settings at a scale that has the values `where`, with those of each point put in.

    `options` are those of `Sweep`: seeds, limits, budget, rerun.
    """
    experiment = item_called(name)
    if scale not in experiment.scales:
        raise ValueError(f"Unknown scale {scale!r}; choose one of {', '.join(experiment.scales)}.")
    where = where or {}
    known = list(dict.fromkeys(p for setting in experiment.scales[scale] for p in setting))
    for parameter in itertools.chain(where, *points):
        if parameter not in known:
            raise ValueError(f"{name} has no parameter '{parameter}'. {did_you_mean(parameter, known)}")
    bases = [s for s in experiment.scales[scale] if all(s.get(k) == v for k, v in where.items())]
    if not bases:
        raise ValueError(f"No setting of {name} at scale {scale} has {dict(where)}.")
    settings = [with_source({**base, **_like(base, point, name)}) for point in points for base in bases]
    return Sweep(name, partial(_measured, experiment.measure), settings, **options)


def of_function(measure: Measure, settings: Sequence[Row], *, name: str = "", **options: Any) -> Sweep:
    """Sweep one's own `measure(setting, seed) -> rows`; `options` are those of `Sweep`."""
    return Sweep(name or f"{measure.__module__}:{measure.__qualname__}", measure, settings, **options)


def item_called(name: str) -> Experiment:
    """An experiment by its id."""
    everything = {e.id: e for experiments in PAPERS.values() for e in experiments}
    if name not in everything:
        raise ValueError(f"No item is called '{name}'. {did_you_mean(name, everything)}")
    return everything[name]


def did_you_mean(name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    """The nearest known name as a question, or all of them."""
    near = get_close_matches(str(name), list(known), n=1, cutoff=0.3)
    return f"Did you mean '{near[0]}'?" if near else f"Choose from: {', '.join(known)}."


def _measured(measure: Callable[[Row, int, Progress], list[Row]], setting: Row, seed: int) -> list[Row]:
    return measure(setting, seed, silent)


def _like(base: Row, point: Row, name: str) -> Row:
    """The point's values in the types of the base; a wrong type is refused."""
    return {
        key: _as(base[key], value, f"{key} of {name}") if key in base else value
        for key, value in point.items()
    }


def _as(model: Any, value: Any, name: str) -> Any:
    if isinstance(model, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(model):
        words = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
        raise ValueError(f"{name} must be {words[type(model)]}, got {value!r}.")
    return value
