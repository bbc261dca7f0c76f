"""Who works on a unit: every process that takes units of a store holds a locked file beside it.

The system gives the lock back when the process ends, however it ends, so that the units of a dead process are free at once; there is no
clock to agree on and nothing to renew.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

FOLDER = ".holders"


class Holder:
    """A process that takes units of the store in a folder, known by a random name."""

    def __init__(self, folder: Path) -> None:
        self.name = secrets.token_hex(8)
        self._path = folder / FOLDER / self.name
        while True:
            self._path.parent.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # the last of the others has just taken the folder away
                self._file = self._path.open("w")
                break
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def close(self) -> None:
        """Let go of everything."""
        self._path.unlink(missing_ok=True)
        self._file.close()
        with suppress(OSError):  # others are still there
            self._path.parent.rmdir()


def is_alive(folder: Path, name: str) -> bool:
    """Whether the process of this name still runs; what a dead one left is cleared away."""
    path = folder / FOLDER / name
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(file)
