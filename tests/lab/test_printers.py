"""One table of claims in the terminal, as Markdown and as HTML."""

from html.parser import HTMLParser

import pytest

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.lab.printers import to_html, to_markdown, to_terminal, without_tags
from featureprism.lab.table import (
    MARKS,
    VERDICTS,
    ClaimTable,
    counts,
    expected,
    measured,
    tally,
    verdict,
    with_half_width,
)

SENTENCE = "A network trained from a small start is as robust as any classifier can be, whatever its width."


def value(rows):
    return rows.of("v").per_seed("value")


CLAIMS = (
    Claim("ours", "s", "Ours <b> | c.", value, at_most(0.1), origin="featureprism", note="a note"),
    Claim("fails", "Theorem 1", SENTENCE, value, at_most(0.1), premises=requires("one"), reported=0.05),
    Claim("headline", "Theorem 2", SENTENCE, value, at_least(0.3), headline=True, because="it is so"),
    Claim("best", "s", SENTENCE, value, at_least(0.7), ceiling=lambda rows: 0 * value(rows) + 0.6),
    Claim("all", "s", SENTENCE, lambda rows: 0 * value(rows) + 1, at_least(0.9), aggregate="share"),
    Claim("none", "s", SENTENCE, lambda rows: rows.of("w").per_seed("value"), at_least(0.9)),
)
ITEM = Experiment("toy/item", "source", "A title", {"quick": [{}]}, lambda *_: [], CLAIMS)


@pytest.fixture
def table():
    premise = {"kind": "premise", "id": "one.n", "holds": False}
    rows = [
        row
        for seed in range(3)
        for row in ({"seed": seed, "kind": "v", "value": 0.5 + 0.001 * seed}, {"seed": seed, **premise})
    ]
    judged = [v.as_row() for v in ITEM.judge(Rows.gather(rows))]
    return ClaimTable.of_rows("toy/item: A title", "quick", judged)


def test_headline_claims_come_first_and_ours_last(table):
    assert [line.id for line in table] == [
        "item.headline",
        "item.fails",
        "item.best",
        "item.all",
        "item.none",
        "item.ours",
    ]
    assert [line.verdict for line in table] == [
        "holds",
        "fails",
        "out of reach",
        "undecided",
        "not measured",
        "fails",
    ]


def test_what_is_out_of_reach_counts_neither_as_held_nor_as_failed(table):
    assert counts(table)["holds"] == 1
    assert counts(table)["fails"] == 2
    assert counts(table)["out of reach"] == 1
    assert tally(table) == (
        "The paper's claims: 1 holds, 1 fails, 1 undecided, 1 out of reach, 1 not measured; our own: 1 fails"
    )


def test_cells_in_words(table):
    by_id = {line.id: line for line in table}
    assert verdict(by_id["item.best"].last) == "out of reach at this size (at best 0.6)"
    assert measured(by_id["item.all"].last) == "3 of 3"
    assert "seeds would decide" in verdict(by_id["item.all"].last)
    assert expected(by_id["item.fails"].claim) == "≤ 0.1 (reported: 0.05)"
    assert "outside its premises: 1 of 1 fail (one.n)" in by_id["item.fails"].remarks
    assert by_id["item.headline"].remarks == ["bound: it is so"]


def test_every_verdict_has_a_mark():
    assert set(MARKS) == set(VERDICTS)
    assert len(set(MARKS.values())) == len(MARKS)


def test_the_terminal_has_a_line_for_each_claim_within_80_columns(table):
    lines = [text for text, _ in to_terminal(table)]
    assert max(map(len, lines)) <= 80
    assert lines[:4] == [
        "toy/item: A title",
        "✓ item.headline  0.5010 ± 0.0025  ≥ 0.3",
        "  A network trained from a small start is as robust as any classifier can be,",
        "  whatever its width.",
    ]
    assert "○ item.best      0.5010 ± 0.0025  ≥ 0.7" in lines


def test_the_terminal_counts_what_is_no_headline(table):
    lines = [text for text, _ in to_terminal(table, all_claims=False)]
    assert [line for line in lines if line[0] in MARKS.values()] == [
        "✓ item.headline  0.5010 ± 0.0025  ≥ 0.3"
    ]
    assert lines[-1].startswith("  5 more: 2 fail, 1 undecided, 1 out of reach, 1 not measured (--all")


def test_from_120_columns_on_the_sentence_stands_beside_its_numbers(table):
    lines = [text for text, _ in to_terminal(table, width=120)]
    assert max(map(len, lines)) <= 120
    start = "✓ item.headline  0.5010 ± 0.0025  ≥ 0.3"
    (line,) = (text for text in lines if text.startswith(start))
    assert line.removeprefix(start).lstrip() == SENTENCE[: len(line.removeprefix(start).lstrip())]
    assert len([text for text in lines if text[0] in MARKS.values()]) == len(table)


@pytest.mark.parametrize(
    ("value", "half", "shown"),
    [
        (0.99956, 0.066, "1.000 ± 0.066"),
        (12345.6, 700, "12346 ± 7e+02"),
        (0.5, 0, "0.5"),
        (3e-9, 2e-9, "3e-09 ± 2e-09"),
    ],
)
def test_a_number_has_no_more_digits_than_its_interval(value, half, shown):
    assert with_half_width(value, half) == shown


def test_a_long_name_does_not_break_the_line():
    row = dict(ITEM.judge(Rows.gather([{"seed": 0, "kind": "v", "value": 1 / 3}]))[0].as_row())
    table = ClaimTable.of_rows("t" * 100, "quick", [row | {"id": "item." + "x" * 90}])
    assert max(len(text) for text, _ in to_terminal(table)) <= 80


def test_markdown_has_a_row_for_each_claim(table):
    lines = to_markdown(table).splitlines()
    assert lines[0] == "| claim | expected | quick |"
    assert len(lines) == 2 + len(CLAIMS)
    assert "Ours &lt;b> \\| c." in lines[-1]
    assert all(line.replace("\\|", "").count("|") == 4 for line in lines)


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.rows = [], 0

    def handle_starttag(self, tag, attributes):
        self.rows += tag == "article" and dict(attributes).get("id") is not None
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_well_formed_and_escaped(table):
    text, tags = to_html(table), _Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.rows == len(CLAIMS)
    assert "Ours &lt;b&gt; | c." in text
    assert "verdict out-of-reach" in text
    assert "id='item-best'" in text
    assert "href='elsewhere#item.best'" in to_html(table, lambda line: f"elsewhere#{line.id}")


def test_markdown_holds_no_html():
    assert (
        without_tags("<script>alert(1)</script> a < b <!-- x")
        == "&lt;script>alert(1)&lt;/script> a < b &lt;!-- x"
    )
