"""Sentences in a terminal break between words."""

import sys

from featureprism.commands.words import say, wrapped

TEXT = "What now:\n  - One direction breaks most points, as theory predicts of features that are averages."


def test_lines_are_broken_between_words_and_say_the_same():
    lines = wrapped(TEXT.splitlines()[1], 40)
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith("  - One")
    assert all(line.startswith("    ") for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == TEXT.splitlines()[1].strip()
    assert wrapped("", 40) == [""]
    assert wrapped("/a/path/that-is-longer-than/the-line", 10) == ["/a/path/that-is-longer-than/the-line"]


def test_a_pipe_gets_whole_lines_and_a_terminal_broken_ones(capsys, monkeypatch):
    say(TEXT)
    assert capsys.readouterr().out == TEXT + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    say(TEXT)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40
