"""Clusters by Gram matrix against explicit points."""

import pytest
import torch

from featureprism.data import class_labels, sample_by_gram
from featureprism.data.by_gram import sphere_gram


def drawn(generator, dim=60, num_points=8, num_test=2000, sigma=0.5):
    gram = dim * (0.9 * torch.eye(3).double() + 0.1)
    return gram, sample_by_gram(
        gram,
        class_labels(2, 1),
        sigma,
        dim=dim,
        num_points=num_points,
        num_test=num_test,
        generator=generator,
    )


def test_the_centres_have_the_given_inner_products(generator):
    gram, data = drawn(generator)
    torch.testing.assert_close(data.clusters.mu @ data.clusters.mu.T, gram)


def test_inner_products_have_the_law_of_explicit_points(generator):
    """Means and variances of ⟨ξ, ξ'⟩, ‖ξ‖² and ⟨ξ, μ⟩ over many draws, against those of N(0, σ²I_d)."""
    products, squares, along = [], [], []
    for _ in range(400):
        _, data = drawn(generator, num_test=1)
        noise = data.train.x - data.clusters.mu[data.train.cluster]
        gram = noise @ noise.T
        products += gram[0, 1:].tolist()
        squares += gram.diagonal().tolist()
        along += (noise @ data.clusters.mu[0]).tolist()
    products, squares, along = (torch.tensor(v) for v in (products, squares, along))
    assert float(products.var()) == pytest.approx(0.5**4 * 60, rel=0.1)
    assert float(squares.mean()) == pytest.approx(0.25 * 60, rel=0.01)
    assert float(squares.var()) == pytest.approx(2 * 0.5**4 * 60, rel=0.1)
    assert float(along.var()) == pytest.approx(0.25 * 60, rel=0.1)


def test_test_points_have_the_norms_of_all_dimensions(generator):
    _, data = drawn(generator)
    noise = data.test.x - data.clusters.mu[data.test.cluster]
    assert float((noise**2).sum(dim=1).mean()) == pytest.approx(0.25 * 60, rel=0.02)
    across = noise[:, :-1] @ (data.train.x[0] - data.clusters.mu[data.train.cluster[0]])[:-1]
    size = float(((data.train.x[0] - data.clusters.mu[data.train.cluster[0]]) ** 2).sum())
    assert float(across.var()) == pytest.approx(0.25 * size, rel=0.1)


def test_any_dimension_costs_the_same(generator):
    gram = sphere_gram(4, 10**8, 1e4, generator=generator)
    assert gram.diagonal().tolist() == pytest.approx([1e8] * 4)
    off = gram[~torch.eye(4).bool()].abs()
    assert 0 < float(off.max()) < 6 * 1e4
    data = sample_by_gram(
        gram, class_labels(2, 2), 1.0, dim=10**8, num_points=6, num_test=3, generator=generator
    )
    assert data.train.x.shape == (6, 11)


def test_what_cannot_be_drawn(generator):
    with pytest.raises(ValueError, match="span all"):
        sample_by_gram(
            torch.eye(2), class_labels(1, 1), 1.0, dim=10, num_points=8, num_test=1, generator=generator
        )
    bad = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="eigenvalue"):
        sample_by_gram(bad, class_labels(1, 1), 1.0, dim=10, num_points=2, num_test=1, generator=generator)
