"""The drawings beside the stories are those that the code draws."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))
from schematics import DRAWINGS, PAPERS, html


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_up_to_date_and_well_formed(name):
    text = (PAPERS / name / "schematic.html").read_text("utf-8")
    assert text == html(DRAWINGS[name]())
    assert len(ElementTree.fromstring(text).findall("svg")) == 3
