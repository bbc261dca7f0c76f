"""The coupling functions and growth probes: slow twins, Monte Carlo, and the identities of the definitions."""

import pytest
import torch

from featureprism.data import SparseCoding, sample_sparse, two_level
from featureprism.networks import SymmetricNet, symmetric_start
from featureprism.probes.coupling import frozen
from featureprism.probes.growth import coordinate_lipschitz, growth, noise_growth, opening, weighted_growth
from featureprism.probes.purification import linearisation_gap


def net(generator, smoothing=0.2) -> SymmetricNet:
    return symmetric_start(6, 4, 0.7, 0.3, smoothing, generator=generator, dtype=torch.float64)


def points(generator, n=5):
    return torch.randn(n, 4, generator=generator).double()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_coupling_is_the_network_where_it_was_frozen(generator, smoothing):
    """Definition D.3: g(w; x, x) = f(x), and its gradient in the point is that of f."""
    one, x = net(generator, smoothing), points(generator)
    W = one.W.detach()
    assert torch.allclose(frozen(one, W, x, x), one(x).detach(), atol=1e-12)
    delta = 1e-3 * points(generator)
    linear = frozen(one, W, x + delta, x) - frozen(one, W, x, x)
    _, gradient = one.input_gradient(x)
    assert torch.allclose(linear, (gradient * delta).sum(dim=1), atol=1e-12)
    gap = (frozen(one, W, x + delta, x) - one(x + delta).detach()).abs()
    assert torch.allclose(gap, linearisation_gap(one, x, delta), atol=1e-12)


def test_growth_openings_and_lipschitz_by_hand():
    """One neuron on the first of two features: it opens on z_1 = ±1 alone."""
    M, w = torch.eye(2).double(), torch.ones(2).double()
    coding = SparseCoding(M, w, two_level(2, 1.0, large=0.5, small=0.0))
    sample = sample_sparse(coding, 4000, generator=torch.Generator().manual_seed(0))
    one = SymmetricNet(torch.tensor([[2.0, 0.0]]).double(), 1.0, 0.0)
    x, y, z = sample.x, sample.y, sample.z
    G = growth(one, sample)
    assert float(G[0, 0]) == pytest.approx(float((y * (z[:, 0] == 1) * z[:, 0]).mean()))
    assert float(opening(one, x, 1.0)[0]) == pytest.approx(float((z[:, 0] != 0).double().mean()))
    single, common = weighted_growth(one, sample)
    assert float(single[0, 0]) == pytest.approx(float(common[0]))
    assert coordinate_lipschitz(one, sample, M, (-1.0, 1.0)).tolist() == [1.0, 0.0]


def test_noise_grows_a_coefficient_as_stein_says(generator):
    """E[y Φ((u - b)/s) ξ_j] = σ²/d · w_j E[y φ((u - b)/s)/s] for Gaussian ξ, whatever z is."""
    M, w = torch.eye(4).double(), torch.tensor([1.0, -1.0, 1.0, 1.0]).double()
    coding = SparseCoding(M, w, two_level(4, 2.0, large=0.8, small=0.5), noise=2.0)
    sample = sample_sparse(coding, 200_000, generator=generator)
    found = noise_growth(net(generator), sample, M, 2.0)
    assert torch.allclose(found.measured, found.by_stein, atol=4e-3)
    assert float(found.by_stein.abs().max()) > 0.02
