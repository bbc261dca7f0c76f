import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.networks import ReLU, grouped_start, voting_start
from featureprism.probes.decomposition import by_least_squares, from_updates
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
    # a bias gathers the same slopes: b(T) = b(0) + Σ_j λ_j/‖μ_j‖², which is why it stays small
    grown = (tracked.features / (data.centres**2).sum(dim=1)).sum(dim=1)
    torch.testing.assert_close(run.last.b.detach(), net.b.detach() + grown)
    own = torch.sign(net.a.detach()).unsqueeze(1) == clusters.labels
    assert bool((tracked.features[own] >= 0).all())
    assert bool((tracked.features[~own] <= 0).all())
    many = sample(clusters, 80, generator=generator_for("many", 0))
    with pytest.raises(ValueError, match="not unique"):
        by_least_squares(W, net.W.detach(), many)


@pytest.mark.parametrize("group", [1, 2])
def test_the_decomposition_of_a_k_class_network_is_exact(group, generator):
    """Lemma C.6 and Corollary C.8: the same coefficients, with ℓ'_{i,s} = p_s(x_i) - 1(c(i) = s), step by step."""
    clusters = orthogonal_clusters(60, 2, 2, 1.0, generator=generator_for("centres", 0))
    data = sample(clusters, 12, generator=generator_for("train", 0))
    net = grouped_start(4, group, 60, 0.05, generator=generator)
    run = first_layer_descent(net, data.x, data.cluster, step_size=0.05, steps=8, record=range(8))
    tracked = from_updates(run.probes["slopes"][-1][0], data, 0.05)
    start, last = (n.W.detach().flatten(0, 1) for n in (net, run.last))
    torch.testing.assert_close(tracked.weights(start, data), last)
    # Corollary C.8 by hand
    features = torch.zeros(4 * group, 4).double()
    for step in run.snapshots[:-1]:
        p = step(data.x).detach().softmax(dim=1)
        for s in range(4):
            for r in range(group):
                for i in range(12):
                    j = int(data.cluster[i])
                    if float(step.W[s, r].detach() @ data.x[i]) >= 0:
                        slope = float(p[i, s]) - float(j == s)
                        features[s * group + r, j] -= 0.05 / (12 * group) * slope * 60
    torch.testing.assert_close(tracked.features, features)
