"""The letters of a paper, each explained in a line, and which of them a text uses.

`letters.md` beside the story of a paper has a line "- `k`, `d`: what they stand for" for each; pages and the command line show it
beside the claims that use them.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

LINE = re.compile(r"^- (?P<letters>`[^`]+`(?:, `[^`]+`)*): (?P<meaning>.+)$")
KNOWN = {
    "O",
    "o",
    "õ",
    "Ω",
    "Θ",
    "Σ",
    "Σ_i",
    "E",
    "P",
    "e",
    "ℓ",
    "ℓ'",
    "π",
    "x",
    "y",
}  # every reader has met them
PRODUCTS = {"md", "mk", "kd", "nm", "rr", "Mw", "Ct"}
NOT_LETTERS = re.compile(
    r"\bo\(|\d+e-?\d+|'s\b|\bL2PGD|\b(?:Theorem|Lemma|Remark|Proposition|Section|Appendix) [A-Z](?:\.\d+)?\b"
)
LETTER = "A-Za-zͰ-Ͽℓ"
RUN = re.compile(rf"(?<![{LETTER}_])([{LETTER}]{{1,2}})((?:_[A-Za-z]+|[₀-₉*'])*)(?![{LETTER}])")


def read_letters(path: Path) -> dict[str, str]:
    """What each letter means, in the order of the file."""
    letters: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines():
        if match := LINE.match(line):
            letters |= dict.fromkeys(re.findall("`([^`]+)`", match["letters"]), match["meaning"])
    return letters


def used_letters(texts: Iterable[str], letters: Mapping[str, str]) -> dict[str, str]:
    """The letters that some texts use and the paper explains; letters with one meaning stand together."""
    symbols = symbols_in(texts)
    together: dict[str, list[str]] = {}
    for letter, meaning in letters.items():
        if letter in symbols:
            together.setdefault(meaning, []).append(letter)
    return {", ".join(names): meaning for meaning, names in together.items()}


def symbols_in(texts: Iterable[str]) -> set[str]:
    """Single letters with their indices, and the factors of products such as md or ηt; words are left out."""
    symbols = set[str]()
    for text in texts:
        for run, index in RUN.findall(NOT_LETTERS.sub(" ", text)):
            if len(run) == 1 and run not in "aAI":
                symbols.add(run + index)
            elif len(run) == 2 and (run in PRODUCTS or not run.isascii()):
                symbols |= {run[0], run[1] + index}
    return symbols


def words_of(claim: Mapping[str, Any]) -> list[str]:
    """The texts of a claim in which letters stand."""
    return [claim.get(name) or "" for name in ("says", "quantity", "because")]


def letters_html(texts: Iterable[str], letters: Mapping[str, str]) -> str:
    """The letters of some texts in a line; nothing where they use none."""
    parts = [
        f"<i>{escape(name)}</i> {escape(meaning)}" for name, meaning in used_letters(texts, letters).items()
    ]
    return f"<p class='small letters'>Here {'; '.join(parts)}.</p>" if parts else ""
