"""What every experiment must do, whatever it is about.

The test module of an item, tests/papers/PAPER/test_ITEM.py, says at which size: TINY = {id: settings}, and SLOW where it takes more
than a few seconds even so.
"""

import inspect
import json
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from quickened import quicken
from stated_premises import left_out

from featureprism.lab import Outcome, Rows, Serial, all_papers, reproduce
from featureprism.lab.context import Context
from featureprism.lab.experiment import fields_of
from featureprism.lab.figures import draw
from featureprism.lab.registry import BUILT_IN
from featureprism.lab.sources import dependencies


def _loaded(path):
    spec = spec_from_file_location(f"tiny_settings_of_{path.parent.name}_{path.stem}", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = (
    *(
        _loaded(path)
        for path in sorted(Path(__file__).parent.glob("*/test_*.py"))
        if "TINY = " in path.read_text()
    ),
)
TINY = {id: settings for module in MODULES for id, settings in module.TINY.items()}
TOO_TINY = {
    "beyond/contest",
    "gmm-flow/figure-7",
}  # needs real data; a network that does not learn in so few steps
SLOW = frozenset().union(
    *(getattr(module, "SLOW", ()) for module in MODULES)
)  # more than a few seconds even so
EXPERIMENTS = [e for paper in all_papers().values() for e in paper.experiments if e.id in TINY]
CASES = [pytest.param(e, id=e.id, marks=[pytest.mark.slow] if e.id in SLOW else []) for e in EXPERIMENTS]


def test_every_experiment_of_ours_has_a_tiny_setting_and_a_drawing():
    ours = {e.id for name in BUILT_IN for e in all_papers()[name].experiments}
    assert ours == set(TINY)
    drawn = {e.id for paper in all_papers().values() for e in paper.experiments if e.draw is not None}
    assert ours <= drawn


@pytest.mark.parametrize("paper", ["gmm-flow", "double-edged"])
def test_two_sides_of_an_inequality_are_compared_by_their_ratio(paper):
    """A difference against 0 would never be called loose."""
    claims = [claim for e in all_papers()[paper].experiments for claim in e.claims]
    assert not [claim.name for claim in claims if claim.origin == "paper" and claim.bound.value == 0]


@pytest.mark.parametrize("experiment", CASES)
def test_a_tiny_run_gives_rows_verdicts_and_a_drawing(experiment, tmp_path, monkeypatch):
    quicken(monkeypatch)
    context = Context(networks=tmp_path / "networks")
    ran, measure = {}, experiment.measure

    def note(frame, _event, _argument):
        ran.setdefault(frame.f_code, frame.f_globals.get("__name__", ""))

    def traced(setting, seed, context):
        before = sys.gettrace()
        sys.settrace(note)
        try:
            return measure(setting, seed, context)
        finally:
            sys.settrace(before)

    tiny = replace(experiment, scales={"quick": TINY[experiment.id]}, measure=traced)
    (result,), failures = reproduce([tiny], "quick", [0], tmp_path, Serial(), context=context)
    assert not failures
    unseen = _definitions(ran) - dependencies(measure)
    assert not unseen, "an edit of these would go unnoticed"
    silent = [v.id for v in result.verdicts if v.outcome == Outcome.NOT_MEASURED]
    assert not silent or experiment.id in TOO_TINY, "too tiny to say anything about these"
    assert not left_out(experiment, result.rows), "premises of the theorems that these claims name"
    for line in (result.folder / "rows.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)
    plt.close(draw(experiment, result.rows))
    experiment.judge(_without_numbers(result.rows, tiny))
    experiment.judge(Rows((), (0, 1)))  # as in a sweep over some other part of the settings
    again = [json.loads(json.dumps(row)) for row in measure(TINY[experiment.id][0], 0, context)]
    assert _measured(again) == _measured([_own(result.rows[i], row) for i, row in enumerate(again)])


def _definitions(ran):
    """Functions and classes of ours whose functions ran; the body of a class runs when its module is imported."""
    called = {code: module for code, module in ran.items() if code.co_flags & inspect.CO_OPTIMIZED}
    names = {(module, code.co_qualname.partition(".")[0]) for code, module in called.items()}
    return {
        (m, name) for m, name in names if m.startswith("featureprism.") and not name.startswith(("<", "__"))
    }


def _own(row, like):
    """A row without what the setting put in front of it."""
    return {key: row[key] for key in like}


def _measured(rows):
    """Rows without what a clock measured; NaN equals NaN."""
    clock = ("seconds", "train_seconds", "time_ratio")
    return [{k: repr(v) for k, v in row.items() if k not in clock} for row in rows]


def _without_numbers(rows, experiment):
    """The same rows with nothing in place of every number that was measured."""
    given = {"seed", *(name for setting in experiment.settings("quick") for name in fields_of(setting))}
    return Rows.gather(
        {k: None if isinstance(v, float) and k not in given else v for k, v in row.items()} for row in rows
    )
