import math

import pytest

from featureprism.theory import feature_amplification as theory

FIGURE_1 = theory.Setting(2, 5000, 500, 1 / math.sqrt(50), 0.15, 1 / math.sqrt(16000), 0.05)


def test_no_constant_fits_figure_1():
    low, high = theory.feasible_constants(FIGURE_1)
    assert low == pytest.approx(100)
    assert high < 1  # d = 2 breaks (A1) already
    assert not all(p.holds for p in theory.assumptions(FIGURE_1, 100.0))


@pytest.mark.parametrize("C", [4.0, 10.0, 16.0, 100.0])
def test_a_regime_meets_the_assumptions_it_is_the_edge_of(C):
    s = theory.regime(10**7, 10**6, 10**4, C)
    assert [p.name for p in theory.assumptions(s, C) if not p.holds] == []
    low, high = theory.feasible_constants(s)
    assert low <= C * (1 + 1e-9)
    assert high * (1 + 1e-9) >= C
    assert s.steps == 1 + 1 / (4 * s.step_size)
    assert any(not p.holds for p in theory.assumptions(s, 100 * C))


def test_constants_of_the_proof():
    assert pytest.approx(5.86e10, rel=1e-2) == theory.PROOF_C0
    assert pytest.approx(8.26e-6, rel=1e-2) == theory.NO_CHANGE
    assert theory.edge_bound(1000, 4.0) == pytest.approx(1000 / 198, rel=0.01)
    assert theory.generalisation_bound(FIGURE_1, 0.15) > 1000  # vacuous
    assert theory.feature_change_bound(FIGURE_1) == pytest.approx(theory.NO_CHANGE * 4)
    assert theory.crossing_bound(FIGURE_1) == pytest.approx(0.15 / math.sqrt(500))
    assert theory.norm_bound(FIGURE_1, 3) == pytest.approx(0.3)
