"""The page of an explanation: the sentence, the table under it, figures and the cards of the neurons behind it."""

import base64
import io
import math
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

from featureprism._files import as_json, prepare_folder, write_whole
from featureprism.audit.cards import NeuronCard
from featureprism.audit.explanation import WORDS, Explanation
from featureprism.audit.pictures import FITS, NONE
from featureprism.lab.bracket_figure import curve
from featureprism.lab.page import html_page
from featureprism.lab.style import SETTINGS
from featureprism.lab.table import show
from featureprism.probes import cosines

CARDS = 40  # shown on the page; explanation.json has them all
SHOWN = 6  # neurons of a group that are named
ROWS = 80  # neurons in the figure of cosines
FITTING = (
    f"0: every mark is there; 1: the mark that decides is missing. A picture is named from {1 - FITS:g} on."
)
REQUIRED_NOTE = "With a negative slack the theorem promises nothing for this data; what it predicts may be seen all the same."
NEURONS = (
    "The largest share of the margin first. Purity is 1 for a neuron that looks at one sub-class, 1/k for one that looks evenly at k."
    " A negative share works against the margin."
)


def save_page(explanation: Explanation, folder: Path) -> None:
    """index.html, features.png and explanation.json."""
    prepare_folder(folder)
    figures = []
    with plt.rc_context(SETTINGS):
        if explanation.cards:
            figures.append(("features", cosine_figure(explanation)))
        figures.append(("radii", curve(explanation.bracket)))
    pictures = ""
    for name, figure in figures:
        image = _png(figure)
        write_whole(folder / f"{name}.png", image)
        pictures += f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(image).decode()}">'
    write_whole(folder / "index.html", _page(explanation, pictures))
    write_whole(folder / "explanation.json", as_json(explanation.rows(), indent=1))


def cosine_figure(explanation: Explanation) -> Figure:
    """Cosines of the strongest neurons with the sub-class means, neurons of a class side by side."""
    neurons, of = explanation.subject.neurons, explanation.subject
    assert neurons is not None
    chosen = [j for card in explanation.cards for j in card.members][:ROWS]
    chosen.sort(key=lambda j: (int(neurons.owner[j]), int(cosines(neurons.W[j : j + 1], of.mu)[0].argmax())))
    table = cosines(neurons.W[chosen], of.mu).numpy()
    figure, axis = plt.subplots(
        figsize=(1.8 + 0.28 * table.shape[1], 1.0 + 0.07 * max(len(chosen), 14)), layout="constrained"
    )
    image = axis.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axis.set(xlabel="sub-class", ylabel="neuron, by class", yticks=[])
    axis.set_xticks(range(table.shape[1]), [name[:8] for name in of.fine_names], rotation=90)
    figure.colorbar(image, ax=axis, label="cosine")
    return figure


def _png(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Software": None})
    plt.close(figure)
    return content.getvalue()


def _page(explanation: Explanation, pictures: str) -> str:
    fits = _table(
        ("picture", "distance", "marks that are there", "the mark that decides"),
        [
            (fit.paper, f"{fit.distance:.2f}", f"{fit.num_met} of {len(fit.marks)}", str(fit.deciding))
            for fit in explanation.fits
        ],
    )
    compared = _table(
        ("theorem", "quantity", "predicted", "measured"),
        [
            (
                c.paper,
                c.quantity,
                show(c.predicted),
                show(c.measured) if math.isnan(c.proven) else f"{show(c.proven)} to {show(c.measured)}",
            )
            for c in explanation.comparisons
        ],
    )
    words = {True: "holds", False: "fails", None: "unknown"}
    required = _table(
        ("condition", "measured", "asked", "slack", ""),
        [
            (
                f"{p.name} ({p.source})",
                show(p.measured),
                f"{p.relation} {p.required:.3g}",
                show(p.slack),
                words[p.holds],
            )
            for p in explanation.premises
        ],
    )
    seen = "".join(f"<li>{escape(part.sentence)}</li>" for part in explanation.seen[1:])
    fitting = explanation.picture != NONE
    named = (
        f"<p>This is the picture of {explanation.picture}: {escape(WORDS[explanation.picture][0])}.</p>"
        if fitting
        else ""
    )
    tables = [
        _section("What the theorems predict, and what is measured", _radii(explanation), compared)
        if explanation.comparisons
        else "",
        _section("What the theorems ask of the data", REQUIRED_NOTE, required)
        if explanation.premises
        else "",
    ]
    behind = "".join(tables)
    folded = (
        f"<details><summary>Predictions and premises of theorems that do not fit</summary>{behind}</details>"
    )
    parts = [
        f"<h1>{escape(explanation.sentence)}</h1><ul>{seen}</ul>{named}<p>{escape(explanation.advice)}</p>",
        pictures,
        _section("Neurons", NEURONS, _cards(explanation)) if explanation.cards else "",
        _section("How far is the picture of each theorem", FITTING, fits) if explanation.fits else "",
        behind if fitting else folded if behind else "",
        "".join(f'<p class="soft">{escape(note)}</p>' for note in explanation.footnotes),
    ]
    return html_page("explanation", "".join(parts))


def _section(title: str, words: str, content: str) -> str:
    return f'<h2>{title}</h2><p class="soft">{escape(words)}</p>{content}'


def _radii(explanation: Explanation) -> str:
    right = float((explanation.bracket.attacked > 0).mean())
    return (
        "μ are the means of the sub-classes, of which there are k. Radii are medians over"
        f" {len(explanation.bracket.attacked)} points, {right:.0%} of them classified rightly, from what is proven to what an"
        " attack reaches, in the units of the data."
    )


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of plain words; cells that hold pictures are made by their own function."""
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table><tr>{"".join(f"<th>{h}</th>" for h in heads)}</tr>{body}</table></div>'
    )


def _cards(explanation: Explanation) -> str:
    """One line for each card; weights and points as pictures where they are some, the universal direction of two classes."""
    side = _side(explanation.subject.x.shape[1])
    cards = [_card(explanation, card, side) for card in explanation.cards[:CARDS]]
    lines = "".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in card.values()) + "</tr>" for card in cards
    )
    more = len(explanation.cards) - CARDS
    note = f'<p class="soft">and {more} more in explanation.json</p>' if more > 0 else ""
    heads = "".join(f"<th>{h}</th>" for h in cards[0])
    return f'<div class="scroll"><table><tr>{heads}</tr>{lines}</table></div>{note}'


def _card(explanation: Explanation, card: NeuronCard, side: int | None) -> dict[str, str]:
    """What each column says."""
    of = explanation.subject
    cells = {
        "neurons": str(card.neuron) if card.size == 1 else f"{card.size} alike: {_few(card.members)}",
        "votes for": escape(card.votes_for),
        "nearest sub-class": escape(
            f"{of.fine_names[card.nearest]} of {of.names[int(of.parent[card.nearest])]}, "
            f"cosine {card.cosines[card.nearest]:.2f}"
        ),
        "purity": f"{card.purity:.2f}",
        "share of the margin": f"{card.margin_share:.1%}",
    }
    if of.num_classes == 2:
        cells["of the universal direction"] = f"{card.universal_share:.1%}"
    cells["active on"] = f"{card.active_share:.0%}"
    if side is None:
        return cells | {"excited by": ", ".join(map(str, card.exciting))}
    assert of.neurons is not None
    points = "".join(thumbnail(of.x[i], side) for i in card.exciting)
    return cells | {
        "weights": thumbnail(of.neurons.W[list(card.members)].mean(dim=0), side),
        "excited by": f'<span style="white-space:nowrap">{points}</span>',
    }


def _few(members: tuple[int, ...]) -> str:
    """The first of many numbers."""
    return ", ".join(map(str, members[:SHOWN])) + (", …" if len(members) > SHOWN else "")


def _side(dim: int) -> int | None:
    """The side of square grey pictures with so many pixels; None where there are none of a usual size."""
    side = math.isqrt(dim)
    return side if side * side == dim and 8 <= side <= 64 else None


def thumbnail(image: torch.Tensor, side: int) -> str:
    """A small grey picture, from its least to its largest value."""
    values = image.detach().double().numpy().reshape(side, side)
    low, high = values.min(), values.max()
    grey = np.uint8(255 * (values - low) / max(high - low, 1e-12))
    content = io.BytesIO()
    Image.fromarray(grey).save(content, format="png")
    data = base64.b64encode(content.getvalue()).decode()
    return f'<img alt="" width="36" style="image-rendering:pixelated;margin:1px" src="data:image/png;base64,{data}">'
