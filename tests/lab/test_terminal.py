"""Progress of stages: the time left, a bar, and plain lines."""

import io
import warnings

import pytest
from rich.console import Console

from featureprism.lab import terminal
from featureprism.lab.terminal import progress_bar, stage_progress, time_left


def test_the_rest_takes_as_long_as_so_far():
    assert time_left(0.25, 30.0) == "about 1:30 left"
    assert time_left(0.001, 30.0) == ""
    assert time_left(1.0, 30.0) == ""


def test_without_a_terminal_there_are_plain_lines_now_and_then(monkeypatch):
    clock = iter([0.0, 0.0, 1.0, 2.0, 40.0, 41.0])
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    text = io.StringIO()
    with stage_progress("audit", console=Console(file=text, force_terminal=False, width=40)) as show:
        for share, words in (
            (0.1, "0 of 2 stages; a 20%"),
            (0.2, "0 of 2 stages; a 40%"),
            (0.4, "0 of 2 stages; a 80%"),
            (0.5, "1 of 2 stages; b 0%"),
        ):
            show(share, words)
    assert text.getvalue().splitlines() == [
        "audit: 10%, 0 of 2 stages; a 20%; about 0:09 left",
        "audit: 40%, 0 of 2 stages; a 80%; about 1:00 left",
        "audit: 50%, 1 of 2 stages; b 0%; about 0:41 left",
    ]


def test_in_a_terminal_there_is_a_bar():
    text = io.StringIO()
    with stage_progress("audit", console=Console(file=text, force_terminal=True, width=100)) as show:
        show(0.5, "1 of 2 stages")
    assert "audit 1 of 2 stages" in text.getvalue()


def test_a_bar_without_a_terminal_is_lines_and_none_of_a_short_run(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    text = io.StringIO()
    with progress_bar("contest", console=Console(file=text, force_terminal=False, width=40)) as bar:
        bar.move(0, 4, "quick")
        bar.within(0.5)
        assert text.getvalue() == ""
        now[0] = 60.0
        bar.move(2, 4, "quick")
        bar.within(0.2)
    assert text.getvalue() == "contest: 50%, 2 of 4 quick; about 1:00 left\n"


@pytest.mark.parametrize("show_by", [stage_progress, progress_bar])
def test_a_notebook_has_one_line_that_is_written_over(show_by, monkeypatch, capsys):
    """What rich draws in notebooks needs widgets and warns without them."""
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with show_by("audit", console=Console(force_jupyter=True, width=80)) as show:
            for now[0], share in ((10.0, 0.25), (20.0, 0.5), (20.1, 0.6), (40.0, 1.0)):
                if show_by is stage_progress:
                    show(share, "heads")
                else:
                    show.log("heads")
                    show.within(share)
    told = capsys.readouterr()
    assert told.out == ""
    shown = told.err.rstrip("\n").split("\r")
    assert [line.partition(",")[0] for line in shown] == ["", "audit: 25%", "audit: 50%", "audit: 100%"]
    assert told.err.count("\n") == 1
    assert len(shown[-1]) >= len(shown[-2].rstrip())  # nothing of a longer line stays behind
