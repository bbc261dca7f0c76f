"""Stories: Markdown with formulas and figures."""

import pytest

from featureprism.lab import all_papers
from featureprism.lab.story import SCHEMATIC, Figure, Text, formula_html, parts_of, to_html


def test_formulas_are_left_to_katex_and_markdown_does_not_touch_them():
    html = to_html("Let $w_i^* < a_j$ and\n\n$$ \\sum_i |x_i| $$\n\n| a | b |\n|---|---|\n| $|u|$ | *b* |")
    assert '<span class="math">w_i^* &lt; a_j</span>' in html
    assert '<span class="math display">\\sum_i |x_i|</span>' in html
    assert '<td><span class="math">|u|</span></td>' in html
    assert "<em>b</em>" in html


def test_html_in_a_story_is_shown_as_text():
    assert "<script>" not in to_html("<script>alert(1)</script>")
    assert "<b>" not in formula_html("a <b> c")


def test_figures_stand_between_the_text_and_items_are_links():
    story = "One `toy/item` and `other`.\n\n![What to *see* at $x_1$.](item-1)\n\nTwo."
    first, figure, last = parts_of(story, lambda id: f"#{id}" if id == "toy/item" else None)
    assert isinstance(first, Text)
    assert '<a href="#toy/item"><code>toy/item</code></a>' in first.html
    assert "<code>other</code>" in first.html
    assert figure == Figure("item-1", 'What to <em>see</em> at <span class="math">x_1</span>.')
    assert isinstance(last, Text)
    assert "Two." in last.html


@pytest.mark.parametrize("name", [name for name, paper in all_papers().items() if paper.story])
def test_every_story_shows_a_figure_of_its_paper(name):
    paper = all_papers()[name]
    assert paper.story is not None
    figures = [part for part in parts_of(paper.story.read_text("utf-8")) if isinstance(part, Figure)]
    assert figures
    assert {figure.item for figure in figures} <= {SCHEMATIC, *(item.item for item in paper.experiments)}
    assert name == "beyond" or figures[0].item == SCHEMATIC
