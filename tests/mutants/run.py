"""Plant bugs, one at a time, in a copy of the project, and see whether the nearest quick tests notice.

    python tests/mutants/run.py list                 what is planted where
    python tests/mutants/run.py reach [GROUP ...]    note which tests call which functions (some minutes; once is enough)
    python tests/mutants/run.py 1/8 [GROUP ...]      try the first eighth of what has no outcome yet, and note it in outcomes.csv
    python tests/mutants/run.py again [GROUP ...]    try those that survived once more, with four times as many tests
    python tests/mutants/run.py ID ...               try these
    python tests/mutants/run.py summary              how many were caught
    TESTS="tests/checker/test_guards.py" python ...  with these tests alone, after one has written new ones

The bugs are chosen by machine: the sites of every group of files in an order that depends on their names alone, one of each kind in
turn. The tests of a bug are those of its group that call the function it is in, short ones first.
A bug that changes no answer is explained in equivalent.txt (one line: ID, then why); no other survivor counts as explained.
"""

import csv
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reach import Chosen, Reach, nearest
from sites import Site, sites_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SOURCE = "src/featureprism"
OUTCOMES, EQUIVALENT = HERE / "outcomes.csv", HERE / "equivalent.txt"
REACH = HERE / ".reach"
WALL_SECONDS = 600  # of the tests of one bug; what takes longer hangs, and is caught
TEST_SECONDS = 15.0  # CPU seconds that the tests of one bug take without it
COPIED = ("src", "tests", "docs", "examples", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md")


@dataclass(frozen=True)
class Group:
    """Files in which `num` bugs are planted, and the tests that are nearest to all of them."""

    name: str
    num: int
    files: tuple[str, ...]
    tests: tuple[str, ...]
    has_tuning: bool = (
        False  # whether constants in capitals at the top of a module only tune a search: one more is no bug
    )


VERDICTS = "bounds claim intervals looks premise rate rows table verdict"
LAB = "costs engine executors export holders sources spec_file store sweeps unit work"
GROUPS = (
    Group("checker", 72, ("checker/[!e]*.py", "checker/e[ln]*.py"), ("checker", "verify/test_properties.py")),
    Group(
        "exact",
        18,
        ("checker/exact*.py", "checker/exact/*.py"),
        ("checker/test_exact.py", "checker/test_both.py", "verify/test_properties.py"),
    ),
    Group("verdicts", 40, tuple(f"lab/{name}.py" for name in VERDICTS.split()), ("lab",)),
    Group("lab", 25, tuple(f"lab/{name}.py" for name in LAB.split()), ("lab",)),
    Group("verify", 40, ("verify/*.py", "verify/*/*.py"), ("verify",), has_tuning=True),
    Group("attacks", 20, ("attacks/*.py",), ("attacks",), has_tuning=True),
    Group(
        "theory",
        25,
        ("papers/*/theory*.py",),
        ("theory", "papers/test_stated_premises.py", "papers/*/test_theory*.py"),
    ),
)


def main(words: list[str]) -> None:
    """Do what the words say."""
    chosen = [(group, site) for group in GROUPS for site in sites(group)]
    known = outcomes()
    match words:
        case ["list"]:
            for group, site in chosen:
                change = site.change((ROOT / site.path).read_bytes())
                print(f"{group.name:9} {site.path}:{site.line} {change}")
        case ["summary"]:
            summary(chosen)
        case ["reach", *names]:
            for group in GROUPS:
                if not names or group.name in names:
                    note_reach(group)
        case ["again", *names]:
            survivors = {i for i, row in known.items() if row["outcome"] == "survived"} - set(equivalent())
            run(
                [(g, s) for g, s in chosen if s.id in survivors and (not names or g.name in names)],
                4 * TEST_SECONDS,
            )
        case [part, *names] if "/" in part and part.replace("/", "").isdigit():
            i, n = map(int, part.split("/"))
            wanted = [(g, s) for g, s in chosen if not names or g.name in names][i - 1 :: n]
            run([(g, s) for g, s in wanted if s.id not in known])
        case ids if ids:
            run([(g, s) for g, s in chosen if s.id in ids])
        case _:
            print(__doc__)


def sites(group: Group) -> list[Site]:
    """The bugs of a group."""
    files = sorted({str(f.relative_to(ROOT)) for glob in group.files for f in (ROOT / SOURCE).glob(glob)})
    every = [site for path in files for site in sites_of(ROOT, path)]
    if group.has_tuning:
        every = [site for site in every if site.where]
    order = sorted(every, key=lambda site: site.rank)
    round_ = Counter[str]()
    turns = {}
    for (
        site
    ) in order:  # every kind in turn: sites of constants and signs are many, of guards and roundings few
        turns[site.id] = round_[site.kind]
        round_[site.kind] += 1
    return sorted(order, key=lambda site: turns[site.id])[: group.num]


def run(chosen: list[tuple[Group, Site]], seconds: float = TEST_SECONDS) -> None:
    """Try bugs one after the other; each outcome is noted at once."""
    preload()
    given = os.environ.get("TESTS", "").split()
    tables = (
        {} if given else {group: reach_of(group) for group in dict.fromkeys(group for group, _ in chosen)}
    )
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        for number, (group, site) in enumerate(chosen):
            file = tree / site.path
            original = file.read_bytes()
            began = time.perf_counter()
            tests = given or nearest(tables[group], site.path.removeprefix(f"{SOURCE}/"), site.where, seconds)
            try:
                plant(file, site.planted(original), number + 1)
                outcome, by = tried(tree, tests)
            finally:
                plant(file, original, 0)
            note(group, site, outcome, by, site.change(original))
            print(f"{outcome:9} {time.perf_counter() - began:5.0f} s {site.id} {by}", flush=True)


def note_reach(group: Group) -> None:
    """Run the tests of a group without any bug, and note what they call."""
    REACH.mkdir(exist_ok=True)
    preload()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        tests = sorted(
            str(test.relative_to(tree)) for name in group.tests for test in (tree / "tests").glob(name)
        )
        plugin = Reach(tree / SOURCE, REACH / f"{group.name}.json")
        outcome, by = in_fork(tree, tests, plugin)
        print(
            f"{group.name}: {len(reach_of(group))} tests; {f'without any bug {by} fails' if by else outcome}"
        )


def reach_of(group: Group) -> dict[str, tuple[float, list[str]]]:
    """What the tests of a group call, and how long they take."""
    file = REACH / f"{group.name}.json"
    if not file.exists():
        note_reach(group)
    return json.loads(file.read_text())


def copy_tree(tree: Path) -> None:
    """The project as it is now; tests of a bug never touch the files one works on."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
        elif (ROOT / name).exists():
            shutil.copy2(ROOT / name, tree / name)


def plant(file: Path, content: bytes, number: int) -> None:
    """Write a file with a time of its own: compiled modules are known by size and time."""
    file.write_bytes(content)
    os.utime(file, (1_000_000_000 + 10 * number,) * 2)


def preload() -> None:
    """What every test imports, once for all: each bug gets a fork of this process."""
    import matplotlib  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch  # noqa: F401


def tried(tree: Path, tests: list[str]) -> tuple[str, str]:
    """('caught', first failing test) or ('survived', ''): files of tests are run whole, else the tests that are named."""
    if not any("::" in test for test in tests):
        return in_fork(tree, tests) if tests else ("survived", "")
    return in_fork(tree, sorted({test.split("::")[0] for test in tests}), Chosen(tests))


def in_fork(tree: Path, files: list[str], plugin: object = None) -> tuple[str, str]:
    """Whether tests fail, and which does first."""
    log = tree / "log"
    child = os.fork()
    if not child:
        run_tests(tree, files, log, plugin)
    deadline = time.monotonic() + (math.inf if isinstance(plugin, Reach) else WALL_SECONDS)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.05)
    if os.waitstatus_to_exitcode(status) == 0:
        return "survived", ""
    lines = log.read_text(errors="replace").splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    by = (
        failed[0].split(" - ")[0].split(" ", 1)[-1]
        if failed
        else f"ended by {os.waitstatus_to_exitcode(status)}"
    )
    return "caught", by


def run_tests(tree: Path, files: list[str], log: Path, plugin: object) -> None:
    """In the fork: pytest on the tree, until the first failure unless it notes what tests call."""
    os.setpgid(0, 0)
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.path[:] = [str(tree / "src"), *(p for p in sys.path if not p.endswith("/src") and Path(p) != HERE)]
    import pytest

    code = 1
    stop = [] if isinstance(plugin, Reach) else ["-x"]
    try:
        code = pytest.main(
            [*stop, "-q", "-p", "no:cacheprovider", *files], plugins=[plugin] if plugin else []
        )
    finally:
        os._exit(int(code))


def outcomes() -> dict[str, dict[str, str]]:
    """What is known of every bug."""
    if not OUTCOMES.exists():
        return {}
    with OUTCOMES.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def note(group: Group, site: Site, outcome: str, by: str, change: str) -> None:
    """Keep an outcome in the list; several runs may do so at once."""
    import fcntl

    with (HERE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = outcomes()
        rows[site.id] = {"group": group.name, "id": site.id, "outcome": outcome, "by": by, "change": change}
        names = [g.name for g in GROUPS]
        with OUTCOMES.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["group", "id", "outcome", "by", "change"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows.values(), key=lambda row: (names.index(row["group"]), row["id"])))


def equivalent() -> dict[str, str]:
    """Bugs that change no answer, with the reason."""
    lines = EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


def summary(chosen: Iterable[tuple[Group, Site]]) -> None:
    """One line for each group, then the survivors."""
    known, same = outcomes(), equivalent()
    every = list(chosen)
    for group in GROUPS:
        mine = [site.id for g, site in every if g is group]
        tried_ = [name for name in mine if name in known]
        caught = sum(known[name]["outcome"] == "caught" for name in tried_)
        explained = sum(name in same for name in tried_ if known[name]["outcome"] != "caught")
        real = len(tried_) - explained
        share = f"{100 * caught / real:.0f} %" if real else "-"
        print(
            f"{group.name:9} {len(mine)} bugs, {len(tried_)} tried, {caught} caught, {explained} equivalent: {share}"
        )
    for _, site in every:
        if site.id in known and known[site.id]["outcome"] == "survived" and site.id not in same:
            print("survived", site.id, known[site.id]["change"])


if __name__ == "__main__":
    main(sys.argv[1:])
