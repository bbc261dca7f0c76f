"""What has been measured: one SQLite file in a folder, in WAL mode, which several processes may read and write at once.

units holds every setting × seed ever planned, known by a hash of all that its rows depend on, and how it ended; rows what it measured
(JSON, where NaN and Infinity are allowed); failures every attempt that went wrong, with its traceback.
"""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from featureprism.lab.rows import Row
from featureprism.lab.unit import Unit
from featureprism.lab.work import DONE, Ending

FILE = "units.sqlite"
FORMAT = 3
EARLIER = 2  # the same without memory_mb
TRIES = 100
SCHEMA = f"""
CREATE TABLE units (unit INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, what TEXT NOT NULL, setting TEXT NOT NULL,
  seed INTEGER NOT NULL, code TEXT NOT NULL, versions TEXT NOT NULL, is_current INTEGER NOT NULL DEFAULT 1,
  ended TEXT, attempts INTEGER, seconds REAL, at TEXT, memory_mb REAL);
CREATE INDEX units_of ON units (what, seed);
CREATE TABLE rows (unit INTEGER REFERENCES units, place INTEGER, row TEXT NOT NULL, PRIMARY KEY (unit, place)) WITHOUT ROWID;
CREATE TABLE failures (failure INTEGER PRIMARY KEY, unit INTEGER NOT NULL REFERENCES units, attempt INTEGER NOT NULL,
  ended TEXT NOT NULL, message TEXT NOT NULL, traceback TEXT NOT NULL, seconds REAL NOT NULL, at TEXT NOT NULL);
PRAGMA user_version = {FORMAT};
"""


class Store:
    """The file of a folder."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.path = folder / FILE
        if not write and not self.path.exists():
            raise ValueError(
                f"Nothing has been measured in {folder}: there is no {FILE}. Run 'featureprism sweep' or 'reproduce' first."
            )
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=60)
            self._open(write)
        except sqlite3.Error as error:
            raise ValueError(f"Cannot read {self.path}: {error}. Move it away to begin anew.") from error

    def _open(self, write: bool) -> None:
        if write:
            self._write_ahead()
            self._db.execute(
                "PRAGMA synchronous = NORMAL"
            )  # a kill loses nothing, a power cut the last moments
            with self._written():
                if not self._format():
                    for statement in SCHEMA.split(";"):
                        self._db.execute(statement)
                elif self._format() == EARLIER:
                    self._db.execute("ALTER TABLE units ADD COLUMN memory_mb REAL")
                    self._db.execute(f"PRAGMA user_version = {FORMAT}")
        else:
            self._db.execute("PRAGMA query_only = 1")
        if self._format() not in (FORMAT, EARLIER):
            raise ValueError(
                f"{self.path} has format {self._format()}, this version of featureprism reads {FORMAT}."
            )

    def _write_ahead(self) -> None:
        """WAL mode; while another process switches to it SQLite refuses at once, whatever the timeout."""
        for _ in range(TRIES):
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                time.sleep(0.1)
        self._db.execute("PRAGMA journal_mode = WAL")

    def _format(self) -> int:
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """One transaction: all of it or nothing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise OSError(self._unusable("write", error)) from error
        finally:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):  # of a damaged file: the first error is the one reported
                    self._db.execute("ROLLBACK")

    def _select(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """What a query finds; a damaged file is one sentence."""
        try:
            yield from self._db.execute(query, values)
        except sqlite3.Error as error:
            raise ValueError(self._unusable("read", error)) from error

    def _decoded(self, text: Any) -> Row:
        """A row or a setting."""
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise ValueError(self._unusable("read", error)) from error

    def _unusable(self, verb: str, error: Exception) -> str:
        if isinstance(error, sqlite3.OperationalError):  # locked, full, or in a folder that cannot be written
            return f"Cannot {verb} {self.path}: {error}."
        return (
            f"Cannot {verb} {self.path}: {error}. It is damaged: move it away to begin anew; "
            "'sqlite3 units.sqlite .recover' prints what can still be saved of it."
        )

    def plan(self, units: Iterable[Unit]) -> int:
        """Note units in order; returns how many results of other code for the same setting and seed became stale by that."""
        stale = 0
        with self._written():
            for unit in units:
                setting = json.dumps(unit.fields, ensure_ascii=False)
                stale += self._db.execute(
                    "UPDATE units SET is_current = 0 WHERE what = ? AND seed = ? AND setting = ? AND key != ? AND is_current",
                    (unit.name, unit.seed, setting, unit.key),
                ).rowcount
                self._db.execute(
                    "INSERT INTO units (key, what, setting, seed, code, versions) VALUES (?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (key) DO UPDATE SET is_current = 1",
                    (unit.key, unit.name, setting, unit.seed, unit.code, json.dumps(unit.versions)),
                )
        return stale

    def statuses(self, keys: Iterable[str]) -> dict[str, str]:
        """How units ended, by key; those that have not are not there."""
        query = "SELECT ended FROM units WHERE key = ? AND ended IS NOT NULL"
        return {key: ended for key in keys for (ended,) in self._select(query, (key,))}

    def costs(self, ended: str) -> dict[str, tuple[float, float]]:
        """Seconds and megabytes of all units that ended like this, by key."""
        memory = "NULL" if self._format() == EARLIER else "memory_mb"
        query = f"SELECT key, seconds, {memory} FROM units WHERE ended = ?"
        return {
            key: (seconds or 0.0, memory or 0.0) for key, seconds, memory in self._select(query, (ended,))
        }

    def record(self, unit: Unit, ending: Ending, attempt: int, *, final: bool) -> None:
        """Keep an ending, in place of an earlier one of the same unit; a failure that is not final is only noted."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._written():
            known = self._db.execute("SELECT unit FROM units WHERE key = ?", (unit.key,)).fetchone()
            if known is None:
                raise sqlite3.DatabaseError("a unit that was planned is not there")
            number = known[0]
            if ending.status != DONE:
                self._db.execute(
                    "INSERT INTO failures (unit, attempt, ended, message, traceback, seconds, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        number,
                        attempt,
                        ending.status,
                        ending.message,
                        ending.traceback,
                        ending.seconds,
                        now,
                    ),
                )
            if final:
                self._db.execute(
                    "UPDATE units SET ended = ?, attempts = ?, seconds = ?, memory_mb = ?, at = ? WHERE unit = ?",
                    (ending.status, attempt, ending.seconds, ending.memory_mb, now, number),
                )
                self._db.execute("DELETE FROM rows WHERE unit = ?", (number,))
                self._db.executemany(
                    "INSERT INTO rows VALUES (?, ?, ?)",
                    [(number, place, row) for place, row in enumerate(ending.rows)],
                )

    def rows_of(self, units: Sequence[Unit]) -> Iterator[Row]:
        """The rows of finished units with their seed and setting in front, unit by unit."""
        query = "SELECT row FROM rows JOIN units USING (unit) WHERE key = ? AND ended = ? ORDER BY place"
        for unit in units:
            front = {"seed": unit.seed, **json.loads(json.dumps(unit.fields))}
            for (row,) in self._select(query, (unit.key, DONE)):
                yield {**front, **self._decoded(row)}

    def seconds_of(self, units: Sequence[Unit]) -> float:
        """How long finished units took, in all."""
        query = "SELECT seconds FROM units WHERE key = ?"
        return sum(seconds or 0.0 for unit in units for (seconds,) in self._select(query, (unit.key,)))

    def memory_of(self, units: Sequence[Unit]) -> float:
        """The most megabytes that a process held while it measured one of these units."""
        query = "SELECT memory_mb FROM units WHERE key = ?"
        return max(memory or 0.0 for unit in units for (memory,) in self._select(query, (unit.key,)))

    def names(self) -> list[str]:
        """What was measured here: items, functions, networks."""
        query = "SELECT what FROM units WHERE is_current GROUP BY what ORDER BY min(unit)"
        return [name for (name,) in self._select(query)]

    def rows(self, name: str) -> Iterator[Row]:
        """Every row of one thing with its seed and setting in front, in the order of the plan; nothing that edited code measured."""
        query = (
            "SELECT unit, setting, seed, row FROM rows JOIN units USING (unit)"
            " WHERE what = ? AND is_current ORDER BY unit, place"
        )
        last, front = None, {}
        for unit, setting, seed, row in self._select(query, (name,)):
            if unit != last:
                last, front = unit, {"seed": seed, **self._decoded(setting)}
            yield {**front, **self._decoded(row)}

    def planned(self, name: str) -> Iterator[tuple[Row, int, str | None]]:
        """Setting, seed and ending of every unit of one thing, None for one that has not ended."""
        query = "SELECT setting, seed, ended FROM units WHERE what = ? AND is_current ORDER BY unit"
        for setting, seed, ended in self._select(query, (name,)):
            yield self._decoded(setting), seed, ended

    def failures(self) -> Iterator[Row]:
        """Every attempt that went wrong."""
        names = [
            "key",
            "what",
            "setting",
            "seed",
            "attempt",
            "ended",
            "message",
            "traceback",
            "seconds",
            "at",
        ]
        query = (
            "SELECT key, what, setting, seed, attempt, failures.ended, message, traceback, failures.seconds, failures.at"
            " FROM failures JOIN units USING (unit) ORDER BY failure"
        )
        for values in self._select(query):
            yield dict(zip(names, values, strict=True))
