"""One call of `measure`, known by everything its rows depend on."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib.metadata import version
from typing import Any

from featureprism.data.images import find_source
from featureprism.files import content_hash
from featureprism.lab.context import Context
from featureprism.lab.experiment import Experiment, fields_of
from featureprism.lab.rows import Row
from featureprism.lab.sources import source_hash

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")  # whose versions rows may depend on


@dataclass(frozen=True)
class Unit:
    """`measure(setting, seed, context)` for one setting and seed.

    `name` says what is measured: the id of an experiment, or a function. Units of the same `affinity` profit from running in one
    process.
    """

    name: str
    measure: Callable[[Any, int, Context], list[Row]] = field(compare=False, repr=False)
    setting: Any
    seed: int
    fields: Row = field(compare=False)
    affinity: str = ""

    @cached_property
    def code(self) -> str:
        """A hash of the sources that `measure` depends on."""
        return _code(self.measure)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of what else it depends on."""
        return versions()

    @cached_property
    def key(self) -> str:
        """A hash of what is measured, setting, seed, sources and versions."""
        return content_hash([self.name, self.fields, self.seed, self.code, self.versions])[:16]


@cache
def _code(measure: Callable) -> str:
    return source_hash(measure)


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Python and the packages that rows may depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def unit_of(experiment: Experiment, setting: Any, seed: int, context: Context) -> Unit:
    """A unit of an experiment. A setting that names real data also says which files stand for it: its rows depend on them."""
    fields = fields_of(setting)
    if "data" in fields:
        fields["source"] = find_source(fields["data"], context.data)[0]
    affinity = f"{experiment.family} {seed}" if experiment.family else ""
    return Unit(experiment.id, experiment.measure, setting, seed, fields, affinity)


def units_of(experiment: Experiment, scale: str, seeds: Sequence[int], context: Context) -> list[Unit]:
    """All units of an experiment at one scale, in the order they run."""
    settings = experiment.settings(scale)
    return [unit_of(experiment, setting, seed, context) for setting in settings for seed in seeds]
