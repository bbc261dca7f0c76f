"""Which quick tests run which functions, and how long each test takes: the tests that are nearest to a planted bug.

A plugin of pytest. While a test runs, every call of a function of the project is noted; what tests do in other processes is not seen.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest


class Reach:
    """Writes {test: [CPU seconds, functions that it calls]}; a function is known by its file and its name there."""

    def __init__(self, source: Path, file: Path) -> None:
        self.source, self.file = f"{source}/", file
        self.functions: set[tuple[str, str]] = set()
        self.table: dict[str, tuple[float, list[str]]] = {}
        self.failed: set[str] = set()  # without any bug: nothing can be learned from them

    def _trace(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self.source):
            self.functions.add((code.co_filename, code.co_qualname))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.functions = set()
        began = time.process_time()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            names = {f"{f[len(self.source) :]}:{name.replace('<locals>.', '')}" for f, name in self.functions}
            self.table[item.nodeid] = round(time.process_time() - began, 2), sorted(names)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.file.write_text(json.dumps({k: v for k, v in self.table.items() if k not in self.failed}))


class Chosen:
    """Keeps only these tests, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: i for i, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid]
        )


def nearest(table: dict[str, tuple[float, list[str]]], file: str, where: str, seconds: float) -> list[str]:
    """Tests that call the function `where` of a file (or anything in it, if there is none), short ones first, `seconds` in all."""
    function = f"{file}:{where}"
    reaching = [test for test, (_, names) in table.items() if function in names] or [
        test for test, (_, names) in table.items() if any(name.startswith(f"{file}:") for name in names)
    ]
    stem = f"test_{Path(file).stem}.py"
    chosen, spent = [], 0.0
    for test in sorted(reaching, key=lambda test: (stem not in test, table[test][0])):
        if spent > seconds:
            break
        chosen.append(test)
        spent += table[test][0]
    return chosen
