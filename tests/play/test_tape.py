import pytest

from featureprism.play.tape import Tape


def test_a_tape_is_made_once_and_as_far_as_anyone_looks():
    made = []

    def numbers():
        for i in range(5):
            made.append(i)
            yield i

    tape = Tape(numbers())
    assert tape.at(1) == 1
    assert made == [0, 1]
    assert list(tape) == list(tape) == [0, 1, 2, 3, 4]
    assert tape.end() == 4
    assert tape.at(7) is None
    assert made == [0, 1, 2, 3, 4]


def test_an_error_is_told_to_everyone_who_reaches_it():
    def broken():
        yield 1
        raise ValueError("no further")

    tape = Tape(broken())
    for _ in range(2):
        assert tape.at(0) == 1
        with pytest.raises(ValueError, match="no further"):
            tape.at(1)
