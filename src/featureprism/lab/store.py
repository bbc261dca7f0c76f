"""What has been measured: one SQLite file in a folder, which several processes may read and write at once.

`units` holds every setting × seed ever planned, known by a hash of all that its rows depend on, and who works on it; `results` how it
ended, with its rows (one JSON object a line; NaN and Infinity are allowed); `failures` every attempt that went wrong, with its
traceback. Units and results carry a checksum: what does not agree with it is damaged, is not shown, and is measured again.
"""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from featureprism.lab.holders import FOLDER, Holder, is_alive
from featureprism.lab.rows import Row
from featureprism.lab.unit import Unit
from featureprism.lab.work import DONE, Ending

FILE = "units.sqlite"
FORMAT = 4
TRIES = 100
MINE, TAKEN = "mine", "taken"
DAMAGE = (sqlite3.Error, UnicodeDecodeError)  # the second where SQLite quotes what it cannot read
NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "fuse", "9p", "afs")
SCHEMA = f"""
CREATE TABLE units (unit INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, place TEXT NOT NULL, what TEXT NOT NULL, setting TEXT NOT NULL,
  seed INTEGER NOT NULL, code TEXT NOT NULL, is_current INTEGER NOT NULL, checksum BLOB NOT NULL, holder TEXT);
CREATE INDEX units_at ON units (place);
CREATE TABLE results (unit INTEGER PRIMARY KEY REFERENCES units, ended TEXT NOT NULL, rows TEXT NOT NULL, checksum BLOB NOT NULL,
  attempts INTEGER NOT NULL, seconds REAL NOT NULL, memory_mb REAL NOT NULL, at TEXT NOT NULL, environment TEXT NOT NULL);
CREATE TABLE failures (failure INTEGER PRIMARY KEY, unit INTEGER NOT NULL REFERENCES units, attempt INTEGER NOT NULL,
  ended TEXT NOT NULL, message TEXT NOT NULL, traceback TEXT NOT NULL, seconds REAL NOT NULL, at TEXT NOT NULL);
CREATE TABLE environments (environment TEXT PRIMARY KEY, description TEXT NOT NULL);
PRAGMA user_version = {FORMAT};
"""
COLUMNS = (
    "unit, key, place, what, setting, seed, code, is_current, units.checksum,"
    " ended, rows, results.checksum, attempts, seconds, memory_mb, at, environment"
)


class _Entry(NamedTuple):
    """A unit and its result as they are in the file; the columns of a result are None where there is none."""

    unit: int
    key: str
    place: str
    what: str
    setting: str
    seed: int
    code: str
    is_current: int
    checksum: bytes
    ended: str | None
    rows: str
    result_checksum: bytes
    attempts: int
    seconds: float
    memory_mb: float
    at: str
    environment: str

    @property
    def is_sound(self) -> bool:
        """Whether the unit is what was written."""
        return self.checksum == _checksum(*self[1:8])

    @property
    def has_sound_result(self) -> bool:
        """Whether its result is."""
        return self.result_checksum == _checksum(self.key, self.ended, self.rows, *self[12:])

    @property
    def front(self) -> Row:
        """Seed and setting, which stand in front of every row."""
        return {"seed": self.seed, **json.loads(self.setting)}


def _checksum(*values: Any) -> bytes:
    return hashlib.blake2b("\x1f".join(map(str, values)).encode(), digest_size=8).digest()


class Store:
    """The finished units of a folder, in one SQLite file.

    Parameters
    ----------
    folder : path
        Where the file units.sqlite is.
    write : bool
        Whether to open it for writing; damaged units are then removed, to be measured again, and `damaged` counts
        them.
    """

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.folder, self.path = folder, folder / FILE
        self._damaged: set[int] = set()
        self._holder: Holder | None = None
        if not write and not self.path.exists():
            raise ValueError(
                f"Nothing has been measured in {folder}: there is no {FILE}. Run 'featureprism sweep' or 'reproduce' first."
            )
        try:
            self._connect(write)
            if not self._is_whole():
                if write:
                    self._rescue()
                else:
                    self._damaged.add(0)
            if write:
                self._drop_damaged()
        except DAMAGE as error:
            raise ValueError(self._unusable("read", error)) from error

    def _connect(self, write: bool) -> None:
        self._db = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        self._db.text_factory = lambda text: text.decode("utf-8", "replace")  # the checksum tells
        if write:
            self._choose_journal()
            with self._written():
                if not self._format():
                    for statement in SCHEMA.split(";"):
                        self._db.execute(statement)
        else:
            self._db.execute("PRAGMA query_only = 1")
        if self._format() != FORMAT:
            raise ValueError(
                f"{self.path} has format {self._format()}, this version of featureprism reads {FORMAT}: "
                "move it away, and the same command measures everything again."
            )

    def _choose_journal(self) -> None:
        """WAL mode, but not across machines; while another process switches to it SQLite refuses at once, whatever the timeout."""
        mode = "DELETE" if is_on_network(self.folder) else "WAL"
        for left in reversed(range(TRIES)):
            try:
                self._db.execute(f"PRAGMA journal_mode = {mode}")
                break
            except sqlite3.OperationalError:
                if not left:
                    raise
                time.sleep(0.1)
        self._db.execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing, a power cut the last moments

    def _format(self) -> int:
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    @property
    def damaged(self) -> int:
        """How many units were found damaged, at least."""
        return len(self._damaged)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()
        if self._holder:
            self._holder.close()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """One transaction: all of it or nothing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except DAMAGE as error:
            raise OSError(self._unusable("write", error)) from error
        finally:
            if self._db.in_transaction:
                with suppress(*DAMAGE):  # of a damaged file: the first error is the one reported
                    self._db.execute("ROLLBACK")

    def _unusable(self, verb: str, error: Exception) -> str:
        if isinstance(error, sqlite3.OperationalError):  # locked, full, or in a folder that cannot be written
            return f"Cannot {verb} {self.path}: {error}."
        return (
            f"Cannot {verb} {self.path}: {error}. It is damaged: move it away to begin anew; "
            "'sqlite3 units.sqlite .recover' prints what can still be saved of it."
        )

    # Damage

    def _is_whole(self) -> bool:
        """Whether SQLite finds nothing wrong with the structure of the file."""
        try:
            return self._db.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok"
        except sqlite3.OperationalError:  # locked
            raise
        except DAMAGE:
            return False

    def _rescue(self) -> None:
        """Put a new file with every finished unit in place of a damaged one, which is kept beside it.

        A unit and its result agree on their number, which is their place in the plan; that of a unit without a result may be damaged.
        """
        others = [file.name for file in (self.folder / FOLDER).glob("*") if is_alive(self.folder, file.name)]
        if others:
            raise ValueError(f"{self.path} is damaged, and another process uses it: stop that one first.")
        kept = [e for e in self._entries() if e.is_sound and e.ended is not None and e.has_sound_result]
        self._db.close()
        os.replace(self.path, self.path.with_suffix(".damaged"))
        for ending in ("-wal", "-shm"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)
        self._connect(write=True)
        with self._written():
            for entry in kept:
                self._db.execute(f"INSERT INTO units VALUES ({', '.join('?' * 9)}, NULL)", entry[:9])
                self._db.execute(
                    f"INSERT INTO results VALUES ({', '.join('?' * 9)})", (entry.unit, *entry[9:])
                )
        self._damaged.add(0)  # of those that are lost nobody knows how many there were

    def _drop_damaged(self) -> None:
        """Forget what does not agree with its checksum."""
        for entry in self._entries():
            if not entry.is_sound or (entry.ended is not None and not entry.has_sound_result):
                self._damaged.add(entry.unit)
                with self._written():
                    self._db.execute("DELETE FROM results WHERE unit = ?", (entry.unit,))
                    if not entry.is_sound:
                        self._db.execute("DELETE FROM units WHERE unit = ?", (entry.unit,))

    def _entries(self, where: str = "1", values: Sequence[Any] = ()) -> Iterator[_Entry]:
        """Units with their results, in the order of the plan; around a page that cannot be read, all that can."""
        query = f"SELECT {COLUMNS} FROM units LEFT JOIN results USING (unit) WHERE {where}"
        last = 0
        try:
            for row in self._db.execute(f"{query} ORDER BY unit", values):
                last = row[0]
                yield _Entry(*row)
            return
        except sqlite3.OperationalError:
            raise
        except DAMAGE:
            self._damaged.add(0)
        after: list[_Entry] = []
        with suppress(*DAMAGE):
            for row in self._db.execute(f"{query} AND unit > ? ORDER BY unit DESC", (*values, last)):
                after.append(_Entry(*row))
        for unit in range(last + 1, after[-1].unit if after else last + 1):
            with suppress(*DAMAGE):
                yield from map(_Entry._make, self._db.execute(f"{query} AND unit = ?", (*values, unit)))
        yield from reversed(after)

    def _sound_entries(self, where: str = "1", values: Sequence[Any] = ()) -> Iterator[_Entry]:
        """Units that are sound, without a result that is not."""
        try:
            for entry in self._entries(where, values):
                if not entry.is_sound:
                    self._damaged.add(entry.unit)
                elif entry.ended is not None and not entry.has_sound_result:
                    self._damaged.add(entry.unit)
                    yield entry._replace(ended=None)
                else:
                    yield entry
        except DAMAGE as error:
            raise ValueError(self._unusable("read", error)) from error

    # Planning

    def plan(self, units: Sequence[Unit], *, retry: bool = False) -> tuple[list[str | None], int]:
        """Note units in order, in one short transaction: give it some thousands at a time.

        Returns how each has ended (None: not yet; with `retry` failures count as not yet), and how many results of other code for the
        same setting and seed became stale.
        """
        stale = number = 0
        query = (
            "SELECT key, is_current, ended, unit, what, setting, seed, code"
            " FROM units LEFT JOIN results USING (unit) WHERE place = ?"
        )
        endings: list[str | None] = []
        with self._written():
            for unit in units:
                ending, is_known = None, False
                for key, is_current, ended, known, *about in self._db.execute(
                    query, (unit.place,)
                ).fetchall():
                    if key != unit.key and is_current:
                        stale += ended is not None
                        self._mark(known, key, unit.place, *about, 0)
                    elif key == unit.key:
                        is_known, ending, number = True, ended, known
                        if not is_current:
                            self._mark(number, key, unit.place, *about, 1)
                        if retry and ended not in (None, DONE):
                            ending = None
                            self._db.execute("DELETE FROM results WHERE unit = ?", (number,))
                if not is_known:
                    setting = json.dumps(unit.fields, ensure_ascii=False)
                    about = (unit.key, unit.place, unit.name, setting, unit.seed, unit.code, 1)
                    number = self._db.execute(
                        f"INSERT INTO units VALUES ({', '.join('?' * 9)}, NULL)",
                        (self._gap_after(number), *about, _checksum(*about)),
                    ).lastrowid
                endings.append(ending)
        return endings, stale

    def _gap_after(self, number: int | None) -> int | None:
        """The next number if damage has left it free, so that the plan keeps its order; else SQLite chooses."""
        if not self._damaged or number is None:
            return None
        taken = self._db.execute("SELECT 1 FROM units WHERE unit = ?", (number + 1,)).fetchone()
        return None if taken else number + 1

    def _mark(self, number: int, *about: Any) -> None:
        """Set whether a unit is current, the last of what its checksum is about."""
        self._db.execute(
            "UPDATE units SET is_current = ?, checksum = ? WHERE unit = ?",
            (about[-1], _checksum(*about), number),
        )

    # Working

    def claim(self, units: Sequence[Unit]) -> list[str]:
        """MINE for units that this process may run now, TAKEN for those that a living one works on, or how they have ended."""
        answers = []
        alive: dict[str, bool] = {}
        self._holder = self._holder or Holder(self.folder)
        query = "SELECT unit, holder, ended FROM units LEFT JOIN results USING (unit) WHERE key = ?"
        with self._written():
            for unit in units:
                number, holder, ended = self._db.execute(query, (unit.key,)).fetchone() or self._lost()
                if holder not in (None, self._holder.name) and holder not in alive:
                    alive[holder] = is_alive(self.folder, holder)
                if ended is not None:
                    answers.append(ended)
                elif holder is not None and alive.get(holder):
                    answers.append(TAKEN)
                else:
                    answers.append(MINE)
                    if holder != self._holder.name:
                        self._db.execute(
                            "UPDATE units SET holder = ? WHERE unit = ?", (self._holder.name, number)
                        )
        return answers

    def _lost(self) -> Any:
        raise sqlite3.DatabaseError("a unit that was planned is not there")

    def record(self, ended: Iterable[tuple[Unit, Ending, int, bool]]) -> None:
        """Keep endings as (unit, ending, attempt, is it final); a failure that is not final is only noted."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._written():
            for unit, ending, attempt, is_final in ended:
                (number,) = (
                    self._db.execute("SELECT unit FROM units WHERE key = ?", (unit.key,)).fetchone()
                    or self._lost()
                )
                if ending.status != DONE:
                    failure = (attempt, ending.status, ending.message, ending.traceback, ending.seconds, now)
                    self._db.execute(
                        "INSERT INTO failures VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", (number, *failure)
                    )
                if is_final:
                    rows, about = (
                        "\n".join(ending.rows),
                        hashlib.sha256(ending.environment.encode()).hexdigest()[:16],
                    )
                    self._db.execute(
                        "INSERT OR IGNORE INTO environments VALUES (?, ?)", (about, ending.environment)
                    )
                    costs = (attempt, float(ending.seconds), float(ending.memory_mb), now, about)
                    check = _checksum(unit.key, ending.status, rows, *costs)
                    self._db.execute(
                        "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        (number, ending.status, rows, check, *costs),
                    )
                    self._db.execute("UPDATE units SET holder = NULL WHERE unit = ?", (number,))

    # Reading

    def statuses(self, units: Iterable[Unit]) -> dict[str, str]:
        """How units ended, by key; those that have not are not there."""
        return {
            entry.key: entry.ended
            for unit in units
            for entry in self._ended("key = ?", (unit.key,))
            if entry.ended
        }

    def _ended(self, where: str, values: Sequence[Any]) -> Iterator[_Entry]:
        return (entry for entry in self._sound_entries(where, values) if entry.ended is not None)

    def costs(self, ended: str) -> dict[str, tuple[float, float]]:
        """Seconds of processor time and megabytes of all units that ended like this, by key."""
        return {e.key: (e.seconds, e.memory_mb) for e in self._ended("ended = ?", (ended,))}

    def cost_of(self, units: Sequence[Unit]) -> tuple[float, float]:
        """How long finished units took in all, and the most megabytes that a process held while it measured one of them."""
        every = [entry for unit in units for entry in self._ended("key = ?", (unit.key,))]
        return sum(e.seconds for e in every), max((e.memory_mb for e in every), default=0.0)

    def rows_of(self, units: Iterable[Unit]) -> Iterator[Row]:
        """The rows of finished units with their seed and setting in front, unit by unit."""
        for unit in units:
            yield from self._rows("key = ?", (unit.key,))

    def rows(self, name: str) -> Iterator[Row]:
        """Every row of one thing with its seed and setting in front, in the order of the plan; nothing that edited code measured."""
        yield from self._rows("what = ? AND is_current", (name,))

    def _rows(self, where: str, values: Sequence[Any]) -> Iterator[Row]:
        for entry in self._ended(where, values):
            front = entry.front
            for row in filter(None, entry.rows.split("\n")):
                yield {**front, **json.loads(row)}

    def names(self) -> list[str]:
        """What was measured here: items, functions, networks."""
        return list(dict.fromkeys(entry.what for entry in self._sound_entries("is_current")))

    def planned(self, name: str) -> Iterator[tuple[Row, int, str | None]]:
        """Setting, seed and ending of every unit of one thing, None for one that has not ended."""
        for entry in self._sound_entries("what = ? AND is_current", (name,)):
            yield json.loads(entry.setting), entry.seed, entry.ended

    def mixture(self) -> str:
        """A sentence if the current units were measured with different versions or kinds of processors; else nothing."""
        query = (
            "SELECT description, count(*) FROM results JOIN units USING (unit) JOIN environments USING (environment)"
            " WHERE is_current AND ended = ? GROUP BY environment ORDER BY min(unit)"
        )
        with suppress(sqlite3.DatabaseError):  # damage is reported elsewhere
            kinds = self._db.execute(query, (DONE,)).fetchall()
            if len(kinds) > 1:
                shared = set.intersection(*(set(text.split(", ")) for text, _ in kinds))
                parts = [(n, ", ".join(p for p in text.split(", ") if p not in shared)) for text, n in kinds]
                parts_text = "; ".join(f"{n} units with {text}" for n, text in parts)
                return f"{self.path} mixes rows that may differ in their last digits: {parts_text}."
        return ""

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
        try:
            for values in self._db.execute(query):
                yield dict(zip(names, values, strict=True))
        except sqlite3.Error as error:
            raise ValueError(self._unusable("read", error)) from error


def is_on_network(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Whether a folder is on a file system that several machines share, as far as the system says."""
    if not mounts.exists():
        return False
    table = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    here = folder.resolve()
    places = {Path(place): kind for place, kind in table if here.is_relative_to(place)}
    return places[max(places, key=lambda place: len(place.parts))].startswith(NETWORK) if places else False
