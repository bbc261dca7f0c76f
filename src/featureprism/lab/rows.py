"""A small immutable table of flat rows, and the ways to one number per seed."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = dict[str, Any]  # flat: strings, numbers, booleans
Values = np.ndarray  # one number per seed, in the order of the seeds; NaN where a seed has none


@dataclass(frozen=True)
class Rows:
    """A table of measurements, with the seeds of the run.

    A part of a table keeps the seeds of the whole, so that values of different parts can be compared seed by seed.

    Parameters
    ----------
    rows : tuple of dict
        The rows, in the order in which they were measured.
    seeds : tuple of int
        The seeds of the run.

    Examples
    --------
    >>> import featureprism as fp
    >>> rows = fp.lab.Rows.gather([{"kind": "end", "seed": 0, "loss": 0.5}, {"kind": "end", "seed": 1, "loss": 0.25}])
    >>> rows.of("end").per_seed("loss").tolist()
    [0.5, 0.25]
    """

    rows: tuple[Row, ...]
    seeds: tuple[int, ...]

    @classmethod
    def gather(cls, rows: Iterable[Row]) -> "Rows":
        """A table of all rows."""
        rows = tuple(rows)
        return cls(rows, tuple(sorted({row["seed"] for row in rows})))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def of(self, kind: str, /, **fields: Any) -> "Rows":
        """Rows of one kind with the given fields."""
        return self.having(kind=kind, **fields)

    def having(self, **fields: Any) -> "Rows":
        """Rows with the given fields, of any kind."""
        return self.where(lambda row: all(row.get(name) == value for name, value in fields.items()))

    def where(self, chosen: Callable[[Row], Any]) -> "Rows":
        """Rows that satisfy a condition."""
        return Rows(tuple(row for row in self.rows if chosen(row)), self.seeds)

    def groups(self, *fields: str) -> "dict[Any, Rows]":
        """The parts with equal fields, by their value (a tuple for several fields), in order of appearance."""
        parts: dict[Any, list[Row]] = {}
        for row in self.rows:
            key = tuple(row.get(name) for name in fields)
            parts.setdefault(key[0] if len(fields) == 1 else key, []).append(row)
        return {key: Rows(tuple(rows), self.seeds) for key, rows in parts.items()}

    def first_seeds(self, num: int) -> "Rows":
        """The rows of the first `num` seeds."""
        seeds = self.seeds[:num]
        return Rows(tuple(row for row in self.rows if row["seed"] in seeds), seeds)

    def column(self, name: str) -> np.ndarray:
        """One field of every row as a number; NaN where it is missing."""
        return np.array([number(row.get(name)) for row in self.rows], dtype=float)

    def distinct(self, name: str) -> list[Any]:
        """The different values of a field, in order of appearance."""
        return list(dict.fromkeys(row[name] for row in self.rows if name in row))

    def per_seed(self, value: "str | Callable[[Rows], float]") -> Values:
        """One number per seed: a field of the seed's only row, or a function of the seed's rows."""
        measure = self._only(value) if isinstance(value, str) else value
        return np.array([number(measure(rows)) if rows.rows else math.nan for rows in self.by_seed()])

    def mean(self, name: str) -> Values:
        """The mean of a field, seed by seed."""
        return self.per_seed(lambda rows: rows.column(name).mean())

    def largest(self, name: str) -> Values:
        """The largest value of a field, seed by seed; NaN if one is missing."""
        return self.per_seed(lambda rows: rows.column(name).max())

    def least(self, name: str) -> Values:
        """The least value of a field, seed by seed; NaN if one is missing."""
        return self.per_seed(lambda rows: rows.column(name).min())

    def farthest(self, name: str, centre: float) -> Values:
        """The value of a field that is farthest from a centre, seed by seed; NaN if one is missing."""
        return self.per_seed(lambda rows: farthest(rows.column(name), centre))

    def slope(self, x: str, y: str) -> Values:
        """The exponent of y ∝ x^…: least-squares slope of ln y against ln x, seed by seed."""
        return self.per_seed(lambda rows: log_slope(rows.column(x), rows.column(y)))

    def by_seed(self) -> "list[Rows]":
        """The rows of each seed, in the order of the seeds; empty for a seed that has none."""
        parts: dict[int, list[Row]] = {seed: [] for seed in self.seeds}
        for row in self.rows:
            parts[row["seed"]].append(row)
        return [Rows(tuple(rows), (seed,)) for seed, rows in parts.items()]

    @staticmethod
    def _only(name: str) -> "Callable[[Rows], float]":
        def value(rows: Rows) -> float:
            if len(rows) > 1:
                raise ValueError(
                    f"'{name}' has {len(rows)} rows of seed {rows.seeds[0]}: say which part, or mean, least or largest."
                )
            return number(rows[0].get(name))

        return value


def number(value: Any) -> float:
    """A field as a number; NaN where there is none."""
    return math.nan if value is None or isinstance(value, str) else float(value)


def farthest(values: np.ndarray, centre: float) -> float:
    """The value farthest from a centre; NaN if one is missing."""
    return float(values[np.argmax(np.abs(values - centre))])


def log_slope(x: Iterable[float], y: Iterable[float]) -> float:
    """Least-squares slope of ln y against ln x; NaN for fewer than two different x, or values that have no logarithm."""
    u, v = (np.asarray(list(t), dtype=float) for t in (x, y))
    if len(set(u.tolist())) < 2 or not (np.all(u > 0) and np.all(v > 0)):
        return math.nan
    u, v = np.log(u) - np.log(u).mean(), np.log(v) - np.log(v).mean()
    return float((u * v).sum() / (u**2).sum())
