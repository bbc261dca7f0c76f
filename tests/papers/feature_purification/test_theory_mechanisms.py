"""Laws of the mechanisms against Monte Carlo, and the orders of Lemma H.1."""

import math

import pytest
import torch

from featureprism.data import SparseCoding, SparseSample, sample_sparse, two_level
from featureprism.lab.rows import log_slope
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification import theory_mechanisms as laws
from featureprism.probes.growth import growth


def test_the_law_of_the_score_is_that_of_a_sample(generator):
    hidden = two_level(30, 4.0)
    law = laws.score(hidden, 30)
    assert law.chances.sum() == pytest.approx(1.0)
    assert (law.values**2 * law.chances).sum() == pytest.approx(30 * hidden.second_moment)
    score = hidden.sample(200_000, generator=generator, dtype=torch.float64).sum(dim=1)
    for size in (0.0, 0.5, 1.0, 2.0):
        assert law.within(size) == pytest.approx(
            float((score.abs() <= size + 1e-9).double().mean()), abs=0.005
        )
    with pytest.raises(ValueError, match="two levels"):
        laws.score(two_level(30, 4.0).__class__(30, 4.0, (), spread=0.1), 30)


@pytest.mark.parametrize(("alignment", "mixture"), [(1.5, 0.0), (1.5, 0.15), (0.2, 0.1)])
def test_the_law_of_growth_is_that_of_a_neuron_of_a_feature_and_a_mixture(alignment, mixture):
    d, noise, bias = 40, 1.0, 1.0
    hidden, w = two_level(d, 4.0), torch.ones(d).double()
    coding = SparseCoding(torch.eye(d).double(), w, hidden, noise=noise)
    sample = sample_sparse(coding, 300_000, generator=torch.Generator().manual_seed(1))
    W = torch.full((1, d), mixture).double()
    W[0, 0] = alignment
    net = SymmetricNet(W, bias, 0.0)
    few = SparseSample(sample.x, sample.y, sample.z, 1.0, 0.0)
    spread = noise * torch.linalg.vector_norm(W, dim=1) / math.sqrt(d)
    one = torch.tensor([1.0]).double()
    law = laws.growth_law(hidden, alignment * one, mixture * one, spread, bias)
    assert float(law) == pytest.approx(d * float(growth(net, few)[0, 0]), rel=0.06, abs=0.01)


def test_small_balls_shrink_as_the_root_of_k():
    """Lemma H.1(a): P(|S| ≤ 1/√k) = O(1/√k), and (b): P(|S| ≤ t) is of the order of t beyond it."""
    sizes = [(100, 4), (400, 9), (1600, 16), (6400, 25)]
    chances = [laws.score(two_level(d, k), d).within(k**-0.5) for d, k in sizes]
    assert log_slope([k for _, k in sizes], chances) == pytest.approx(-0.5, abs=0.1)
    wide = laws.score(two_level(1600, 16), 1600)
    assert 0.7 < wide.within(1.0) / wide.within(0.5) / 2 < 1.1


def test_noise_reaches_a_level_as_often_as_the_tail_says(generator):
    w = torch.randn(50, generator=generator).double()
    noise = 2.0 / math.sqrt(50) * torch.randn(100_000, 50, generator=generator).double() @ w
    norm = float(torch.linalg.vector_norm(w))
    assert laws.noise_reach(norm, 2.0, 50, 1.5) == pytest.approx(
        float((noise.abs() >= 1.5).double().mean()), abs=0.01
    )
    needed = laws.dimension_for_noise(norm, 2.0, 1.5, 300)
    assert laws.noise_reach(norm, 2.0, round(needed), 1.5) < 1 / 300
