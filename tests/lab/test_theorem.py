"""Is a setting inside a theorem? Every registered theorem answers; sizes are known by name and by letter."""

import json
import math
from dataclasses import dataclass

import pytest

import featureprism.cli as cli
from featureprism.lab import Premise, Theorem, all_papers, premises_of
from featureprism.lab.registry import BUILT_IN
from featureprism.lab.theorem import factor

EVERY = [f"{name}/{theorem.name}" for name in BUILT_IN for theorem in all_papers()[name].theorems]


def toy(dim, noise):
    return [
        Premise("toy.dim", "d", float(dim), ">=", 100.0, "Theorem 1"),
        Premise("toy.noise", "ln σ", math.log(noise), "<=", 0.0, "Theorem 1"),
    ]


TOY = Theorem("toy", "It works.", {"dim": 200, "noise": 0.5}, toy, {"d": "dim", "σ": "noise"}, "A good day.")


def test_a_setting_is_inside_until_a_premise_fails_and_the_factor_is_the_ratio():
    assert TOY.at({}).inside
    table = TOY.at({"d": 25})
    assert [premise.id for premise in table.failing] == ["toy.dim"]
    assert not table.inside
    assert factor(table.premises[0]) == 4.0
    assert table.sizes == {"dim": 25, "noise": 0.5}
    assert factor(TOY.at({"σ": math.e}).failing[0]) is None  # 1 against 0 has no ratio


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"q": 1}, "has no size 'q'"),
        ({"d": 2.5}, "must be a whole number"),
        ({"σ": "large"}, "must be a number"),
        ({"σ": -1.0}, "cannot be computed at dim = 200, noise = -1.0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(sizes, words):
    with pytest.raises(ValueError, match=words):
        TOY.at(sizes)


@pytest.mark.parametrize("name", EVERY)
def test_every_theorem_has_premises_at_the_sizes_of_its_paper(name):
    table = premises_of(name)
    assert table.premises
    assert len({premise.id for premise in table.premises}) == len(table.premises)
    assert all(premise.holds is not None for premise in table.premises)
    assert table.theorem.says.endswith(".")
    assert set(table.theorem.letters.values()) <= {*table.sizes} | {
        size for theorem in all_papers()[name.partition("/")[0]].theorems for size in theorem.sizes
    }
    json.dumps(table.as_row())


@pytest.mark.parametrize(
    "name", ["gmm-flow", "feature-averaging", "feature-purification", "feature-amplification", "double-edged"]
)
def test_a_theorem_can_be_left_and_entered(name):
    """Somewhere a premise of the paper's first theorem holds, and somewhere it does not."""
    inside = {
        "gmm-flow": ("theorem-1", {"log10_epsilon": -200.0}),
        "feature-averaging": (
            "theorem-4-7",
            {"d": 2**20, "k": 4, "n": 4**7, "m": 2, "eta": 1e-14, "σ_w": 1e-24, "T": 7},
        ),
        "feature-purification": ("theorem-5-1", {"d": 10**6, "k": 10.0, "m": 10**7, "time": 1e8}),
        "feature-amplification": ("theorem-3-1", {"d": 20_000, "ω": 1e-7, "σ": 1e-4}),
        "double-edged": ("theorem-4-2", {}),
    }[name]
    table = premises_of(f"{name}/{inside[0]}", **inside[1])
    outside = (
        premises_of(f"{name}/{inside[0]}", d=20)
        if name != "gmm-flow"
        else premises_of(f"{name}/theorem-1", D=20)
    )
    allowed = {"theorem-4-7.least-steps"} if name == "feature-averaging" else set()
    assert {premise.id for premise in table.failing} <= allowed
    assert not outside.inside


def test_the_premises_of_an_item_are_those_of_its_theorem():
    """The command and the rows of a run agree on the same sizes."""
    from featureprism.papers.gmm_flow import theory

    @dataclass(frozen=True, kw_only=True)
    class Sizes(theory.OrthonormalGMM):
        pass

    sizes = {"dim": 400, "positive": 2, "negative": 2, "alpha": 0.05, "per_cluster": 400, "p": 3.0}
    run = theory.theorem_1_premises(Sizes(**sizes), -50.0)
    assert list(premises_of("gmm-flow/theorem-1", log10_epsilon=-50 / math.log(10), **sizes).premises) == run


def test_the_command_answers_and_lists(capsys):
    assert cli.main(["premises", "gmm-flow/theorem-1", "--set", "D=50"]) == 0
    text = capsys.readouterr().out
    assert "✗ D α²: 0.5 ≥ 1, fails by a factor of 2" in text
    assert "outside the theorem: 2 of 5 premises fail." in text
    assert max(map(len, text.splitlines())) <= 80
    assert cli.main(["premises", "gmm-flow/theorem-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inside"] is False
    assert cli.main(["premises", "gmm-flow"]) == 0
    assert "gmm-flow/proposition-3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["gmm-flow/theorem-9"],
        ["nobody/theorem-1"],
        ["gmm-flow", "--set", "D=5"],
        ["gmm-flow/theorem-1", "--set", "D"],
        ["beyond"],
    ],
)
def test_bad_usage_is_one_sentence(arguments, capsys):
    assert cli.main(["premises", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
