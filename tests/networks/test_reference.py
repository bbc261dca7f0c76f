import pytest
import torch

from featureprism.geometry import LpBall
from featureprism.networks import BayesClassifier, LinearClassifier, PolynomialClassifier
from featureprism.networks.reference import NearestCluster, pooled_radius

SPLITS = [(1, 1), (2, 1), (1, 2)]


def labels_of(split):
    return torch.cat([torch.ones(split[0]), -torch.ones(split[1])]).double()


def brute_force_radius(net, x, y, generator, directions=2000, reach=2.5):
    """First flip along many directions, refined by bisection: an upper bound that is nearly tight in 2-3 dimensions."""
    rays = torch.randn(directions, x.shape[1], generator=generator).double()
    rays = rays / rays.norm(dim=1, keepdim=True)
    best = []
    for point, label in zip(x, y, strict=True):
        low, high = torch.zeros(directions).double(), torch.full((directions,), reach).double()
        grid = torch.linspace(0, reach, 51).double()
        flips = torch.stack([label * net(point + r * rays) <= 0 for r in grid])
        first = flips.to(torch.int8).argmax(dim=0)
        high = torch.where(flips.any(dim=0), grid[first], torch.inf)
        low = torch.where(first > 0, grid[(first - 1).clamp_min(0)], 0.0)
        for _ in range(30):
            middle = (low + high) / 2
            flip = label * net(point + middle.unsqueeze(1).nan_to_num(posinf=reach) * rays) <= 0
            low, high = torch.where(flip, low, middle), torch.where(flip, middle, high)
        best.append(high.min())
    return torch.stack(best)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("kind", ["nearest", 3.0, 2.5, 4.2])
def test_exact_radius_against_brute_force(kind, split, generator):
    k, labels = sum(split), labels_of(split)
    eye = torch.eye(k).double()
    net = NearestCluster(eye, labels) if kind == "nearest" else PolynomialClassifier(eye, labels, kind)
    x = 0.7 * torch.randn(15, k, generator=generator).double()
    y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    exact, brute = net.exact_radius(x, y), brute_force_radius(net, x, y, generator)
    assert bool((exact <= brute + 1e-9).all())
    assert float((brute - exact).max()) < 0.03


def test_the_radius_of_points_next_to_the_boundary_is_small(generator):
    # a rival score just below the own one: the crossing lies next to the end of the search curve
    labels = labels_of((4, 4))
    net = PolynomialClassifier(torch.eye(8).double(), labels, 3.0)
    for gap in (1e-1, 1e-2, 1e-3, 1e-5):
        x = 0.01 * torch.rand(20, 8, generator=generator).double()
        x[:, 0], x[:, 5] = 1.0, 1.0 - gap
        y = torch.ones(20).double()
        radius = net.exact_radius(x, y)
        _, slope = net.input_gradient(x)
        linear = net(x) / slope.norm(dim=1)  # the first-order distance, right to second order in the gap
        torch.testing.assert_close(radius, linear, rtol=5 * gap + 1e-6, atol=0)


def test_radius_of_clean_centres_is_half_the_distance_between_them(clusters):
    expected = torch.full((5,), 0.5**0.5, dtype=torch.float64)
    for net in (
        NearestCluster(clusters.mu, clusters.labels),
        PolynomialClassifier(clusters.mu, clusters.labels, 3.0),
    ):
        torch.testing.assert_close(
            net.exact_radius(clusters.mu, clusters.labels), expected, atol=1e-9, rtol=0
        )


def test_misclassified_points_have_radius_zero(clusters, test_set):
    for net in (
        NearestCluster(clusters.mu, clusters.labels),
        PolynomialClassifier(clusters.mu, clusters.labels, 3.0),
    ):
        assert float(net.exact_radius(test_set.x, -test_set.y).max()) == 0
    assert float(LinearClassifier(clusters.mu[0]).exact_radius(clusters.mu[:1], -torch.ones(1).double())) == 0


def test_radii_do_not_depend_on_the_scale_of_centres(clusters, test_set):
    big = PolynomialClassifier(7 * clusters.mu, clusters.labels, 3.0).exact_radius(test_set.x, test_set.y)
    torch.testing.assert_close(
        big, PolynomialClassifier(clusters.mu, clusters.labels, 3.0).exact_radius(test_set.x, test_set.y)
    )


def test_bayes_is_the_log_likelihood_ratio(clusters, test_set):
    # densities summed over clusters, in the plain way that only works for a wide noise
    sigma = 0.5

    def evidence(sign):
        mu = clusters.mu[clusters.labels == sign]
        return torch.exp(-((test_set.x.unsqueeze(1) - mu) ** 2).sum(dim=2) / (2 * sigma**2)).sum(dim=1)

    net = BayesClassifier(clusters.mu, clusters.labels, sigma)
    torch.testing.assert_close(net(test_set.x) / sigma**2, evidence(1.0).log() - evidence(-1.0).log())


def test_bayes_survives_tiny_noise_and_its_bracket_holds(clusters, test_set, generator):
    net = BayesClassifier(clusters.mu, clusters.labels, 1e-3)
    assert bool(torch.isfinite(net(test_set.x)).all())
    wide = BayesClassifier(torch.eye(3).double(), labels_of((2, 1)), 0.3)
    x = 0.5 * torch.randn(30, 3, generator=generator).double()
    y = torch.where(wide(x) >= 0, 1.0, -1.0).double()
    bracket, brute = wide.radius_bracket(x, y), brute_force_radius(wide, x, y, generator)
    assert bool((bracket.certified <= brute.numpy() + 1e-9).all())
    assert bool((brute.numpy() <= bracket.attacked + 0.02).all())


def test_linear_radius_is_the_distance_to_the_boundary(generator):
    net = LinearClassifier(torch.tensor([3.0, 4.0]).double(), bias=1.0)
    x = torch.randn(50, 2, generator=generator).double()
    y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    radius = net.exact_radius(x, y)
    step = LpBall(2, radius).steepest(-y.unsqueeze(1) * net.w.detach().expand_as(x))
    torch.testing.assert_close(net(x + step).detach(), torch.zeros(50).double(), atol=1e-12, rtol=0)


def test_pooled_radius_by_hand():
    own = torch.tensor([[1.0, 0.9, -torch.inf], [1.0, 0.0, -torch.inf], [0.1, 0.0, -torch.inf]]).double()
    rival = torch.tensor([0.0, 0.0, 0.5]).double()
    # first: all three meet at 1.9/3; second: two meet at 1/2; third: already lost
    t = 1.9 / 3
    expected = torch.tensor([(t**2 + (1 - t) ** 2 + (0.9 - t) ** 2) ** 0.5, 0.5**0.5, 0.0]).double()
    torch.testing.assert_close(pooled_radius(own, rival), expected)


def test_bad_reference_classifiers_are_refused(clusters, test_set):
    with pytest.raises(ValueError, match="orthogonal"):
        NearestCluster(torch.ones(2, 3).double(), torch.tensor([1.0, -1.0]).double())
    with pytest.raises(ValueError, match="at least 1"):
        PolynomialClassifier(clusters.mu, clusters.labels, 0.5)
    with pytest.raises(ValueError, match="p > 2"):
        PolynomialClassifier(clusters.mu, clusters.labels, 2.0).exact_radius(test_set.x, test_set.y)
    with pytest.raises(ValueError, match="noise_std"):
        BayesClassifier(clusters.mu, clusters.labels, 0.0)
