"""What a unit will cost from its beginning: on a clock that each test turns itself."""

from dataclasses import dataclass

import pytest

from featureprism.context import Context
from featureprism.sweep import Local, beginnings
from featureprism.sweep.beginnings import begin, whole
from featureprism.sweep.unit import Unit


@dataclass(frozen=True)
class Setting:
    steps: int


class Clock:
    """Time passes when told so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def steady(clock, *, first=0.0, each=1.0, heard=None):
    """A measurement that takes `first` seconds, then `each` for every step, and reports after each."""

    def measure(setting, _seed, context):
        clock.now += first
        for step in range(setting.steps):
            clock.now += each
            if heard is not None:
                heard.append(step)
            context.progress((step + 1) / setting.steps)
        return []

    return measure


def test_a_steady_measurement_is_told_exactly_and_stopped_in_time():
    clock, heard = Clock(), []
    (row,) = begin(steady(clock, heard=heard), 5.0, Setting(1000), 0, Context(), clock)
    assert row["whole_seconds"] == pytest.approx(1000.0)
    assert row["seen_seconds"] == 5.0
    assert len(heard) == 5


def test_what_comes_once_counts_once():
    clock = Clock()
    (row,) = begin(steady(clock, first=3.0), 10.0, Setting(1000), 0, Context(), clock)
    assert row["whole_seconds"] == pytest.approx(1003.0)


def test_a_long_preparation_is_not_taken_for_the_pace():
    clock = Clock()
    (row,) = begin(steady(clock, first=50.0), 5.0, Setting(1000), 0, Context(), clock)
    assert row["whole_seconds"] == pytest.approx(1050.0)
    assert row["seen_seconds"] == 52.0


def test_one_that_ends_in_time_is_known_whole():
    clock = Clock()
    (row,) = begin(steady(clock), 50.0, Setting(4), 0, Context(), clock)
    assert row == {"seen_seconds": 4.0, "whole_seconds": 4.0}


def test_a_single_report_is_waited_for_and_goes_on_as_before():
    clock = Clock()
    (row,) = begin(steady(clock, each=20.0), 5.0, Setting(10), 0, Context(), clock)
    assert row == {"seen_seconds": 20.0, "whole_seconds": 200.0}


def test_steps_that_grow_at_first_are_left_out():
    """An adaptive step that is tiny for a second, then a hundredth of the whole each second."""
    reports = [(0.5, 1e-6), (1.0, 1e-5), (2.0, 0.01), (3.0, 0.02), (4.0, 0.03)]
    assert whole(reports) == pytest.approx(4.0 + 0.97 / 0.01)


def test_one_that_gets_faster_is_watched_until_its_pace_settles():
    """Shares double with every second up to 1/100, then grow by that: 1 is reached about 100 seconds later."""
    clock = Clock()

    def measure(_setting, _seed, context):
        done, step = 0.0, 1e-6
        while done < 1:
            clock.now += 1.0
            step = min(2 * step, 0.01)
            done = min(done + step, 1.0)
            context.progress(done)
        return []

    (exact,) = begin(measure, 1e9, Setting(0), 0, Context(), clock)
    (row,) = begin(measure, 6.0, Setting(0), 0, Context(), clock)
    assert row["whole_seconds"] == pytest.approx(exact["whole_seconds"], rel=0.3)
    assert 12 < row["seen_seconds"] < 60


def test_no_net_of_exceptions_holds_it():
    clock = Clock()

    def measure(setting, _seed, context):
        for step in range(setting.steps):
            clock.now += 1.0
            try:
                context.progress((step + 1) / setting.steps)
            except Exception:
                pytest.fail("the end was caught")
        return []

    (row,) = begin(measure, 2.0, Setting(10), 0, Context(), clock)
    assert row["whole_seconds"] == pytest.approx(10.0)


def endless(_setting, _seed, context):
    """Reports after every step; takes hours."""
    step = 0
    while step < 1e9:
        step += 1
        context.progress(step / 1e9)
    return []


def broken(_setting, _seed, _context):
    raise ValueError("no such thing")


def test_units_are_begun_in_another_process_and_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(beginnings, "LEAST", 0.01)
    monkeypatch.setattr(beginnings, "MOST", 0.01)
    context = Context(networks=tmp_path / "networks")
    units = [Unit(f.__name__, f, {"a": 1}, 0, {"a": 1}) for f in (endless, broken)]
    (found,) = beginnings.beginnings(units, context, Local(1)).items()
    assert found[0] == units[0].key
    assert found[1].seconds > found[1].seen > 0
    assert found[1].memory_mb > 0
    assert not list(tmp_path.iterdir())


def test_nothing_to_begin_starts_nothing():
    assert beginnings.beginnings([], Context(), Local(1)) == {}
