"""Hashes of what a function runs, and of small functions without the words around them."""

import sys
from functools import partial
from importlib import import_module, invalidate_caches

import pytest

from featureprism.lab import sources
from featureprism.lab.sources import value_hash

CODE = """
from functools import partial
from featureprism.lab import Claim, below

FACTOR = 2


def scaled(rows):
    return FACTOR * rows.per_seed("a")


def lowest(rows, name):
    return rows.least(name)


def of(column):
    return lambda rows: rows.per_seed(column)


CLAIMS = (
    Claim("plain", "s", "Words.", lambda rows: rows.per_seed("a"), below(1)),
    Claim("named", "s", "Words.", lambda rows: scaled(rows), below(1)),
    Claim("closed", "s", "Words.", of("a"), below(1)),
    Claim("partial", "s", "Words.", partial(lowest, name="a"), below(1)),
)
"""


@pytest.fixture
def hashed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)

    def hashes(code):
        (tmp_path / "claims_of_a_test.py").write_text(code)
        sys.modules.pop("claims_of_a_test", None)
        invalidate_caches()
        for remembered in vars(sources).values():
            if hasattr(remembered, "cache_clear"):
                remembered.cache_clear()
        module = import_module("claims_of_a_test")
        return {claim.name: value_hash(claim.value) for claim in module.CLAIMS}

    yield hashes
    sys.modules.pop("claims_of_a_test", None)


def test_words_do_not_count(hashed):
    reworded = CODE.replace("Words.", "Other words, at length.").replace("CLAIMS = (", "CLAIMS = (  # so\n\n")
    assert hashed(CODE) == hashed(reworded)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ('lambda rows: rows.per_seed("a")', 'lambda rows: rows.per_seed("b")', {"plain"}),
        ("FACTOR = 2", "FACTOR = 3", {"named"}),
        ('of("a")', 'of("b")', {"closed"}),
        ('name="a"', 'name="b"', {"partial"}),
        ("rows.least(name)", "rows.largest(name)", {"partial"}),
    ],
)
def test_what_gives_the_value_counts(old, new, changed, hashed):
    before, after = hashed(CODE), hashed(CODE.replace(old, new))
    assert {name for name in before if before[name] != after[name]} == changed


def test_equal_functions_have_equal_hashes():
    assert value_hash(partial(max, 1)) == value_hash(partial(max, 1))
