"""Every public name has a docstring with an example, and the example prints what it says."""

import doctest

import numpy as np
import pytest
import torch

import featureprism

FINDER = doctest.DocTestFinder(recurse=False)


@pytest.mark.parametrize("name", featureprism.__all__)
def test_the_example_of_a_public_name_runs(name):
    (found,) = FINDER.find(getattr(featureprism, name), name, globs={})
    assert found.examples, f"the docstring of featureprism.{name} has no >>> example"
    told: list[str] = []
    with np.printoptions(precision=8), torch.random.fork_rng():
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=told.append)
    assert result.failed == 0, "".join(told)


def test_every_example_imports_what_it_uses():
    for name in featureprism.__all__:
        text = getattr(featureprism, name).__doc__
        assert "import featureprism as fp" in text or "from featureprism" in text, name
