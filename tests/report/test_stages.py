"""Progress of stages: the time left, a bar, and plain lines."""

import io

from rich.console import Console

from featureprism.report import stages
from featureprism.report.stages import stage_progress, time_left


def test_the_rest_takes_as_long_as_so_far():
    assert time_left(0.25, 30.0) == "about 1:30 left"
    assert time_left(0.001, 30.0) == ""
    assert time_left(1.0, 30.0) == ""


def test_without_a_terminal_there_are_plain_lines_now_and_then(monkeypatch):
    clock = iter([0.0, 0.0, 1.0, 2.0, 40.0, 41.0])
    monkeypatch.setattr(stages.time, "monotonic", lambda: next(clock))
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
