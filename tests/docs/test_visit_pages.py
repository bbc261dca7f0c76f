"""The visitor of pages sees what a reader would trip over."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))
visit_pages = pytest.importorskip("visit_pages")

FAULTS = {
    "tag": ("<p>A citation &lt;b&gt;in bold&lt;/b&gt;.</p>", "a raw tag"),
    "backslash": ("<p>The norm \\lVert x.</p>", "a backslash"),
    "dollars": ("<p>A radius of $1/2$.</p>", "a raw formula"),
    "wide": ("<p style='width:2000px'>Far too wide.</p>", "wider than the page"),
    "heading": ("<h1 style='width:300px;overflow:hidden'>anameofonehundredlettersinoneword</h1>", "cut off"),
    "image": ("<img src='nowhere.png' alt=''>", "an image that is missing"),
    "formula": ("<span class='math'>x^2</span>", "a formula that is not typeset"),
    "script": ("<script>throw new Error('no')</script>", "Error"),
}


@pytest.mark.skipif(shutil.which("chromedriver") is None, reason="needs chromium and chromium-driver")
def test_every_kind_of_fault_is_seen_and_a_sound_page_has_none(tmp_path):
    pages = {"sound": "<p>All is well: <code>$x$ \\s &lt;b&gt;</code>.</p>"} | {
        k: v[0] for k, v in FAULTS.items()
    }
    for name, body in pages.items():
        text = f"<!doctype html><title>t</title><link rel=icon href='data:,'><body>{body}"
        (tmp_path / f"{name}.html").write_text(text)
    faults = visit_pages.visit(tmp_path, visit_pages.pages_of(tmp_path))
    for name, (_, words) in FAULTS.items():
        assert any(fault.startswith(f"/{name}.html at desk") and words in fault for fault in faults), name
    assert not [fault for fault in faults if fault.startswith("/sound")]


def test_a_sample_has_a_page_of_every_folder(tmp_path):
    for name in ("index", "a/one", "a/two", "b/three", "_static/template"):
        path = tmp_path / f"{name}.html"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    pages = [str(page.relative_to(tmp_path)) for page in visit_pages.pages_of(tmp_path, sample=True)]
    assert pages == ["a/one.html", "b/three.html", "index.html"]
