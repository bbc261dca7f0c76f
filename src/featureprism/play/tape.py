"""Something that is made once, as far as anyone has looked, and can be looked at again by many."""

from collections.abc import Iterator
from threading import Lock
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Tape(Generic[Item]):
    """The items of an iterator, kept; several threads may look. An error is raised for everyone who reaches it."""

    def __init__(self, coming: Iterator[Item]) -> None:
        self._coming, self._lock = coming, Lock()
        self._seen: list[Item] = []
        self._failed: Exception | None = None

    def at(self, index: int) -> Item | None:
        """The item of an index from 0; None beyond the end."""
        with self._lock:
            while len(self._seen) <= index:
                if self._failed:
                    raise self._failed
                try:
                    self._seen.append(next(self._coming))
                except StopIteration:
                    return None
                except Exception as error:
                    self._failed = error
                    raise
            return self._seen[index]

    def end(self) -> Item:
        """The last item."""
        return list(self)[-1]

    def __iter__(self) -> Iterator[Item]:
        index = 0
        while (item := self.at(index)) is not None:
            yield item
            index += 1
