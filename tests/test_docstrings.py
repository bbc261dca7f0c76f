"""Every name at the top and every public function has a docstring with an example, and examples print what they say."""

import doctest
import inspect
import re
from enum import Enum

import numpy as np
import pytest
import torch

import featureprism

LONG = {
    "audit",
    "reproduce",
    "sphere_distance",
    "sweep",
    "train_symmetric",
}  # minutes, files or many lines: guide and gallery have them
FINDER = doctest.DocTestFinder(recurse=False)
MODULES = sorted(set(dir(featureprism)) - {"__version__", *featureprism.__all__})


def public_names():
    """(where, name) of the top and of every module of the reference, each object once."""
    seen = set()
    for where in ("", *MODULES):
        home = getattr(featureprism, where) if where else featureprism
        for name in home.__all__:
            value = getattr(home, name)
            if (inspect.isclass(value) or inspect.isroutine(value)) and id(value) not in seen:
                seen.add(id(value))
                yield where, name


@pytest.mark.parametrize(("where", "name"), list(public_names()))
def test_a_public_name_is_explained_and_its_examples_run(where, name):
    value = getattr(getattr(featureprism, where) if where else featureprism, name)
    assert inspect.getdoc(value), f"featureprism.{where}.{name} has no docstring"
    (case,) = FINDER.find(value, name, globs={})
    needs_example = not where or (inspect.isroutine(value) and name not in LONG)
    assert case.examples or not needs_example, f"featureprism.{where}.{name} has no >>> example"
    report: list[str] = []
    with np.printoptions(precision=8), torch.random.fork_rng():
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(case, out=report.append)
    assert result.failed == 0, "".join(report)
    assert not case.examples or "featureprism" in case.docstring, "an example imports what it uses"


def described(docstring):
    """Names under Parameters and Attributes: `low, high : float` describes two."""
    parts = re.split(r"^([A-Z][a-z]+)\n-+\n", docstring, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    text = sections.get("Parameters", "") + "\n" + sections.get("Attributes", "")
    heads = [line.split(" : ")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    return {name.strip(" *") for head in heads for name in head.split(",")}, sections


@pytest.mark.parametrize(("where", "name"), list(public_names()))
def test_every_parameter_and_result_of_a_public_name_is_described(where, name):
    value = getattr(getattr(featureprism, where) if where else featureprism, name)
    if inspect.isclass(value) and (
        issubclass(value, Enum | Exception) or getattr(value, "_is_protocol", False)
    ):
        return
    signature = inspect.signature(value)
    names, sections = described(inspect.getdoc(value))
    missing = {parameter for parameter in signature.parameters if not parameter.startswith("_")} - names
    assert not missing, f"featureprism.{where}.{name} does not describe {', '.join(sorted(missing))}"
    returns = inspect.isroutine(value) and signature.return_annotation not in (None, "None")
    assert not returns or sections.keys() & {"Returns", "Yields"}, f"featureprism.{where}.{name}: Returns"
