"""Why a verdict changes between scales, on claims whose reasons are known."""

from featureprism.report.changes import changes, depth, sentence, sizes_of, sizes_told, why


def claim(verdict, values, bound=1.0, relation="<=", aggregate="mean", **other):
    low, high = min(values), max(values)
    return {
        "verdict": verdict,
        "values": values,
        "measured": sum(values) / len(values),
        "interval": [low, high],
        "bound": bound,
        "relation": relation,
        "aggregate": aggregate,
        "reported": None,
        **other,
    }


def test_a_value_that_moves_is_told_apart_from_one_that_only_spreads():
    into = {"quick": claim("fails", [1.4, 1.6]), "paper": claim("holds", [0.5, 0.7])}
    assert "moves, from 1.5 to 0.6, into its bound" in why(into)
    out = {"quick": claim("holds", [0.5, 0.7]), "paper": claim("fails", [1.4, 1.6])}
    assert "out of its bound" in why(out)
    spread = {"quick": claim("undecided", [0.4, 1.6]), "paper": claim("holds", [0.8, 0.9])}
    assert "narrower (± 0.6, then ± 0.05)" in why(spread)
    assert "inside it at quick, outside it at paper" in why(spread)
    alike = {"quick": claim("undecided", [0.85, 1.05]), "paper": claim("holds", [0.78, 0.98])}
    assert "as wide (± 0.1)" in why(alike)


def test_a_value_that_stays_on_its_side_does_not_cross_its_bound():
    edge = {"quick": claim("holds", [0.5, 0.6]), "paper": claim("undecided", [0.8, 1.1])}
    assert "from 0.55 to 0.95, towards the edge of its bound" in why(edge)
    deeper = {"quick": claim("undecided", [0.8, 1.1]), "paper": claim("holds", [0.5, 0.6])}
    assert "further into its bound" in why(deeper)
    nearer = {"quick": claim("fails", [1.5, 1.6]), "paper": claim("undecided", [0.95, 1.2])}
    assert "nearer to its bound" in why(nearer)
    farther = {"quick": claim("undecided", [0.95, 1.2]), "paper": claim("fails", [1.5, 1.6])}
    assert "further from its bound" in why(farther)


def test_the_worst_seed_of_a_claim_about_every_seed_is_named():
    way = {
        "quick": claim("holds", [0.5, 0.9], aggregate="worst"),
        "paper": claim("fails", [0.5, 1.2], aggregate="worst"),
    }
    assert "within the bound by 0.1, and beyond it by 0.2 at paper" in why(way)
    assert "2 of 2 seeds), **fails** at paper (0.5 to 1.2; 1 of 2 seeds)" in sentence("mine/a", way)


def test_a_seed_on_a_strict_bound_does_not_keep_it():
    way = {
        "quick": claim("holds", [0.8, 0.9], relation="<"),
        "paper": claim("fails", [1.0, 1.0], relation="<"),
    }
    assert "**fails** at paper (1 ± 0; 0 of 2 seeds)" in sentence("mine/a", way)
    on_it = {scale: own | {"relation": "<="} for scale, own in way.items()}
    assert "(1 ± 0; 2 of 2 seeds)" in sentence("mine/a", on_it)


def test_the_step_that_changed_is_explained_and_laws_are_called_so():
    way = {
        "quick": claim("holds", [0.5, 0.7]),
        "standard": claim("holds", [0.5, 0.7]),
        "paper": claim("fails", [0.5, 0.7], 0.1),
    }
    assert why(way) == "The bound is a law in the sizes: ≤ 0.1 at paper."
    lost = way | {"paper": claim("not measured", [0.5]) | {"interval": [None, None], "measured": None}}
    assert why(lost) == "At paper it could not be measured."


def test_premises_and_the_statement_stand_in_the_sentence():
    outside = {"inside": False, "premises": 2, "holding": 1, "failing": ["one.noise"]}
    inside = {"inside": True, "premises": 2, "holding": 2, "failing": []}
    way = {"quick": claim("fails", [2.0, 2.1], regime=outside), "paper": claim("holds", [0.1], regime=inside)}
    told = sentence("mine/a", way, "noise is small")
    assert told.startswith("- `mine/a`: noise is small [≤ 1]. **fails** at quick (2.05 ± 0.05; 0 of 2 seeds)")
    assert "Of its premises at quick one.noise fails; at paper all hold." in told
    same = {scale: claim | {"regime": outside} for scale, claim in way.items()}
    assert "Of its premises one.noise fails at every scale." in sentence("mine/a", same)


def test_what_turns_over_comes_before_what_is_undecided():
    ways = {
        "a": {"quick": claim("undecided", [1.0]), "paper": claim("holds", [0.1])},
        "b": {"quick": claim("holds", [0.1]), "paper": claim("fails", [2.0])},
        "c": {"quick": claim("holds", [0.1]), "paper": claim("holds", [0.2])},
    }
    assert list(changes(ways)) == ["b", "a"]


def test_sizes_that_differ_are_told_from_small_to_large():
    small = sizes_of([{"dim": 400, "alpha": 0.1, "name": "x", "flag": True}])
    large = sizes_of([{"dim": 1000, "alpha": 0.1}, {"dim": 2000, "alpha": 0.1}])
    assert sizes_told({"quick": small, "paper": large}) == "settings 1 → 2; dim 400 → 1000 to 2000"
    assert sizes_told({"quick": {}, "paper": large}) == ""


def test_depth_is_the_distance_to_the_nearest_bound():
    assert depth(claim("holds", [2.0], [1.0, 5.0], "in")) == 1.0
    assert depth(claim("fails", [2.0], 3.0, ">=")) == -1.0
