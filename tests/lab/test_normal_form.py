"""Two versions of a paper have one hash exactly when they differ in names that do not matter."""

import sys
from importlib import import_module, invalidate_caches

import pytest

from featureprism.lab import modules, sources
from featureprism.lab.sources import paper_hash, value_hash

ITEM = '''
from dataclasses import dataclass
from math import sqrt

import numpy as np

from featureprism.attacks import pgd, minimal_radius
from normal_form_paper.theory import rate
from normal_form_paper import theory

WIDTH = 20


@dataclass(frozen=True)
class Setting:
    dim: int = 3
    noise: float = 0.5

    @property
    def scale(self) -> float:
        return self.noise / self.dim


class Net:
    width = WIDTH

    def __init__(self, width: int) -> None:
        self.width = width


def _helper(first: float, second: float, *, power: int = 2) -> float:
    """Words."""
    total = first - second
    return total**power


def measure(s: Setting, seed: int, context: object) -> list:
    """Words."""
    found = [_helper(each, s.scale, power=3) for each in range(s.dim)]
    own = {"a": sum(found), "b": rate(WIDTH) + theory.LEAST}
    for index, each in enumerate(found):
        own[index] = np.maximum(each, sqrt(index)) if index else pgd(each)

    def inner(x: float) -> float:
        return x * len(own)

    try:
        net = Net(width=seed)
    except ValueError as error:
        raise KeyError(str(error)) from error
    return [own, inner(net.width), (lambda z: z + seed)(1)]


def of(column):
    scale = WIDTH
    return lambda rows: scale * rows.per_seed(column)


VALUE = of("a")
PLAIN = lambda rows: _helper(rows.least("a"), rows.largest("a"))
'''
THEORY = """
LEAST = 4


def rate(size: int) -> float:
    return 1 / size
"""


@pytest.fixture
def hashed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "normal_form_paper"
    folder.mkdir()
    (folder / "__init__.py").touch()

    def forget():
        for name in [name for name in sys.modules if name.startswith("normal_form_paper")]:
            sys.modules.pop(name)
        for remembered in (*vars(sources).values(), *vars(modules).values()):
            if hasattr(remembered, "cache_clear"):
                remembered.cache_clear()

    def hashes(item=ITEM, theory=THEORY):
        (folder / "item.py").write_text(item)
        (folder / "theory.py").write_text(theory)
        invalidate_caches()
        forget()
        module = import_module("normal_form_paper.item")
        return paper_hash(module.measure), value_hash(module.VALUE), value_hash(module.PLAIN)

    yield hashes
    forget()


@pytest.mark.parametrize(
    "renamed",
    [
        [("found", "powers")],
        [("own", "row"), ("index", "place"), ("each", "one")],
        [("_helper", "_difference")],
        [("total", "gap"), ("first", "lower"), ("second", "upper")],
        [("WIDTH", "HIDDEN")],
        [("Setting", "Sizes"), ("Net", "Network")],
        [("inner", "times_length"), ("error", "problem"), ("lambda z: z", "lambda y: y")],
        [("(s: ", "(setting: "), (" s.", " setting."), ("(s.", "(setting.")],
        [("column", "name"), ("scale = WIDTH", "factor = WIDTH"), ("scale * rows", "factor * rows")],
        [("lambda rows: _helper(rows.least", "lambda r: _helper(r.least"), (", rows.largest", ", r.largest")],
        [("first: float, second: float", "first, second"), ("x: float) -> float", "x) -> int")],
        [('"""Words."""', '"""Other words, and more of them."""'), ("WIDTH = 20", "WIDTH = 20  # why")],
        [("import numpy as np", "import numpy"), ("np.", "numpy.")],
        [("import pgd, minimal_radius", "import pgd as ascent"), ("pgd(each)", "ascent(each)")],
        [("import rate", "import rate as law"), ("rate(WIDTH)", "law(WIDTH)")],
        [("from normal_form_paper.theory import rate\n", ""), (" rate(WIDTH)", " theory.rate(WIDTH)")],
        [("from math import sqrt", "import math"), ("sqrt(index)", "math.sqrt(index)")],
        [("from featureprism.attacks import", "from featureprism.attacks.gradient import"), ("pgd, minimal_radius", "pgd")],
        [("class Net:", "UNUSED = 3\n\n\nclass Net:")],
    ],
)  # fmt: skip
def test_a_rename_is_no_change(renamed, hashed):
    text = ITEM
    for old, new in renamed:
        assert old in text
        text = text.replace(old, new)
    assert hashed(text) == hashed()


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("WIDTH = 20", "WIDTH = 21", "mv"),  # a constant
        ("noise: float = 0.5", "noise: float = 0.6", "m"),
        ("power: int = 2", "power: int = 4", "mp"),
        ("power=3", "power=4", "m"),
        (", power=3", "", "m"),  # a keyword argument
        ("first - second", "second - first", "mp"),  # the order of what an operator takes
        ("first - second", "first + second", "mp"),  # an operator
        ("self.noise / self.dim", "self.dim / self.noise", "m"),  # a property of the settings
        ("_helper(each, s.scale", "_helper(s.scale, each", "m"),  # the order of arguments
        ("first: float, second: float", "second: float, first: float", "mp"),
        ("pgd(each)", "minimal_radius(each)", "m"),  # what is called
        ("np.maximum", "np.minimum", "m"),
        ("enumerate(found)", "enumerate(own)", "m"),  # another variable
        ("x * len(own)", "seed * len(own)", "m"),
        ("(lambda z: z + seed)", "(lambda z: z + z)", "m"),
        ('"b": rate', '"c": rate', "m"),
        ("rate(WIDTH)", "sqrt(WIDTH)", "m"),
        (
            "dim: int = 3\n    noise: float = 0.5",
            "noise: float = 0.5\n    dim: int = 3",
            "m",
        ),  # order of fields
        ("if index else", "if not index else", "m"),
        ("for each in range(s.dim)", "for each in range(s.dim) if each", "m"),
        ("width = WIDTH", "width = 3", "m"),
        ('of("a")', 'of("b")', "v"),
        ("scale * rows", "rows", "v"),
        ('rows.least("a"), rows.largest("a")', 'rows.largest("a"), rows.least("a")', "p"),
    ],
)
def test_what_changes_a_value_changes_the_hash(old, new, changed, hashed):
    assert old in ITEM
    before, after = hashed(), hashed(ITEM.replace(old, new))
    assert "".join(name for name, a, b in zip("mvp", before, after, strict=True) if a != b) == changed


@pytest.mark.parametrize(("old", "new"), [("LEAST = 4", "LEAST = 5"), ("1 / size", "2 / size")])
def test_another_module_of_the_paper_counts(old, new, hashed):
    assert hashed(theory=THEORY.replace(old, new))[0] != hashed()[0]
    assert hashed(theory=THEORY.replace("size", "hidden")) == hashed()


def test_swapped_parameters_that_are_passed_by_name_are_a_change(hashed):
    by_name = ITEM.replace("_helper(each, s.scale, power=3)", "_helper(first=each, second=s.scale)")
    swapped = by_name.replace("(first: float, second: float", "(second: float, first: float").replace(
        "total = first - second", "total = second - first"
    )
    assert hashed(by_name)[0] != hashed(swapped)[0]


def test_two_variables_that_change_places_are_a_change(hashed):
    swapped = ITEM.replace("own[index] = np.maximum(each", "own[each] = np.maximum(index")
    assert hashed(swapped)[0] != hashed()[0]


def test_code_that_looks_at_names_keeps_them(hashed):
    looking = ITEM.replace('{"a": sum(found)', '{"a": _helper.__name__')
    assert hashed(looking)[0] != hashed(looking.replace("_helper", "_renamed"))[0]


def test_recursion_ends(hashed):
    recursive = ITEM.replace("return total**power", "return _helper(total, first) if total else measure")
    assert hashed(recursive) == hashed(recursive.replace("_helper", "_other"))
    assert hashed(recursive)[0] != hashed()[0]
