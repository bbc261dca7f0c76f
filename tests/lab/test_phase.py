from dataclasses import replace

import numpy as np
import pytest

from featureprism import cli
from featureprism.lab import Serial, grid, of_function, sweep
from featureprism.lab.phase import _edges, draw_map, draw_slices, phase_of, power, rates
from featureprism.lab.style import panels


def law(setting, seed):
    """2 a^1.5 N^-0.5, up to a factor for each seed; one cell raises."""
    if setting["a"] == 0.4 and setting["n"] == 90:
        raise RuntimeError("no such cell")
    value = 2 * setting["a"] ** 1.5 / setting["n"] ** 0.5
    return [{"kind": "s", "value": value * (1 + 0.1 * seed), "law": value}, {"kind": "t", "other": 1.0}]


@pytest.fixture
def swept(tmp_path):
    settings = grid(a=[0.1, 0.2, 0.4, 1.6], n=[10, 30, 90])
    sweep(of_function(law, settings, seeds=(0, 1, 2), name="law"), tmp_path, Serial())
    return tmp_path


def test_a_power_law_is_found_with_its_exponent(swept, capsys):
    assert cli.main(["phase", str(swept), "--x", "a", "--y", "n", "--value", "value", "--theory", "law"]) == 0
    told = capsys.readouterr().out
    assert told.count("value ∝ a^1.50 [1.50, 1.50] (95 %, t interval over 3 seeds)") == 3
    assert (swept / "phase-a-n-value.png").stat().st_size > 10_000


def test_failed_and_missing_runs_and_the_theory_are_marked():
    found = rows([(x, y) for x in (1, 2, 3) for y in (1, 2)], lambda x, y, _s: x * y)
    phase = replace(
        phase_of(found, "x", "y", "value"), failed=frozenset({(1, 1)}), missing=frozenset({(3, 3)})
    )
    _, (axes,) = panels(1)
    draw_map(axes, phase, boundary=lambda x: 4 / x, label="x y = 4")
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a run failed", "runs missing", "x y = 4"]
    assert axes.lines[0].get_xydata().tolist() == [[1.0, 1.0]]
    assert axes.lines[1].get_xydata().tolist() == [[3.0, 3.0]]
    x, y = axes.lines[-1].get_data()
    assert (np.asarray(x) * np.asarray(y)) == pytest.approx(4)


def test_random_draws_are_points_and_words_stand_in_a_row():
    scattered = phase_of(rows([(x, x**2) for x in range(1, 9)], lambda x, y, _s: x + y), "x", "y", "value")
    _, (left, right) = panels(2)
    draw_map(left, scattered)
    assert len(left.collections[0].get_offsets()) == 8
    words = phase_of(
        rows([(w, n) for w in ("u", "v") for n in (1, 2)], lambda _x, y, _s: y), "x", "y", "value"
    )
    draw_map(right, words)
    assert [t.get_text() for t in right.get_xticklabels()] == ["u", "v"]
    draw_slices(right, words)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--x", "b", "--y", "n", "--value", "value"], "No row has a column 'b'"),
        (["--x", "a", "--y", "n", "--value", "kind"], "No row has a, n and kind together"),
        (["--x", "a", "--y", "n", "--value", "value", "--where", "kind"], "NAME=VALUE"),
        (["--x", "a", "--y", "n", "--value", "value", "--where", "kind=none"], "has such rows"),
        (["--x", "a", "--y", "kind", "--value", "value"], "they differ in n"),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(options, said, swept, capsys):
    assert cli.main(["phase", str(swept), *options]) == 2
    assert said in capsys.readouterr().err


def test_one_row_is_chosen_among_several(swept, capsys):
    assert (
        cli.main(["phase", str(swept), "--x", "a", "--y", "kind", "--value", "value", "--where", "n=30"]) == 0
    )
    assert "kind = s: value ∝ a^1.50" in capsys.readouterr().out


def rows(cells, value):
    return [{"seed": seed, "x": x, "y": y, "value": value(x, y, seed)} for x, y in cells for seed in range(3)]


def test_cells_hold_means_over_the_seeds_that_were_measured():
    values = {0: 1.0, 1: 3.0, 2: float("nan")}
    phase = phase_of(rows([(1, 1)], lambda _x, _y, seed: values[seed]), "x", "y", "value")
    assert phase.means() == {(1, 1): 2.0}
    assert rates(phase) == {}  # one x is no slope


def test_exponents_vary_with_the_seeds():
    slopes = {0: 0.9, 1: 1.0, 2: 1.1}
    phase = phase_of(
        rows([(x, 7) for x in (1, 2, 4, 8)], lambda x, _y, s: 3 * x ** slopes[s]), "x", "y", "value"
    )
    fit = rates(phase)[7]
    assert fit.exponent == pytest.approx(1.0)
    half = 4.302653 * 0.1 / 3**0.5  # Student's t with 2 degrees of freedom
    assert fit.interval == pytest.approx((1 - half, 1 + half))
    alone = phase_of(rows([(x, 7) for x in (1, 2, 4)], lambda x, _y, _s: x)[::3], "x", "y", "value")
    assert power(rates(alone)[7], "x") == "x^1.00"  # one seed has no interval
    negative = phase_of(rows([(x, 7) for x in (1, 2, 4)], lambda x, _y, _s: -x), "x", "y", "value")
    assert rates(negative) == {}


def test_edges_lie_half_way_on_the_scale_of_the_axis():
    assert _edges([1.0, 2.0, 4.0], "linear").tolist() == [0.5, 1.5, 3.0, 5.0]
    assert _edges([1.0, 4.0], "log").tolist() == pytest.approx([0.5, 2.0, 8.0])


def test_what_is_not_a_power_law_is_said_to_be_none(tmp_path, capsys):
    def bent(setting, seed):
        return [{"value": (1 / setting["a"] + 0.05) * (1 + 0.01 * seed)}]

    settings = grid(a=[1, 3, 10, 30, 100], n=[1, 2])
    sweep(of_function(bent, settings, seeds=(0, 1, 2), name="bent"), tmp_path, Serial())
    assert cli.main(["phase", str(tmp_path), "--x", "a", "--y", "n", "--value", "value"]) == 0
    assert "n = 1: value is not a power law in a (exponent -" in capsys.readouterr().out
