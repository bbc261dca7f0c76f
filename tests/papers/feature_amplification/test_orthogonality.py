"""Neurons and the centres of the other label."""

from dataclasses import replace

import pytest
import torch

from featureprism.geometry import unit_rows
from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.papers.feature_amplification.critical_c import on_every_edge
from featureprism.papers.feature_amplification.lemmas import captured
from featureprism.papers.feature_amplification.orthogonality import CLAIMS, ORTHOGONALITY, drawn_in_span
from featureprism.papers.feature_amplification.setting import problem, trained
from featureprism.probes.amplification import largest_crossing, leaning_neurons

TINY = {ORTHOGONALITY.id: [replace(on_every_edge(C, 1), width=20) for C in (16.0, 36.0, 64.0)]}


def test_a_sample_in_its_span_has_the_moments_of_a_plain_one():
    s = on_every_edge(16.0, 1)
    drawn, plain = drawn_in_span(s, 0), problem(s, 0).train.data
    data = drawn.sample.data
    assert data.x.shape == (s.points, s.points + 2)
    for points in (data, plain):
        noise = points.x - points.centres[points.cluster]
        assert float(noise.square().sum(dim=1).mean()) == pytest.approx(s.sigma**2 * s.dim, rel=0.02)
        gram = noise @ noise.T
        off_diagonal = gram[~torch.eye(s.points, dtype=torch.bool)]
        assert float(off_diagonal.std()) == pytest.approx(s.sigma**2 * s.dim**0.5, rel=0.05)
    lengths = drawn.net.W.detach().square().sum(dim=1) + drawn.outside
    assert float(lengths.mean()) == pytest.approx(s.start**2 * s.dim, rel=0.02)


@pytest.mark.slow
def test_cosines_in_the_span_are_distributed_as_those_of_whole_points():
    s = on_every_edge(36.0, 1)
    whole, span = [], []
    for seed in range(40):
        train = problem(s, seed).train
        run = trained(s, train, seed, (0, 1))
        W0, W1, W = (net.W.detach() for net in run.snapshots)
        leaning = leaning_neurons(W0, run.last.a.detach(), train.data.centres, 10.0)
        neurons = captured(W1, train.data.centres, leaning)
        whole.append(largest_crossing(unit_rows(W), train.data.centres, neurons))
        span.append(ORTHOGONALITY.measure(s, seed, Context())[0]["across"])
    means = [torch.tensor(values).mean() for values in (whole, span)]
    spread = torch.tensor(whole).std() / 40**0.5
    assert abs(means[0] - means[1]) < 4 * spread


def test_the_first_constant_is_that_after_which_the_mean_stays_below():
    rows = Rows.gather(
        {"kind": "cosine", "seed": 0, "constant": C, "across": across}
        for C, across in ((16.0, 0.3), (36.0, 0.09), (64.0, 0.11), (100.0, 0.08), (144.0, 0.07))
    )
    assert CLAIMS[0].note(rows).endswith("below 0.1 from C = 100 on")
    assert CLAIMS[0].value(rows).exponent < 0
