"""What a sweep keeps: one SQLite file in WAL mode, written by one process, read by as many as like.

tasks holds every setting × seed ever planned, outcomes how it ended and how long it took, rows what it measured (JSON, where NaN
and Infinity are allowed), failures every attempt that went wrong with its traceback, versions the code that made them.
"""

import fcntl
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from featureprism.records import Row
from featureprism.sweep.runner import content_hash
from featureprism.sweep.work import DONE, Outcome, Task

FILE = "sweep.sqlite"
FORMAT = 1
SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE versions (code TEXT PRIMARY KEY, details TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tasks (task INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, setting TEXT NOT NULL, seed INTEGER NOT NULL);
CREATE TABLE outcomes (task INTEGER PRIMARY KEY REFERENCES tasks, ended TEXT NOT NULL, attempts INTEGER NOT NULL,
  seconds REAL NOT NULL, code TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE rows (task INTEGER REFERENCES tasks, place INTEGER, row TEXT NOT NULL, PRIMARY KEY (task, place)) WITHOUT ROWID;
CREATE TABLE failures (failure INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks, attempt INTEGER NOT NULL,
  ended TEXT NOT NULL, message TEXT NOT NULL, traceback TEXT NOT NULL, seconds REAL NOT NULL, code TEXT NOT NULL, at TEXT NOT NULL);
PRAGMA user_version = {FORMAT};
"""


class Known(NamedTuple):
    """How a task ended, and the code that ran it."""

    ended: str
    code: str


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other sweeps out of the folder; the lock falls with the process, however it ends."""
    with (folder / "sweep.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(
                f"Another sweep is running in {folder}. Wait for it, or choose another --out."
            ) from error
        yield


class Store:
    """The file of a folder. Only the sweep that holds the folder's lock writes."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.path, self._codes = folder / FILE, set[str]()
        if not write and not self.path.exists():
            raise ValueError(
                f"No sweep in {folder}. Run 'featureprism sweep SPEC.toml --out {folder}' first."
            )
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=30)
            self._open(write)
        except sqlite3.Error as error:
            raise ValueError(f"Cannot read {self.path} as a sweep: {error}.") from error

    def _open(self, write: bool) -> None:
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if write:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(
                "PRAGMA synchronous = NORMAL"
            )  # a kill loses nothing, a power cut the last moments
            if not found:
                self._db.executescript(f"BEGIN;{SCHEMA}COMMIT;")
        else:
            self._db.execute("PRAGMA query_only = 1")
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found != FORMAT:
            raise ValueError(f"{self.path} has format {found}, this version of featureprism reads {FORMAT}.")

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
            raise OSError(f"Cannot write {self.path}: {error}.") from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    @property
    def what(self) -> str | None:
        """What is swept here, once a sweep has begun."""
        found = self._db.execute("SELECT value FROM about WHERE name = 'what'").fetchone()
        return found[0] if found else None

    def plan(self, what: str, tasks: Sequence[Task]) -> None:
        """Note the tasks that are not known yet, in order; one folder is for one thing."""
        if self.what not in (None, what):
            raise ValueError(
                f"{self.path.parent} holds a sweep of {self.what}, not of {what}. Choose another --out."
            )
        with self._written():
            self._db.execute("INSERT OR IGNORE INTO about VALUES ('what', ?)", (what,))
            self._db.executemany(
                "INSERT OR IGNORE INTO tasks (key, setting, seed) VALUES (?, ?, ?)",
                [(t.key, json.dumps(t.setting, ensure_ascii=False), t.seed) for t in tasks],
            )

    def known(self) -> dict[str, Known]:
        """How every task that ended did, by key."""
        found = self._db.execute("SELECT key, ended, code FROM outcomes JOIN tasks USING (task)")
        return {key: Known(ended, code) for key, ended, code in found}

    def version(self, details: Row) -> str:
        """A short name for the code that ran: the library's version and a hash of all that results may depend on."""
        code = f"{details['featureprism']}+{content_hash(details)[:8]}"
        if code not in self._codes:
            with self._written():
                self._db.execute("INSERT OR IGNORE INTO versions VALUES (?, ?)", (code, json.dumps(details)))
            self._codes.add(code)
        return code

    def record(self, task: Task, outcome: Outcome, code: str, *, final: bool) -> None:
        """Keep an outcome, in place of an earlier one of the same task; a failure that is not final is only noted."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._written():
            (number,) = self._db.execute("SELECT task FROM tasks WHERE key = ?", (task.key,)).fetchone()
            if outcome.ended != DONE:
                self._db.execute(
                    "INSERT INTO failures (task, attempt, ended, message, traceback, seconds, code, at)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        number,
                        task.attempt,
                        outcome.ended,
                        outcome.message,
                        outcome.traceback,
                        outcome.seconds,
                        code,
                        now,
                    ),
                )
            if final:
                self._db.execute(
                    "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?)",
                    (number, outcome.ended, task.attempt, outcome.seconds, code, now),
                )
                self._db.execute("DELETE FROM rows WHERE task = ?", (number,))
                self._db.executemany(
                    "INSERT INTO rows VALUES (?, ?, ?)",
                    [(number, place, row) for place, row in enumerate(outcome.rows)],
                )

    def rows(self) -> Iterator[Row]:
        """Every row with its seed and setting in front, in the order of the plan."""
        last, front = None, {}
        query = "SELECT task, setting, seed, row FROM rows JOIN tasks USING (task) ORDER BY task, place"
        for task, setting, seed, row in self._db.execute(query):
            if task != last:
                last, front = task, {"seed": seed, **json.loads(setting)}
            yield {**front, **json.loads(row)}

    def tasks(self) -> Iterator[tuple[Row, int, str | None]]:
        """Setting, seed and ending of every task, None for one that has not ended."""
        query = "SELECT setting, seed, ended FROM tasks LEFT JOIN outcomes USING (task) ORDER BY task"
        for setting, seed, ended in self._db.execute(query):
            yield json.loads(setting), seed, ended

    def failures(self) -> Iterator[Row]:
        """Every attempt that went wrong."""
        query = (
            "SELECT key, setting, seed, attempt, ended, message, traceback, seconds, code, at"
            " FROM failures JOIN tasks USING (task) ORDER BY failure"
        )
        cursor = self._db.execute(query)
        names = [column[0] for column in cursor.description]
        for values in cursor:
            yield dict(zip(names, values, strict=True))
