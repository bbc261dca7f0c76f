"""Every letter that a claim uses is explained, and shown beside the claim."""

import pytest

from featureprism.cli import main
from featureprism.lab.letters import KNOWN, letters_html, read_letters, symbols_in, used_letters, words_of
from featureprism.lab.registry import BUILT_IN, paper_called


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_letter_of_a_claim_is_explained_and_no_other(name):
    paper = paper_called(name)
    words = [words_of(claim.as_row()) for e in paper.experiments for claim in e.claims]
    used = set[str]().union(*map(symbols_in, words))
    assert used - set(paper.letters) <= KNOWN
    assert set(paper.letters) <= used


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("A step of length √(d/k) from a centre", {"d", "k"}),
        ("share ÷ (1-1/(3m²))^(2mk), at 1e-4", {"m", "k"}),
        ("the law's value on |c_l|/c_k at t₁, T* and r'", {"c_l", "c_k", "t₁", "T*", "r'"}),
        ("Theorem C.22 is about -y Mw* and ln(ηt)/4", {"y", "M", "w*", "η", "t"}),
        ("A network that is in no way robust", set()),
    ],
)
def test_letters_are_told_from_words(text, symbols):
    assert symbols_in([text]) == symbols


def test_a_file_of_letters_is_read_and_those_in_use_are_shown(tmp_path):
    path = tmp_path / "letters.md"
    path.write_text("# Letters\n\n- `k`: number of <clusters>\n- `r`, `r'`: norms\n- `n`: points\n", "utf-8")
    letters = read_letters(path)
    assert list(letters) == ["k", "r", "r'", "n"]
    assert used_letters(["rr'/k"], letters) == {"k": "number of <clusters>", "r, r'": "norms"}
    assert "<i>k</i> number of &lt;clusters&gt;" in letters_html(["√k"], letters)
    assert letters_html(["none here"], letters) == ""


def test_show_explains_the_letters(capsys):
    assert main(["show", "double-edged/theorem-4-2"]) == 0
    printed = capsys.readouterr().out
    assert "\nLetters:\n  k: number of clusters\n" in printed
    assert max(map(len, printed.splitlines()[-12:])) <= 80
