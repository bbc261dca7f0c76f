import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.networks import ReLU, voting_start
from featureprism.probes import by_least_squares, from_updates
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent


def lemma_5_2(net, data, step_size, steps):
    """The update rule of the paper, written out with loops."""
    m, n = net.width // 2, len(data.x)
    W, b = net.W.detach().clone(), net.b.detach().clone()
    mu, xi = data.centres, data.x - data.centres[data.cluster]
    features, noise = torch.zeros(net.width, len(mu)).double(), torch.zeros(net.width, n).double()
    for _ in range(steps):
        z = data.x @ W.T + b
        f = z.clamp_min(0) @ net.a.detach()
        slope = -data.y / (1 + torch.exp(data.y * f))  # with its sign, as the appendix has it
        for r in range(net.width):
            s = 1.0 if r < m else -1.0
            for i in range(n):
                if z[i, r] > 0:
                    change = -s * step_size / (n * m) * slope[i]
                    features[r, data.cluster[i]] += change * (mu[data.cluster[i]] ** 2).sum()
                    noise[r, i] += change * (xi[i] ** 2).sum()
                    W[r] += change * data.x[i]
                    b[r] += change
    return features, noise


def test_tracked_coefficients_are_the_lemma_and_the_direct_solve():
    clusters = orthogonal_clusters(60, 2, 2, 1.0, generator=generator_for("centres", 0))
    data = sample(clusters, 12, generator=generator_for("train", 0))
    net = voting_start(2, 60, 0.05, ReLU(), generator=generator_for("start", 0))
    run = first_layer_descent(net, data.x, data.y, step_size=0.02, steps=8)
    tracked = from_updates(run.probes["slopes"][-1][0], data, 0.02)
    features, noise = lemma_5_2(net, data, 0.02, 8)
    torch.testing.assert_close(tracked.features, features)
    torch.testing.assert_close(tracked.noise, noise)
    W = run.last.W.detach()
    torch.testing.assert_close(tracked.weights(net.W.detach(), data), W)
    solved = by_least_squares(W, net.W.detach(), data)
    torch.testing.assert_close(solved.features, features, rtol=1e-8, atol=1e-10)
    # Corollary B.4: λ_j/‖μ_j‖² = Σ_{I_j} σ_i/‖ξ_i‖²; Corollary B.5: signs are those of the class, whatever the run
    shares = tracked.noise / ((data.x - data.centres[data.cluster]) ** 2).sum(dim=1)
    sums = torch.zeros_like(features).index_add(1, data.cluster, shares)
    torch.testing.assert_close(sums, tracked.features / (data.centres**2).sum(dim=1))
    own = torch.sign(net.a.detach()).unsqueeze(1) == clusters.labels
    assert bool((tracked.features[own] >= 0).all())
    assert bool((tracked.features[~own] <= 0).all())
    many = sample(clusters, 80, generator=generator_for("many", 0))
    with pytest.raises(ValueError, match="not unique"):
        by_least_squares(W, net.W.detach(), many)
