import math

import pytest
import torch

from featureprism.networks import PolynomialClassifier, PolynomialReLU, TwoLayerNet, balanced
from featureprism.papers.gmm_flow.theory import kappa
from featureprism.probes import alignment, cluster_masses, sphere_distance
from featureprism.probes.alignment import alive, quartiles
from featureprism.probes.voronoi import VOID, nondegeneracy_gap, nondegeneracy_margin, voronoi_region


def test_alignment_is_the_largest_cosine():
    mu = torch.eye(3).double()[:2]
    W = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]]).double()
    assert alignment(W, mu).tolist() == pytest.approx([0.8, 0.0, 0.0])


def test_quartiles_and_alive_neurons():
    assert quartiles(torch.arange(5).double()) == (1.0, 2.0, 3.0)
    assert math.isnan(quartiles(torch.zeros(0)).median)
    W, a = torch.eye(3).double(), torch.tensor([1.0, -2.0, 1e-4]).double()
    assert alive(W, a).tolist() == [True, True, False]


def test_masses_add_up_squared_norms_and_skip_the_void():
    log_norms = torch.log(torch.tensor([1.0, 2.0, 3.0, 4.0]).double())
    region = torch.tensor([0, 0, 1, VOID])
    torch.testing.assert_close(cluster_masses(log_norms, region, 3), torch.tensor([5.0, 9.0, 0.0]).double())


def test_regions_follow_the_definition(clusters, generator):
    W = torch.randn(200, 60, generator=generator).double()
    signs = torch.sign(torch.randn(200, generator=generator)).double()
    region = voronoi_region(W, signs, clusters.mu, clusters.labels)
    for w, sign, found in zip(W, signs, region.tolist(), strict=True):
        own = [k for k in range(5) if clusters.labels[k] == sign]
        scores = {k: float(w @ clusters.mu[k]) for k in own}
        best = max(scores, key=scores.__getitem__)
        assert found == (best if scores[best] > 0 else VOID)


@pytest.mark.parametrize("num_own", [1, 2, 3])
def test_margin_is_the_distance_to_the_border(num_own, generator):
    # brute force: the largest cosine between w and any sampled direction outside its region
    mu, labels = torch.eye(3).double(), torch.tensor([1.0, 1.0, 1.0]).double()
    labels[num_own:] = -1
    W = torch.randn(6, 3, generator=generator).double()
    signs = torch.ones(6).double()
    region = voronoi_region(W, signs, mu, labels)
    margin = nondegeneracy_margin(W, signs, mu, labels)
    far = torch.randn(400_000, 3, generator=generator).double()
    outside = voronoi_region(far, torch.ones(len(far)).double(), mu, labels)
    far = far / far.norm(dim=1, keepdim=True)
    for w, r, m in zip(W / W.norm(dim=1, keepdim=True), region, margin, strict=True):
        cosine = float((far[outside != r] @ w).max())
        assert 1 - cosine == pytest.approx(float(nondegeneracy_gap(m.unsqueeze(0))), abs=3e-3)


def test_distance_of_one_tilted_neuron_is_kappa_times_the_tilt():
    # F has one cluster per class; f is F with one neuron turned by a small angle
    mu, labels = torch.eye(8).double()[:2], torch.tensor([1.0, -1.0]).double()
    angle = 1e-3
    turned = mu.clone()
    turned[0] = math.cos(angle) * mu[0] + math.sin(angle) * torch.eye(8).double()[5]
    f = balanced(turned, labels, 0.0).to_net(PolynomialReLU(3.0))
    found = sphere_distance(f, PolynomialClassifier(mu, labels, 3.0))
    assert found.value == pytest.approx(kappa(3.0) * angle, rel=2e-3)
    assert float(found.point.norm()) == pytest.approx(1)


def test_distance_against_many_random_points_and_the_best_scale(clusters, generator):
    F = PolynomialClassifier(clusters.mu, clusters.labels, 3.0)
    W = clusters.mu + 0.1 * torch.randn(5, 60, generator=generator).double()
    f = TwoLayerNet(W, 0.7 * clusters.labels, activation=PolynomialReLU(3.0))
    found, scaled = sphere_distance(f, F), sphere_distance(f, F, best_scale=True)
    mixed = torch.randn(20000, 5, generator=generator).double() @ clusters.mu
    mixed = torch.cat([mixed, torch.randn(20000, 5, generator=generator).double() @ W])
    mixed = mixed / mixed.norm(dim=1, keepdim=True)
    with torch.no_grad():
        gap = (f(mixed) - F(mixed)).abs()
        assert float((f(found.point.unsqueeze(0)) - F(found.point.unsqueeze(0))).abs()) == pytest.approx(
            found.value
        )
    assert float(gap.max()) <= found.value
    assert scaled.value < found.value
    for c in (0.9 * scaled.scale, 1.1 * scaled.scale):
        worse = TwoLayerNet(W, c * 0.7 * clusters.labels, activation=PolynomialReLU(3.0))
        assert sphere_distance(worse, F).value > scaled.value
