"""What is published can be read again, item by item, and the atlas is made of it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from featureprism.lab import Claim, Experiment, Paper, Rows, above, below, requires
from featureprism.papers import item_called
from featureprism.records import Premise
from featureprism.report.markdown import results_page
from featureprism.report.published import figure_path, in_words, publish, read_published
from featureprism.sweep.reproduction import premises

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


def judged(scale="quick"):
    premise = Premise("one.noise", "noise", 0.1, "<=", 1.0, "Assumption 1").as_row()
    table = [{"kind": "end", "seed": s, "a": 0.5 + 0.01 * s} for s in range(3)]
    rows = Rows.gather([*table, *({**premise, "seed": s} for s in range(3))])
    about = {
        "id": ITEM.id,
        "scale": scale,
        "seeds": [0, 1, 2],
        "seconds": 3.0,
        "memory_mb": 1.0,
        "featureprism": "0",
    }
    about |= {"commit": None, "versions": {}, "premises": premises(rows), "attack": None}
    return about, json.loads(json.dumps([v.as_row() for v in ITEM.judge(rows)]))


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
    found = read_published(published)["quick"]
    assert {id: (item["seconds"], len(item["claims"])) for id, item in found.items()} == {
        "mine/first": (9.0, 1),
        "mine/second": (3.0, 2),
    }


def test_the_page_of_what_is_published_is_that_of_the_run(published, monkeypatch):
    monkeypatch.setattr("featureprism.report.published.all_papers", lambda: {"mine": PAPER})
    about, claims = judged()
    of_the_run = results_page([({**about, "title": ITEM.title, "source": ITEM.source}, claims)])
    assert results_page(in_words(read_published(published)["quick"])) == of_the_run


@pytest.mark.parametrize("change", [{"bound": below(7.0)}, {"name": "renamed"}])
def test_a_claim_that_has_changed_since_is_no_longer_published(published, monkeypatch, change):
    first, second = ITEM.claims
    changed = replace(ITEM, claims=(replace(first, **change), second))
    paper = replace(PAPER, experiments=(changed,))
    monkeypatch.setattr("featureprism.report.published.all_papers", lambda: {"mine": paper})
    (item,) = read_published(published)["quick"].values()
    assert [claim["id"] for claim in item["claims"]] == [ITEM.claim_id(second)]


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
    assert "0.51 ± 0.025" in item
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
    assert table.count("\n|") == len(findings.FINDINGS) + 2
    text = (DOCS / "findings.md").read_text("utf-8")
    assert findings.MARK in text
    assert findings.FIGURES_MARK in text
    assert all(item_called(id) for id in findings.FIGURES)
    assert "feature-averaging--figure-3--quick.webp" in findings.figures(DOCS)
    sys.modules.pop("findings")
