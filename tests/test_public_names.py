"""The names at the top: each is there, from where it says, and costs nothing until it is asked for."""

import ast
import subprocess
import sys
from importlib import import_module

import pytest

import featureprism


def named_for_type_checkers():
    """(room, name) of every import under `if TYPE_CHECKING`."""
    with open(featureprism.__file__) as file:
        (block,) = [node for node in ast.parse(file.read()).body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {(node.module, alias.name) for node in imports for alias in node.names}


def test_every_name_is_that_of_its_room():
    for room, name in named_for_type_checkers():
        assert getattr(featureprism, name) is getattr(import_module(room), name)


def test_people_and_type_checkers_see_the_same_names():
    names = [name for _, name in named_for_type_checkers()]
    assert sorted(names) == sorted(featureprism.__all__)
    assert set(names) <= set(dir(featureprism))


def test_a_name_that_is_not_there_is_looked_for_in_a_room():
    with pytest.raises(AttributeError, match="grouped_start"):
        featureprism.grouped_start  # noqa: B018


def test_importing_the_package_does_not_import_torch():
    code = "import sys, featureprism; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
