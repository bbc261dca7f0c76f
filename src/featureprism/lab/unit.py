"""One call of `measure`, known by everything its rows depend on."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from featureprism._environment import environment
from featureprism.data.images import find_source
from featureprism.lab.context import Context
from featureprism.lab.experiment import Experiment, fields_of
from featureprism.lab.rows import Row
from featureprism.lab.sources import source_hash


@dataclass(frozen=True, slots=True)  # there may be a million of them
class Unit:
    """`measure(setting, seed, context)` for one setting and seed.

    `name` says what is measured: the id of an experiment, or a function. Units of the same `affinity` profit from running in one
    process. A `tolerant` unit counts as finished whatever versions and processor measured it.
    """

    name: str
    measure: Callable[[Any, int, Context], list[Row]] = field(compare=False, repr=False)
    setting: Any
    seed: int
    fields: Row = field(compare=False)
    affinity: str = ""
    tolerant: bool = False
    _key: str = field(default="", init=False, compare=False, repr=False)

    @property
    def code(self) -> str:
        """A hash of the sources that `measure` depends on."""
        return _code(self.measure)

    @property
    def place(self) -> str:
        """A hash of what is measured, setting and seed."""
        return _hash(json.dumps([self.name, self.fields, self.seed], sort_keys=True))

    @property
    def key(self) -> str:
        """A hash of that, the sources, and what else decides the bits of its rows."""
        if not self._key:
            text = self.place + self.code + ("" if self.tolerant else environment())
            object.__setattr__(self, "_key", _hash(text))
        return self._key


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _code(measure: Callable) -> str:
    return source_hash(measure)


def unit_of(experiment: Experiment, setting: Any, seed: int, context: Context) -> Unit:
    """A unit of an experiment. A setting that names real data also says which files stand for it: its rows depend on them."""
    fields = fields_of(setting)
    if "data" in fields:
        fields["source"] = find_source(fields["data"], context.data)[0]
    affinity = f"{experiment.family} {seed}" if experiment.family else ""
    return Unit(experiment.id, experiment.measure, setting, seed, fields, affinity, context.tolerant)


def units_of(experiment: Experiment, scale: str, seeds: Sequence[int], context: Context) -> list[Unit]:
    """All units of an experiment at one scale, in the order they run."""
    settings = experiment.settings(scale)
    return [unit_of(experiment, setting, seed, context) for setting in settings for seed in seeds]
