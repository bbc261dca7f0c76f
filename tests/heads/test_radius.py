"""Multi-class radii against a brute-force grid, and against each pair on its own."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs

from featureprism.heads import DecoupledHead, PReLUHead
from featureprism.heads.network import HeadNet
from featureprism.verify import Budget, robust_radius


def on_a_grid(net, point, own, reach=6.0, num=301):
    """Distance from a point of the plane to the nearest grid point that another class wins."""
    line = torch.linspace(-reach, reach, num).double()
    delta = torch.cartesian_prod(line, line)
    with torch.no_grad():
        scores = net(point + delta)
    best_rival = scores.clone()
    best_rival[:, own] = -torch.inf
    flipped = best_rival.amax(dim=1) >= scores[:, own]
    return float(delta[flipped].norm(dim=1).min()) if bool(flipped.any()) else np.inf


@pytest.mark.parametrize("p", [1.0, 3.0])
def test_the_bracket_holds_the_truth_in_the_plane(p):
    X, y = make_blobs(90, centers=3, cluster_std=1.2, random_state=1)
    head = PReLUHead(p=p, width=3, random_state=0).fit(X, y)
    bracket = head.robust_radius(X[:3], y[:3], budget=Budget(branches=2))
    for i in range(3):
        truth = on_a_grid(head.net_, torch.as_tensor(X[i]), int(y[i]))
        assert bracket.certified[i] <= truth + 1e-9
        if truth < 6:  # beyond it the square grid ends
            assert bracket.attacked[i] >= truth - 0.06  # the grid's own width


def test_the_radius_is_the_least_over_all_rivals():
    head = DecoupledHead(num_subclasses=2, random_state=0)
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = X[:200], y[:200]
    head.fit(X, y)
    found = head.robust_radius(X[:2], y[:2], budget=Budget(branches=1))
    for i in range(2):
        own = int(y[i])
        pairs = [
            robust_radius(
                head.net_.margin(own, c),
                torch.as_tensor(X[i : i + 1]),
                torch.ones(1).double(),
                budget=Budget(branches=1),
            )
            for c in range(3)
            if c != own
        ]
        least = min(float(pair.attacked[0]) for pair in pairs)
        assert float(found.attacked[i]) == pytest.approx(least, rel=1e-3)
        assert found.certified[i] <= least
    moved = torch.as_tensor(X[:2] + found.witness)
    with torch.no_grad():
        scores = head.net_(moved)
    own = scores.gather(1, torch.as_tensor(y[:2]).unsqueeze(1)).squeeze(1)
    assert bool((scores.amax(dim=1) >= own).all())


def test_a_misclassified_point_has_radius_zero():
    X, y = make_blobs(60, centers=3, random_state=0)
    head = PReLUHead(width=2, random_state=0).fit(X, y)
    wrong = (head.predict(X[:4]) + 1) % 3
    bracket = head.robust_radius(X[:4], wrong)
    assert bracket.attacked.tolist() == [0, 0, 0, 0]


def test_votes_must_not_be_negative():
    with pytest.raises(ValueError, match="must not be negative"):
        HeadNet(torch.ones(1, 2), torch.zeros(1), -torch.ones(1), torch.zeros(1, dtype=torch.long), 2, 3.0)
