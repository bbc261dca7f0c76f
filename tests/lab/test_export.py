"""Rows for other tools."""

import csv
import io
import json

from featureprism.lab.export import as_csv, json_lines


def test_no_cell_is_a_formula_and_numbers_stay_numbers():
    words = ["=cmd|x", "+1+2", "-a", "@sum", "\tx", "plain", "-1.5", "+2e3", "-inf"]
    rows = [{"word": word, "value": -0.5, "=name": 1} for word in words]
    table = list(csv.reader(io.StringIO(as_csv(rows))))
    assert table[0] == ["word", "value", "'=name"]
    assert [line[0] for line in table[1:]] == [
        "'=cmd|x",
        "'+1+2",
        "'-a",
        "'@sum",
        "'\tx",
        "plain",
        "-1.5",
        "+2e3",
        "-inf",
    ]
    assert {line[1] for line in table[1:]} == {"-0.5"}


def test_a_row_without_a_column_has_an_empty_cell_and_json_no_infinity():
    rows = [{"a": 1}, {"b": float("inf")}]
    assert as_csv(rows) == "a,b\n1,\n,inf\n"
    assert [json.loads(line) for line in json_lines(rows)] == [{"a": 1}, {"b": None}]
