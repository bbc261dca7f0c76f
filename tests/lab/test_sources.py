"""Hashes of what a function runs, and of small functions without the words around them."""

import sys
from functools import partial
from importlib import import_module, invalidate_caches

import pytest

from featureprism.lab import Claim, modules, sources
from featureprism.lab.rows import Rows
from featureprism.lab.sources import dependencies, paper_hash, source_hash, value_hash

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
        for remembered in (*vars(sources).values(), *vars(modules).values()):
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
    assert value_hash(Claim) == value_hash(Claim) != value_hash(Rows)  # classes have no code of their own


PAPER = {
    "item.py": """
from featureprism.attacks import pgd
from paper_of_a_test.setting import START


def measure(setting, seed, context):
    return [{"a": START, "b": pgd(setting)}]
""",
    "setting.py": "START = 1",
    "other.py": "UNUSED = 1",
    "__init__.py": "",
}


@pytest.fixture
def hashed_paper(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)

    def forget():
        for name in [name for name in sys.modules if name.startswith("paper_of_a_test")]:
            sys.modules.pop(name)
        for remembered in (*vars(sources).values(), *vars(modules).values()):
            if hasattr(remembered, "cache_clear"):
                remembered.cache_clear()

    def hashes(**changes):
        (tmp_path / "paper_of_a_test").mkdir(exist_ok=True)
        for name, code in {**PAPER, **{f"{k}.py": v for k, v in changes.items()}}.items():
            (tmp_path / "paper_of_a_test" / name).write_text(code)
        invalidate_caches()
        forget()
        measure = import_module("paper_of_a_test.item").measure
        return paper_hash(measure), source_hash(measure)

    yield hashes
    forget()


def test_the_hash_of_a_paper_follows_its_definitions_and_those_alone(hashed_paper):
    plain = hashed_paper()
    assert hashed_paper(setting="START = 2")[0] != plain[0]
    assert hashed_paper(other="UNUSED = 2") == plain
    assert hashed_paper(setting="# a comment\nSTART = 1\nMORE = 3") == plain
    moved = PAPER["item.py"].replace("from paper_of_a_test.setting import START", "START = 1")
    assert hashed_paper(item=moved)[0] == plain[0]


def test_a_submodule_is_followed_also_where_its_package_imports_it(hashed_paper):
    item = PAPER["item.py"].replace(
        "from paper_of_a_test.setting import START", "from paper_of_a_test import setting"
    )
    files = {
        "item": item.replace("START", "setting.START").replace("(setting", "(sizes"),
        "__init__": "from paper_of_a_test import setting",
    }
    plain = hashed_paper(**files)
    changed = hashed_paper(**files, setting="START = 2")
    assert changed[0] != plain[0]
    assert changed[1] != plain[1]


def test_a_library_function_counts_by_name_for_a_paper_and_by_body_for_the_store(hashed_paper, monkeypatch):
    plain = hashed_paper()
    true_body = sources._body
    with monkeypatch.context() as patch:
        patch.setattr(
            sources, "_body", lambda module, name: true_body(module, name) + "edited" * (name == "pgd")
        )
        assert hashed_paper()[0] == plain[0]
        assert hashed_paper()[1] != plain[1]
    renamed = PAPER["item.py"].replace("pgd", "minimal_radius")
    assert hashed_paper(item=renamed)[0] != plain[0]


def test_what_is_registered_with_a_generic_function_counts():
    from featureprism.models.model import as_model

    reached = dependencies(as_model.dispatch(object))
    assert {("featureprism.models.model", "_"), ("featureprism.networks.plain", "_")} <= reached
