"""A sweep from a TOML file. docs/sweeps.md describes the fields."""

import importlib.util
import sys
import tomllib
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from featureprism._suggest import did_you_mean
from featureprism.lab.engine import Budget, Rules
from featureprism.lab.rows import Row
from featureprism.lab.sweeps import Between, SimpleMeasure, Sweep, draws, grid, of_function, of_item
from featureprism.lab.work import Limits

FAILED = "failed"  # what `rerun` may name
KINDS = ("grid", "list", "random")
FIELDS = ("item", "function", "scale", "where", "seeds", "fixed", *KINDS, "limits", "budget", "rerun")
NUMBER, WHOLE = (int, float), (int,)


def read_spec(path: Path) -> Sweep:
    """The sweep that a TOML file describes.

    Parameters
    ----------
    path : path
        A TOML file.

    Returns
    -------
    Sweep
        What `sweep` runs.

    Raises
    ------
    ValueError
        If the file is not a valid description.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import featureprism as fp
    >>> with TemporaryDirectory() as folder:
    ...     spec = Path(folder) / 'spec.toml'
    ...     _ = spec.write_text('item = "gmm-flow/figure-4"')
    ...     plan = fp.lab.read_spec(spec)
    >>> plan.name
    'gmm-flow/figure-4'
    """
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not TOML: it is not written in UTF-8.") from error
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror}.") from error
    try:
        return _sweep(table, path.parent)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _sweep(table: Row, folder: Path) -> Sweep:
    _only(table, FIELDS, "the spec")
    if ("item" in table) == ("function" in table):
        raise ValueError('Say what to sweep: item = "PAPER/ITEM" or function = "FILE.py:NAME".')
    points = [{**_flat(table, "fixed"), **point} for point in _points(table)]
    rules = Rules(
        Limits(**_numbers(table, "limits", {"seconds": NUMBER, "memory_mb": NUMBER})),
        Budget(**_numbers(table, "budget", {"seconds": NUMBER, "units": WHOLE})),
        _retries(table.get("rerun", [])),
    )
    options: dict[str, Any] = {"seeds": _seeds(table.get("seeds", 1)), "rules": rules}
    if "item" in table:
        options |= {
            "scale": _typed(table.get("scale", "quick"), str, "scale"),
            "where": _flat(table, "where"),
        }
        return of_item(_typed(table["item"], str, "item"), points, **options)
    for name in ("scale", "where"):
        if name in table:
            raise ValueError(f"'{name}' chooses settings of an item; a function has none: use fixed.")
    name = _typed(table["function"], str, "function")
    return of_function(load_function(name, folder), points, name=name, **options)


def load_function(name: str, folder: Path) -> SimpleMeasure:
    """FILE.py:NAME, the file relative to the folder."""
    file, _, function = name.partition(":")
    path = folder / file
    if not function or path.suffix != ".py":
        raise ValueError(f"A function is named FILE.py:NAME, got '{name}'.")
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")
    spec = importlib.util.spec_from_file_location(f"_sweep_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(getattr(module, function, None)):
        raise ValueError(f"{path} has no function '{function}'.")
    return getattr(module, function)


def _points(table: Row) -> list[Row]:
    """The settings, or one empty one for an item as it is."""
    given = [kind for kind in KINDS if kind in table]
    if len(given) > 1 or (not given and "function" in table and not table.get("fixed")):
        raise ValueError(f"Give one of [grid], [[list]] or [random], got {' and '.join(given) or 'none'}.")
    if "grid" in table:
        values = _section(table, "grid")
        if not values:
            raise ValueError("The grid is empty.")
        return grid(**{name: _values(value, f"grid.{name}") for name, value in values.items()})
    if "list" in table:
        points = table["list"]
        if not isinstance(points, list) or not points or not all(isinstance(p, dict) for p in points):
            raise ValueError("list must be [[list]] tables, one for each setting.")
        return [_flat({"list": point}, "list") for point in points]
    return _drawn(_section(table, "random")) if "random" in table else [{}]


def _drawn(table: Row) -> list[Row]:
    num, seed = (
        _typed(table.get(name, low), int, f"random.{name}") for name, low in (("draws", 0), ("seed", 0))
    )
    values = {name: value for name, value in table.items() if name not in ("draws", "seed")}
    if num < 1 or not values:
        raise ValueError("[random] needs draws = 1 or more, and at least one parameter.")
    return draws(num, seed, **{name: _drawable(value, f"random.{name}") for name, value in values.items()})


def _drawable(value: Any, name: str) -> Between | list[Any]:
    if not isinstance(value, dict):
        return _values(value, name)
    _only(value, ("low", "high", "log"), name)
    if not {"low", "high"} <= value.keys():
        raise ValueError(f"{name} needs low and high, or a list of values.")
    for end in ("low", "high"):
        _typed(value[end], NUMBER, f"{name}.{end}")
    return Between(**value)


def _values(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{name} must be a list with at least one value, got {value!r}.")
    return [_scalar(v, name) for v in value]


def _flat(table: Row, name: str) -> Row:
    return {key: _scalar(value, f"{name}.{key}") for key, value in _section(table, name).items()}


def _scalar(value: Any, name: str) -> Any:
    """A number, a word, true or false, or a list of those."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, bool | int | float | str) for part in parts):
        raise ValueError(f"{name} must be a number, a word, true or false, got {value!r}.")
    return value


def _section(table: Row, name: str) -> Row:
    return _typed(table.get(name, {}), dict, name)


def _numbers(table: Row, name: str, types: Mapping[str, Any]) -> Row:
    numbers = _section(table, name)
    _only(numbers, tuple(types), name)
    for key, value in numbers.items():
        if not 0 < _typed(value, types[key], f"{name}.{key}") < inf:
            raise ValueError(f"{name}.{key} must be more than 0 and finite, got {value}.")
    return numbers


def _seeds(value: Any) -> tuple[int, ...]:
    """A count, or a list."""
    seeds = value if isinstance(value, list) else range(_typed(value, int, "seeds"))
    return tuple(_typed(seed, int, "seeds") for seed in seeds)


def _retries(value: Any) -> bool:
    """Whether `rerun` asks for the units that failed."""
    if not isinstance(value, list) or any(word != FAILED for word in value):
        raise ValueError(f"rerun is a list that may hold {FAILED!r}, got {value!r}.")
    return FAILED in value


def _only(table: Row, known: tuple[str, ...], name: str) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{name} has no field '{key}'. {did_you_mean(key, known)}")


def _typed(value: Any, types: Any, name: str) -> Any:
    words = {
        WHOLE: "a whole number",
        int: "a whole number",
        NUMBER: "a number",
        str: "a word",
        dict: "a table",
    }
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        raise ValueError(f"{name} must be {words[types]}, got {value!r}.")
    return value
