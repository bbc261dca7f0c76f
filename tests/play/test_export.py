"""The exported page, with a short tour."""

import pytest

from featureprism.play import export as exporting
from featureprism.play.scene import Scene
from featureprism.play.sparse import Sparse


def test_choices_are_written_as_the_page_writes_them():
    assert exporting.words(Scene(p=3.0)) == {
        "classes": "+++---",
        "overlap": "0.2",
        "labels": "two",
        "activation": "prelu",
        "p": "3",
        "start": "-4",
        "seed": "0",
        "home": "0",
        "towards": "mean",
    }
    assert exporting.words(Sparse()) == {"hidden": "two-level", "radius": "0.13", "seed": "0"}


def test_every_file_of_the_tour_has_a_name_of_its_own():
    names = [name for name, _ in exporting.recordings()]
    assert len(set(names)) == len(names) == len(exporting.TOUR) + 4
    found = exporting.contents()
    listed = {entry["file"] for kind in ("scenes", "sparse") for entry in found[kind]} | {found["own"]}
    assert listed | {f"{name}.js" for name in exporting.SCENES} == set(names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page with two scenes."""
    out = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "TOUR", (Scene("+-", start=-1.0), Scene("++--", start=-1.0)))
        patch.setattr(exporting, "PLACES", 2)
        names = [name for name in exporting.recordings() if name[0] not in ("sparse.js", "own.js")]
        patch.setattr(exporting, "recordings", lambda: iter(names))
        exporting.export(out, lambda _done, _total: lambda _share: None)
    return out


@pytest.mark.slow
def test_a_recording_is_thinned_and_keeps_the_last_frame(monkeypatch):
    monkeypatch.setattr(exporting, "MOST_FRAMES", 7)
    monkeypatch.setattr(exporting, "PLACES", 1)
    scene = Scene("+-", start=-1.0)
    found = exporting.recorded(scene)
    opening, *pictures = found["film"]
    assert opening["kind"] == "opening"
    assert len(pictures) <= 7
    assert pictures[-1] == list(exporting.frames(scene))[-1]
    assert [row["place"] for row in found["places"]] == [[1.0, 0.0], [0.5, 0.0]]


def test_the_exported_page_plays_from_a_disk(browser, folder):
    from play.test_page import no_complaints, until, visit

    visit(browser, (folder / "index.html").as_uri())
    until(browser, "document.body.dataset.nearest")
    assert not browser.execute_script("return document.getElementById('recorded').hidden")
    assert browser.execute_script("return State.get('classes')") == "+-"  # the nearest recording
    assert float(until(browser, "document.body.dataset.radius")) > 0
    no_complaints(browser)


def test_a_control_of_the_exported_page_does_something_or_is_closed(browser, folder):
    from play.test_page import no_complaints, until, visit

    visit(browser, (folder / "index.html").as_uri())
    until(browser, "document.body.dataset.nearest")
    closed = "return document.getElementById('choices').elements[arguments[0]].disabled"
    assert all(browser.execute_script(closed, name) for name in ("overlap", "p", "start", "activation"))
    assert browser.execute_script("return document.getElementById('fewer').disabled")
    browser.execute_script("document.getElementById('more').click()")
    assert browser.execute_script("return State.get('classes')") == "++--"
    until(browser, "document.body.dataset.nearest")
    assert browser.execute_script("return document.getElementById('more').disabled")
    no_complaints(browser)
