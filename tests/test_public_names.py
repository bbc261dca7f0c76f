"""The names at the top: few, each from where it says, and free until it is used; the modules of the reference list their own."""

import ast
import subprocess
import sys
from importlib import import_module

import pytest

import featureprism

MODULES = [
    "attacks",
    "audit",
    "data",
    "geometry",
    "heads",
    "lab",
    "models",
    "networks",
    "probes",
    "seeds",
    "training",
    "verify",
    "zoo",
]
TOP = [
    "Budget",
    "Claim",
    "DecoupledHead",
    "Experiment",
    "GaussianHead",
    "PReLUHead",
    "Paper",
    "RadiusBracket",
    "check",
    "explain",
    "generator_for",
    "load_head",
    "read_model",
    "robust_radius",
    "verify_property",
]


def named_for_type_checkers():
    """(module, name) of every import under `if TYPE_CHECKING`; name is None where a module is imported."""
    with open(featureprism.__file__) as file:
        (block,) = [node for node in ast.parse(file.read()).body if isinstance(node, ast.If)]
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


def test_fifteen_names_stand_at_the_top():
    assert featureprism.__all__ == TOP


def test_people_and_type_checkers_see_the_same_names_and_modules():
    shown = list(named_for_type_checkers())
    assert sorted(name for _, name in shown if name) == TOP
    assert [module.removeprefix("featureprism.") for module, name in shown if name is None] == MODULES
    assert dir(featureprism) == sorted({"__version__", *TOP, *MODULES})


def test_every_name_is_that_of_its_module():
    for module, name in named_for_type_checkers():
        home = import_module(module)
        assert home is getattr(featureprism, module.split(".")[1])
        assert name is None or getattr(featureprism, name) is getattr(home, name)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_reference_has_the_names_it_lists(module):
    home = getattr(featureprism, module)
    assert len(set(home.__all__)) == len(home.__all__)
    assert all(hasattr(home, name) for name in home.__all__)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("sample_xor", "It is featureprism.data.sample_xor."),
        ("robust_radus", "Did you mean 'robust_radius'?"),
        ("zzz", "Public names are Budget"),
    ],
)
def test_a_name_that_is_not_at_the_top_is_found_elsewhere(name, advice):
    with pytest.raises(AttributeError, match=advice):
        getattr(featureprism, name)


def test_importing_the_package_does_not_import_torch():
    code = "import sys, featureprism; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
