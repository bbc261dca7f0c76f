"""Laws of few steps against loops over neurons, against limits that are known by hand, and against training."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from featureprism.papers.feature_amplification import laws, theory
from featureprism.papers.feature_amplification.setting import NoisyXor, clean_error, problem, trained

SETTING = theory.Sizes.on_edge(16.0, dim=400, points=1000, width=100)
TIGHT = replace(SETTING, sigma=1e-9, start=1e-12)


def test_the_median_by_drawing(generator):
    z = torch.randn(400_000, generator=generator).double()
    leaning = z[z >= 1 / 30]
    assert laws.median_before(10.0) == pytest.approx(float(leaning.median()), abs=0.005)


def chance_of_large_sets(width, C0):
    """Exact: of m/2 neurons of one sign each leans to μ with chance p, to -μ with chance p, or to neither; both sets are large."""
    half, p = width // 2, 0.5 * math.erfc(1 / (3 * C0) / math.sqrt(2))
    least = math.ceil(theory.leaning_share(C0) * width / 4 - 1e-9)
    sizes = np.arange(least, half + 1)
    return float((binom.pmf(sizes, half, p) * binom.sf(least - 1, half - sizes, p / (1 - p))).sum()) ** 2


def test_large_sets_by_drawing_and_at_the_width_of_the_proof(generator):
    """Lemma 4.2 holds by far where its proof has m = 16C₀² ln(32/δ); at C₀ = 10, δ = 0.05 that is C = 3451, and C = 130 suffices."""
    z = torch.randn(
        4000, 2, 30, generator=generator
    )  # neurons of either sign, along the direction of their sign
    sizes = torch.stack([(side * z >= 1 / 30).sum(dim=2) for side in (1, -1)]).flatten(2)  # (2, draws, 2)
    drawn = float((sizes.amin(dim=(0, 2)) >= 0.81 * 60 / 4).double().mean())
    assert chance_of_large_sets(60, 10.0) == pytest.approx(drawn, abs=0.03)
    for C0, delta in ((2.0, 0.2), (10.0, 0.05), (50.0, 0.4)):
        assert chance_of_large_sets(math.ceil(theory.width_of_lemma_4_2(C0, delta)), C0) >= 1 - delta
    assert theory.width_of_lemma_4_2(10.0, 0.05) / math.log(20) == pytest.approx(3451, abs=1)
    chances = {
        C: chance_of_large_sets(2 * math.ceil(C * math.log(20) / 2), 10.0) for C in (24.0, 110.0, 140.0)
    }
    assert chances[24.0] < 0.6
    assert chances[110.0] < 0.95 < chances[140.0]


def test_the_cosine_on_the_edge_is_the_one_of_the_constant():
    q = 8 / (16**2 * SETTING.step_size * (1 - 2 / 16))
    assert laws.cosine_after_one_step(SETTING) == pytest.approx(1 / math.sqrt(2 + q**2))


def test_positions_against_a_loop_over_one_neuron():
    own, opposite = 90.0, 130.0
    at = laws.positions(SETTING, *(torch.tensor(v).double() for v in (own, opposite)))
    for index in (40, 195, 200, 203, 300):
        z = float(torch.linspace(-5, 5, 400, dtype=torch.float64)[index])
        share = 0.5 * math.erfc(-16 * z / math.sqrt(2))
        for vote, side in ((1, at.right), (-1, at.wrong)):
            x = SETTING.start / laws.unit(SETTING) * z
            x += vote * (own * share - opposite * (1 - share))
            for _ in range(SETTING.steps - 1):
                x += vote * (own if x > 0 else -opposite)
            assert float(side[index]) == pytest.approx(x, abs=1e-9)


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_a_tight_cluster_is_lost_at_the_ratio_known_by_hand(steps):
    s = replace(TIGHT, steps=steps)
    ratio = 2 / (3 * steps - 2)
    own = torch.tensor([0.98 * ratio, 1.02 * ratio]).double() * 250
    outputs = laws.positions(s, own, torch.tensor([250.0, 250.0]).double()).output
    assert outputs[0] < 0 < outputs[1]
    assert laws.one_cluster_rate(s, 250, 250) == pytest.approx((1 - ratio) / 8, abs=5e-4)


def test_the_margin_of_tight_clusters_by_hand():
    gain = laws.first_gain(TIGHT)
    # half of the neurons vote for a centre and gain in each of three steps; half of those against it sit one gain away
    surplus = torch.tensor(250 * (1 - 2 / 16)).double()
    assert float(laws.margins(TIGHT, surplus, surplus)) == pytest.approx(
        math.sqrt(100) / 4 * (3 - 1) * gain, rel=0.01
    )


def test_the_chance_to_lose_a_cluster_falls_with_points_and_rises_with_noise():
    chances = [
        laws.lost_cluster_chance(replace(SETTING, noise_rate=rate, points=num))
        for rate, num in ((0.1, 64), (0.45, 64), (0.45, 1024))
    ]
    assert chances[0] < chances[1]
    assert chances[2] < chances[1] < 0.5


def test_after_many_steps_the_majority_of_a_cluster_decides():
    rate, n = 0.3, 200
    sizes = binom(n, 0.25)
    chance = sum(
        sizes.pmf(m) * (binom.sf(m // 2, m, rate) + (0.5 * binom.pmf(m // 2, m, rate) if m % 2 == 0 else 0))
        for m in range(1, n)
    )
    s = replace(TIGHT, noise_rate=rate, points=n, steps=30)
    assert laws.lost_cluster_chance(s) == pytest.approx(chance, abs=0.01)


def test_few_steps_lose_more_clusters():
    s = replace(TIGHT, noise_rate=0.3, points=128)
    chances = [laws.lost_cluster_chance(replace(s, steps=steps)) for steps in (2, 3, 10)]
    assert chances == sorted(chances, reverse=True)
    drawn = np.random.default_rng(0).multinomial(128, [0.175, 0.075, 0.175, 0.075, 0.5], size=20000)
    own, opposite = drawn[:, 0] - drawn[:, 1], drawn[:, 2] - drawn[:, 3]
    assert chances[1] == pytest.approx((7 * own < 2 * opposite).mean(), abs=0.02)


@pytest.mark.parametrize("C", [4.0, 16.0])
def test_the_chance_to_lose_a_cluster_by_training(C):
    s = NoisyXor.on_edge(C, dim=30, points=48, width=60, noise_rate=0.3, test_points=100)
    errors = []
    for seed in range(150):
        data = problem(s, seed)
        errors.append(clean_error(trained(s, data.train, seed).last, data.test))
    assert sum(errors) / len(errors) == pytest.approx(laws.lost_cluster_chance(s), abs=0.06)
