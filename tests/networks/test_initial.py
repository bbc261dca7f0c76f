from math import log

import pytest
import torch

from featureprism.geometry import row_norms
from featureprism.networks import (
    MLP,
    LinearClassifier,
    PolynomialReLU,
    balanced,
    gaussian_shape,
    gaussian_start,
    nudge_to_own_class,
)
from featureprism.networks.initial import gaussian_mlp, nudge_as_printed, random_signs
from featureprism.probes import cosines
from featureprism.probes.alignment import balancedness
from featureprism.probes.voronoi import voronoi_region


def test_balanced_weights_are_balanced_at_any_scale(generator):
    shape, signs = gaussian_shape(9, 30, generator=generator), random_signs(9, generator=generator)
    net = balanced(shape, signs, log(1e-7)).to_net(PolynomialReLU(3.0))
    assert float(balancedness(net.W, net.a).detach().abs().max()) < 1e-12 * 1e-14 * 30
    torch.testing.assert_close(net.W.detach(), 1e-7 * shape)
    far = balanced(shape, signs, -10_000.0)
    torch.testing.assert_close(far.log_norms, -10_000 + row_norms(shape).log())
    torch.testing.assert_close(row_norms(far.directions), torch.ones(9).double())


def test_the_printed_nudge_does_almost_nothing_and_ours_turns_to_the_own_class(clusters, generator):
    shape, signs = gaussian_shape(40, 60, generator=generator), random_signs(40, generator=generator)
    printed = nudge_as_printed(shape, clusters.mu, 0.05, generator=generator)
    ours = nudge_to_own_class(shape, signs, clusters.mu, clusters.labels, 0.6, generator=generator)
    assert float((cosines(printed, clusters.mu) - cosines(shape, clusters.mu)).abs().max()) < 0.01
    torch.testing.assert_close(row_norms(ours), row_norms(shape))
    region = voronoi_region(ours, signs, clusters.mu, clusters.labels)
    assert bool((clusters.labels[region] == signs).all())
    assert torch.bincount(region, minlength=5).min() >= 1
    with pytest.raises(ValueError, match="between 0 and 1"):
        nudge_as_printed(shape, clusters.mu, 1.5, generator=generator)


def test_gaussian_start_has_the_given_std(generator):
    net = gaussian_start(50, 200, 0.3, PolynomialReLU(3.0), generator=generator)
    assert float(net.W.detach().std()) == pytest.approx(0.3, rel=0.02)


def test_mlp_is_bias_free_and_seen_through_its_first_layer(generator):
    net = gaussian_mlp(20, 6, 4, 1.4, generator=generator)
    x = torch.randn(5, 20, generator=generator).double()
    assert len(net.weights) == 4
    torch.testing.assert_close(net(3 * x), 3 * net(x))
    Q = torch.linalg.qr(net.input_directions().T).Q
    torch.testing.assert_close(net.in_coordinates(Q)(x @ Q), net(x))
    linear = LinearClassifier(torch.ones(20).double(), bias=2.0)
    torch.testing.assert_close(linear.in_coordinates(torch.eye(20).double())(x), linear(x))
    with pytest.raises(ValueError, match="at least 2"):
        gaussian_mlp(20, 6, 1, 1.0, generator=generator)
    with pytest.raises(ValueError, match="one output"):
        MLP([torch.ones(3, 2)])
