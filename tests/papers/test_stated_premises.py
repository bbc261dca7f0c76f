"""The check that no claim buys "inside" by leaving premises out, on claims made for it; `test_items` asks it of every item."""

from dataclasses import replace

import pytest
from stated_premises import left_out, statements_named

from featureprism.lab import Claim, Experiment, Rows, below, requires


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("Theorem 4.5 (2)", ["theorem-4-5"]),
        ("Theorems 2.1, 4.2", ["theorem-2-1", "theorem-4-2"]),
        ("Theorems 5.1(c) and 5.3(b)", ["theorem-5-1", "theorem-5-3"]),
        ("Theorem 1, (12)", ["theorem-1"]),
        ("Theorem 3.1, proof of Lemma A.12", ["theorem-3-1", "lemma-a-12"]),
        ("Section 4, Figure 2", []),
    ],
)
def test_what_a_source_names(source, names):
    assert statements_named(source) == names


def test_premises_that_are_left_out_are_found():
    ids = ("assumption-2-2.crowding", "theorem-3-1.n", "theorem-2-1.loss", "lemma-a-12.other")
    rows = Rows.gather({"seed": 0, "kind": "premise", "id": id, "case": "within"} for id in ids)
    claim = Claim("end", "Theorems 2.1, 4.2", "it breaks", lambda rows: rows.per_seed("x"), below(1))
    item = Experiment("double-edged/item", "", "", {}, lambda *_: [], (claim,))

    def missing(**changes):
        return left_out(replace(item, claims=(replace(claim, **changes),)), rows)

    assert missing() == [f"end: {id}" for id in ids[:3]]
    assert missing(premises=requires("theorem-2-1")) == [f"end: {id}" for id in ids[:2]]
    assert not missing(premises=requires("theorem-2-1", "theorem-3-1", "assumption-2-2"))
    assert not missing(premises=requires(case="another"))  # none was measured there
    assert not missing(origin="featureprism")
    assert not missing(source="Lemma B.3")
