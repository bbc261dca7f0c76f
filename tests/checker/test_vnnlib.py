"""VNN-LIB files: what they say, and files that nobody should read."""

import gzip
from fractions import Fraction

import numpy as np
import pytest

from featureprism.checker import vnnlib
from featureprism.checker.vnnlib import property_of, read_property

DECLARED = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "Y_0", "Y_1"))
BOX = "(assert (<= X_0 0.1)) (assert (>= X_0 -1)) (assert (<= X_1 2)) (assert (>= X_1 1.5))"


def test_conjunctions_are_one_case_and_disjunctions_several():
    text = (
        DECLARED
        + BOX
        + "; a comment (\n(assert (<= Y_0 Y_1)) (assert (or (and (>= Y_0 3.5)) (and (<= Y_1 -1) (>= Y_1 -2))))"
    )
    prop = property_of(text)
    assert (prop.num_inputs, prop.num_outputs, len(prop.cases)) == (2, 2, 2)
    first, second = prop.cases
    assert first.A.tolist() == [[1, -1], [-1, 0]]
    assert first.b.tolist() == [0, -3.5]
    assert second.A.tolist() == [[1, -1], [0, 1], [0, -1]]
    assert second.b.tolist() == [0, -1, 2]
    assert first.has_box_of(second)


SECOND = """(vnnlib-version <2.0>) ; see (declare-network X [1])
(declare-network net
  (declare-input image float32 [1, 2])
  (declare-output score float32 [2]))
"""


def in_second_version(text):
    """The same assertions with the names of version 2.0."""
    for i in range(2):
        text = text.replace(f"X_{i}", f"image[0, {i}]").replace(f"Y_{i}", f"score [{i}]")
    return SECOND + text


@pytest.mark.parametrize(
    "text", ["(assert (<= Y_0 Y_1))", "(assert (or (>= Y_0 0.1) (and (<= (* 2 Y_1) -1) (>= X_0 0))))"]
)
def test_version_2_says_the_same_as_version_1(text):
    assert property_of(in_second_version(BOX + text)).sha256 == property_of(DECLARED + BOX + text).sha256


def test_as_many_variables_as_are_allowed_are_allowed(monkeypatch):
    text = in_second_version(BOX + "(assert (<= Y_0 Y_1))")
    monkeypatch.setattr(vnnlib, "MOST_VARIABLES", 2)
    assert property_of(text).num_inputs == 2
    monkeypatch.setattr(vnnlib, "MOST_VARIABLES", 1)
    for too_many in (text, DECLARED + BOX):
        with pytest.raises(ValueError, match="more than 1 variables"):
            property_of(too_many)


def test_elements_are_counted_in_c_order_and_equalities_are_two_rows():
    text = SECOND.replace("[1, 2]", "[2,2]") + "".join(
        f"(assert (== image[{i},{j}] {2 * i + j}))" for i in range(2) for j in range(2)
    )
    (case,) = property_of(text + "(assert (== score[0] 3))").cases
    assert case.lower.tolist() == case.upper.tolist() == [0, 1, 2, 3]
    assert case.A.tolist() == [[1, 0], [-1, 0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SECOND.replace("<2.0>", "<3.0>"), "its version is <3.0>"),
        (SECOND + SECOND.splitlines()[1] + ")", "several networks"),
        (SECOND.replace("[2])", "[2]) (declare-output other float32 [1])"), "several inputs or outputs"),
        (SECOND.replace("[2])", "[2]) (declare-hidden h float32 [1])"), "declare-hidden h"),
        (SECOND.replace("[1, 2]", "[99999999]"), "more than"),
        (SECOND + "(assert (<= image[0,2] 1))", "outside of its shape"),
        (SECOND + "(assert (<= image[1] 1))", "outside of its shape"),
        (SECOND + "(assert (<= other[0] 1))", "is not declared"),
        (SECOND + "(assert (< score[0] 1))", "is not understood"),
        (SECOND + "(assert (<= score[-1] 1))", "is no number and no variable"),
        (SECOND + "(assert (<= score 1))", "is no number and no variable"),
        ("(vnnlib-version <2.0>)", "declares no inputs"),
    ],
)
def test_what_version_2_may_not_say(text, words):
    with pytest.raises(ValueError, match=words):
        property_of(text)


def test_boxes_of_inputs_may_differ_between_cases_and_empty_ones_are_left_out():
    text = (
        DECLARED
        + BOX
        + "(assert (or (and (<= X_0 0) (>= Y_0 1)) (and (>= X_0 0.5) (>= Y_0 2)) (and (>= X_0 0) (>= Y_0 3))))"
    )
    cases = property_of(text).cases
    assert [case.b.tolist() for case in cases] == [[-1], [-3]]
    assert cases[0].upper[0] == 0
    assert cases[1].lower[0] == 0


def test_decimals_are_rounded_so_that_nothing_is_left_out():
    (case,) = property_of(DECLARED + BOX + "(assert (<= Y_0 0.3))").cases
    assert Fraction(case.upper[0]) >= Fraction("0.1") > Fraction(np.nextafter(case.upper[0], -1))
    assert Fraction(case.b[0]) >= Fraction("0.3") > Fraction(np.nextafter(case.b[0], -1))
    assert (case.lower == [-1, 1.5]).all()


def test_sums_and_multiples_of_outputs():
    (case,) = property_of(DECLARED + BOX + "(assert (<= (+ (* 2 Y_0) (- Y_1) 1) (- Y_0 3)))").cases
    assert case.A.tolist() == [[1, -1]]
    assert case.b.tolist() == [-4]


def test_a_gzipped_file_is_the_same(tmp_path):
    text = DECLARED + BOX + "(assert (<= Y_0 Y_1))"
    plain, packed = tmp_path / "p.vnnlib", tmp_path / "p.vnnlib.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_property(plain).sha256 == read_property(packed).sha256


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "declares no inputs"),
        (DECLARED + "(assert (<= X_0 1))", "no lower and upper bound"),
        (DECLARED + BOX + "(assert (<= Y_2 1))", "not declared"),
        (DECLARED + BOX + "(assert (<= (* Y_0 Y_1) 1))", "not linear"),
        (DECLARED + BOX + "(assert (<= (+ X_0 X_1) 1))", "bound of one input"),
        (DECLARED + BOX + "(assert (< Y_0 1))", "not understood"),
        (DECLARED + BOX + "(assert (<= (/ Y_0 2) 1))", "wanted are numbers"),
        (DECLARED + BOX + f"(assert (or {'(<= Y_0 1) ' * 10_001}))", "more than 10000 cases"),
        ("(vnnlib-version <2.0>)\n(declare-const X_0 Real)", "wanted are declare-network"),
        (DECLARED + BOX + "(assert (<= Y_0 nan))", "no number"),
        (DECLARED + BOX + "(assert (<= Y_0 1e999999999))", "no number"),
        (DECLARED + BOX + "(assert (<= Y_0 1e200))", "too large"),
        (DECLARED + BOX + "(assert (<= (* 0.1 Y_0) 1))", "no double"),
        (DECLARED + BOX + "(assert (<= Y_0 1)", "not closed"),
        (DECLARED + BOX + ")", "outside"),
        ("(" * 100_000, "nested"),
        (DECLARED + BOX + "(assert (or (<= Y_0 1) (<= Y_1 1)))" * 20, "cases"),
        ("(declare-const X_5 Real)", "X_0 is next"),
        ("(declare-fun f () Real)", "not understood"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text, says):
    with pytest.raises(ValueError, match=says):
        property_of(text)


def test_files_that_are_too_long_or_no_text_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(vnnlib, "LONGEST", 1000)
    bomb = tmp_path / "bomb.vnnlib.gz"
    bomb.write_bytes(gzip.compress(b" " * 100_000))
    for path, content in (("a.vnnlib", b"\xff\xfe"), ("b.vnnlib", b";" * 2000), ("c.vnnlib", b"\x1f\x8bxx")):
        (tmp_path / path).write_bytes(content)
    for path in ("bomb.vnnlib.gz", "a.vnnlib", "b.vnnlib", "c.vnnlib", "missing.vnnlib"):
        with pytest.raises(ValueError, match=path):
            read_property(tmp_path / path)
