"""The checks bite, in every test anew, and spare loops."""

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError

import shape_checks
from featureprism.brackets import RadiusBracket
from featureprism.geometry import unit_rows
from featureprism.networks import LinearClassifier


def test_a_wrong_shape_is_refused():
    with pytest.raises(TypeCheckError):
        LinearClassifier(torch.ones(2, 2))


def test_a_loop_is_checked_only_at_its_beginning():
    net, x = LinearClassifier(torch.ones(3)), torch.ones(2, 3)
    for _ in range(shape_checks.MOST):
        net(x)
    assert net(x[0]).ndim == 0  # a point is not a list of points, but nobody looks any more
    shape_checks.begin_test()
    with pytest.raises(TypeCheckError):
        net(x[0])


def test_so_is_a_dataclass_of_which_many_are_made():
    good, bad = np.ones(2), np.ones((2, 1))  # one radius for each point, and a table of them
    with pytest.raises(TypeCheckError):
        RadiusBracket(bad, bad)
    for _ in range(shape_checks.MOST):
        RadiusBracket(good, good)
    RadiusBracket(bad, bad)
    shape_checks.begin_test()
    with pytest.raises(TypeCheckError):
        RadiusBracket(bad, bad)


def test_functions_keep_their_names():
    assert unit_rows.__name__ == "unit_rows"
