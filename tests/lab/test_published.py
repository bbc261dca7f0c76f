"""What is published can be read again, item by item, and the atlas is made of it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from featureprism.lab import Claim, Experiment, Paper, Premise, Rows, above, below, item_called, requires
from featureprism.lab.published import (
    Ledger,
    figure_path,
    fresh_seeds,
    publish,
    read_published,
    sizes_in_words,
    sizes_of,
)
from featureprism.lab.reproduction import hashes, premises

DOCS = Path(__file__).parents[2] / "docs"


def measure(setting, seed, context):
    """Nothing: the rows of these tests are written down."""


CLAIMS = (
    Claim(
        "small",
        "Theorem 1 (2)",
        "a < b & c",
        lambda r: r.of("end").per_seed("a"),
        below(1.0),
        premises=requires("one"),
    ),
    Claim(
        "large",
        "behind Lemma 2",
        "not so",
        lambda r: r.of("end").per_seed("a"),
        above(1.0),
        origin="featureprism",
        reported=2.0,
    ),
)
ITEM = Experiment(
    "mine/first", "Me, Theorem 1", "The first", {"quick": [{}]}, measure, CLAIMS, about="About *it*."
)
PAPER = Paper("mine", "Me, 2026", (ITEM,))


def judged(scale="quick", item=ITEM, seeds=(2000, 2001, 2002)):
    premise = Premise("one.noise", "noise", 0.1, "<=", 1.0, "Assumption 1").as_row()
    table = [{"kind": "end", "seed": s, "a": 0.5 + 0.01 * (s % 5)} for s in seeds]
    rows = Rows.gather([*table, *({**premise, "seed": s} for s in seeds)])
    about = {
        "id": item.id,
        "scale": scale,
        "seeds": list(seeds),
        "seconds": 3.0,
        "memory_mb": 1.0,
        "featureprism": "0",
    }
    about |= {
        "hashes": hashes(item, scale),
        "set": {},
        "commit": None,
        "versions": {},
        "premises": premises(rows),
        "attack": None,
    }
    return about, json.loads(json.dumps([v.as_row() for v in item.judge(rows)]))


@pytest.fixture
def published(tmp_path):
    (tmp_path / "runs" / ITEM.id).mkdir(parents=True)
    Image.new("RGBA", (3000, 1000)).save(tmp_path / "runs" / ITEM.id / "figure.png")
    publish([judged()], tmp_path / "runs", tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def atlas(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    yield __import__("atlas")
    sys.modules.pop("atlas")


def test_what_is_published_is_read_again(published):
    (item,) = read_published(published)["quick"].values()
    assert [claim["verdict"] for claim in item["claims"]] == ["holds", "fails"]
    assert item["premises"][0]["holding"] == 3
    with Image.open(figure_path(published, ITEM.id, "quick")) as figure:
        assert figure.size == (1200, 400)


def test_publishing_again_replaces_the_item_and_keeps_the_others(published, tmp_path):
    about, claims = judged()
    publish([({**about, "id": "mine/second"}, claims)], tmp_path / "runs", published)
    publish([({**about, "seconds": 9.0}, claims[:1])], tmp_path / "runs", published)
    items = read_published(published)["quick"]
    assert {id: (item["seconds"], len(item["claims"])) for id, item in items.items()} == {
        "mine/first": (9.0, 1),
        "mine/second": (3.0, 2),
    }


@pytest.mark.parametrize("change", [{"bound": below(7.0)}, {"name": "renamed"}])
def test_a_claim_that_has_changed_since_is_no_longer_published(published, monkeypatch, change):
    first, second = ITEM.claims
    changed = replace(ITEM, claims=(replace(first, **change), second))
    paper = replace(PAPER, experiments=(changed,))
    monkeypatch.setattr("featureprism.lab.published.all_papers", lambda: {"mine": paper})
    (item,) = read_published(published)["quick"].values()
    assert [claim["id"] for claim in item["claims"]] == [ITEM.claim_id(second)]


def changed(**changes):
    first, second = ITEM.claims
    return replace(ITEM, claims=(replace(first, **changes), second))


def test_the_same_item_may_be_published_again_on_its_seeds(published, tmp_path):
    publish([judged()], tmp_path / "runs", published)
    assert fresh_seeds([ITEM], "quick", published) == {}
    assert len(Ledger(published).of(ITEM.id, "quick")) == 1


def test_other_words_are_no_change(published):
    reworded = changed(says="Said otherwise.", quantity="number", because="so", note="n", headline=True)
    assert fresh_seeds([reworded], "quick", published) == {}
    fewer = replace(ITEM, claims=ITEM.claims[:1])
    assert fresh_seeds([fewer], "quick", published) == {}


@pytest.mark.parametrize(
    "item",
    [
        changed(bound=below(7.0)),
        changed(aggregate="worst"),
        changed(value=lambda r: 2 * r.of("end").per_seed("a")),
        changed(name="another"),
        replace(ITEM, scales={"quick": [{"a": 1}]}),
    ],
)
def test_what_changes_a_verdict_takes_the_next_block_of_seeds(item, published, tmp_path):
    assert fresh_seeds([item], "quick", published) == {ITEM.id: (2005, 2006, 2007, 2008, 2009)}
    with pytest.raises(ValueError, match="run it on seeds from 2005 on"):
        publish([judged(item=item)], tmp_path / "runs", published)
    publish([judged(item=item, seeds=range(2005, 2015))], tmp_path / "runs", published)
    assert fresh_seeds([item], "quick", published) == {}
    assert fresh_seeds([ITEM], "quick", published) == {}  # as it was, on its first seeds
    assert Ledger(published).fresh_seeds(ITEM.id, "quick")[0] == 2015
    assert Ledger(published).fresh_seeds(ITEM.id, "paper")[0] == 2000


def test_seeds_of_choosing_and_other_settings_are_not_published(published, tmp_path):
    before = (published / "quick.json").read_bytes()
    with pytest.raises(ValueError, match="from 2000 on"):
        publish([judged(seeds=(0, 1, 2))], tmp_path / "runs", published)
    about, claims = judged()
    with pytest.raises(ValueError, match="other settings"):
        publish([({**about, "set": {"a": 2}}, claims)], tmp_path / "runs", published)
    assert (published / "quick.json").read_bytes() == before


def test_results_from_before_the_ledger_stay_readable_and_their_seeds_used(published):
    (published / "ledger.json").unlink()
    assert len(read_published(published)["quick"]) == 1
    assert fresh_seeds([ITEM], "quick", published)[ITEM.id][0] == 2005


def test_every_claim_is_a_line_of_its_own(published):
    lines = (published / "quick.json").read_text().splitlines()
    assert sum(line.strip().startswith('{"id": "first.') for line in lines) == 2


def test_the_atlas_shows_claims_premises_figure_and_code(atlas, published, tmp_path):
    figures = {(ITEM.id, "quick"): "atlas/figures/f.webp"}
    (tmp_path / "errata_mine.md").touch()
    pages = atlas.write_atlas({"mine": PAPER}, read_published(published), figures, tmp_path)
    index, paper, item = (path.read_text() for path in pages)
    assert "1 holds" in index
    assert "1 fails" in index
    assert "data-verdict='holds' data-origin='the paper' data-regime='inside'" in paper
    assert "<td>Theorem 1</td><td>The first</td>" in paper
    assert ":doc:`/errata_mine`" in paper
    assert "0.510 ± 0.025" in item
    assert "(reported: 2)" in item
    assert "a &lt; b &amp; c" in item
    assert "3 of 3 runs" in item
    assert ".. figure:: /atlas/figures/f.webp" in item
    assert f"autofunction:: {__name__}.measure" in item
    assert "About \\*it\\*." in item


def test_the_atlas_stands_without_any_results(atlas, tmp_path):
    pages = atlas.write_atlas({"mine": PAPER}, read_published(tmp_path), {}, tmp_path)
    assert "2 not published" in pages[0].read_text()
    assert "Nothing of it has been published yet." in pages[2].read_text()


def test_the_places_of_a_source_are_found(atlas):
    assert atlas.PLACE.findall("Theorems 5.1(c), Lemma B.2 and Figure 7") == [
        ("Theorem", "5.1"),
        ("Lemma", "B.2"),
        ("Figure", "7"),
    ]


def test_every_main_finding_has_been_published(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    findings = __import__("findings")
    table = findings.findings_table(DOCS / "results")
    shown = [row for row in findings.FINDINGS if f"| {row[0]} |" in table]
    assert table.count("\n|") == len(shown) + 2
    quick = read_published(DOCS / "results")["quick"]
    items = {row[0]: {name.partition(":")[0] for name in row[1]} for row in findings.FINDINGS}
    assert all(quick[id]["is_current"] for row in shown for id in items[row[0]])
    assert all(id in quick for ids in items.values() for id in ids)
    text = (DOCS / "findings.md").read_text("utf-8")
    assert findings.MARK in text
    assert findings.FIGURES_MARK in text
    assert all(item_called(id) for id in findings.FIGURES)
    assert "feature-averaging--figure-3--quick.webp" in findings.figures(DOCS)
    sys.modules.pop("findings")


def test_what_differs_between_scales_is_said():
    small = sizes_of(
        [{"dim": 100, "model": "relu", "fast": True}, {"dim": 200, "model": "tanh", "fast": True}]
    )
    large = sizes_of([{"dim": 400, "model": "relu", "fast": True}])
    assert small == {"settings": [2, 2], "dim": [100, 200]}
    assert sizes_in_words({"quick": small, "paper": large}) == "settings 2 → 1; dim 100 to 200 → 400"
    assert sizes_in_words({"quick": small, "paper": small}) == ""
    assert sizes_in_words({"quick": small}) == ""
    assert sizes_in_words({"quick": small, "paper": {}}) == ""  # from before sizes were kept
