"""The lemmas of Appendices B and C."""

from dataclasses import replace

import pytest
import torch

from featureprism.papers.feature_averaging.appendix import APPENDIX

TINY = {
    APPENDIX.id: [
        replace(APPENDIX.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1)
    ]
}


@pytest.mark.parametrize(("k", "h"), [(4, 1), (3, 3)])
def test_the_event_of_proposition_c_3_has_the_chance_of_its_law(k, h, generator):
    """A neuron is active on the share Φ(g) of a cluster, uniform in [0, 1]; all of hk² shares pass 1/(3k²h²) with this chance."""
    shares = torch.special.ndtr(torch.randn(20_000, h * k * k, generator=generator).double())
    happened = float((shares.amin(dim=1) >= 1 / (3 * k**2 * h**2)).double().mean())
    law = (1 - 1 / (3 * k**2 * h**2)) ** (h * k**2)
    assert happened == pytest.approx(law, abs=0.015)
    assert law == pytest.approx(torch.e ** (-1 / (3 * h)), abs=0.01)
