"""Schematic drawings of the data, the network and the result of training for each story: papers/PAPER/schematic.html.

Run it after a change: `python docs/_ext/schematics.py`. Lines and words take the colour of the page, the classes those of the figures.
"""

from html import escape
from math import cos, pi, sin, sqrt
from pathlib import Path

PAPERS = Path(__file__).parents[2] / "src" / "featureprism" / "papers"
PLUS, MINUS = "#0072B2", "#D55E00"  # Okabe-Ito, readable with any colour vision
WIDTH, HEIGHT = 240, 200
CENTRE = (120.0, 108.0)
Point = tuple[float, float]


def polar(angle: float, length: float, start: Point = CENTRE) -> Point:
    """The point at an angle (degrees, counter-clockwise from the right) and a distance from `start`."""
    return start[0] + length * cos(angle * pi / 180), start[1] - length * sin(angle * pi / 180)


def line(
    a: Point, b: Point, colour: str = "currentColor", *, width: float = 1.4, dashed: bool = False
) -> str:
    dash = " stroke-dasharray='4 3'" if dashed else ""
    ends = f"x1='{a[0]:.1f}' y1='{a[1]:.1f}' x2='{b[0]:.1f}' y2='{b[1]:.1f}'"
    return f"<line {ends} stroke='{colour}' stroke-width='{width}'{dash}/>"


def arrow(a: Point, b: Point, colour: str = "currentColor", *, width: float = 1.8) -> str:
    """A line with a head at `b`."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = sqrt(dx * dx + dy * dy)
    ux, uy = dx / length, dy / length
    left = (b[0] - 8 * ux + 3.5 * uy, b[1] - 8 * uy - 3.5 * ux)
    right = (b[0] - 8 * ux - 3.5 * uy, b[1] - 8 * uy + 3.5 * ux)
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in (b, left, right))
    return (
        line(a, (b[0] - 5 * ux, b[1] - 5 * uy), colour, width=width)
        + f"<polygon points='{head}' fill='{colour}'/>"
    )


def dot(at: Point, colour: str, radius: float = 2.6) -> str:
    return f"<circle cx='{at[0]:.1f}' cy='{at[1]:.1f}' r='{radius}' fill='{colour}'/>"


def ring(at: Point, radius: float) -> str:
    return f"<circle cx='{at[0]:.1f}' cy='{at[1]:.1f}' r='{radius}' fill='none' stroke='currentColor' stroke-width='1.4'/>"


def word(at: Point, text: str, *, anchor: str = "middle", size: int = 12) -> str:
    return (
        f"<text x='{at[0]:.1f}' y='{at[1]:.1f}' text-anchor='{anchor}' font-size='{size}' "
        f"fill='currentColor'>{escape(text)}</text>"
    )


def cloud(at: Point, colour: str, *, flipped: str = "") -> str:
    """Eleven points of a cluster on a sunflower; one has the other label where `flipped` names its colour."""
    places = [polar(137.5 * i, 4.6 * sqrt(i), at) for i in range(11)]
    return "".join(dot(p, flipped if flipped and i == 7 else colour) for i, p in enumerate(places))


def panel(title: str, *parts: str) -> str:
    return (
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{escape(title)}' style='flex:1 1 220px;max-width:340px'>"
        f"{word((WIDTH / 2, 15), title, size=13)}{''.join(parts)}</svg>"
    )


def network(formula: str, activation: str) -> str:
    """Inputs, a hidden layer, one output."""
    inputs = [(30.0, y) for y in (60.0, 90.0, 120.0, 150.0)]
    hidden = [(118.0, y) for y in (50.0, 83.0, 127.0, 160.0)]
    output = (200.0, 105.0)
    edges = [line(a, (b[0] - 11, b[1]), width=0.5) for a in inputs for b in hidden]
    edges += [line((h[0] + 11, h[1]), (output[0] - 11, output[1]), width=0.8) for h in hidden]
    bend = [
        line((h[0] - 7, h[1] + 3), (h[0], h[1] + 3)) + line((h[0], h[1] + 3), (h[0] + 6, h[1] - 5))
        for h in hidden
    ]
    circles = [ring(h, 11) for h in hidden] + [ring(output, 11)]
    names = [word((30, 178), "input x"), word((118, 190), activation), word((206, 132), "f(x)")]
    return panel(formula, *edges, *circles, *bend, *[dot(p, "currentColor", 4) for p in inputs], *names)


def star(
    title: str, centres: dict[float, str], neurons: dict[float, str], *notes: str, length: float = 62
) -> str:
    """Cluster centres around the origin, and neurons as arrows."""
    clouds = [cloud(polar(angle, 68), colour) for angle, colour in centres.items()]
    arrows = [arrow(CENTRE, polar(angle, length), colour) for angle, colour in neurons.items()]
    return panel(title, *clouds, *arrows, *notes)


def bars(heights: list[float], base: float, *, strong: int) -> str:
    """Weights on features; the strong one in the colour of a class."""
    return "".join(
        f"<rect x='{24 + 16 * i}' y='{base - h:.1f}' width='10' height='{h:.1f}' fill='{PLUS if i == strong else 'currentColor'}' "
        f"opacity='{1 if i == strong else 0.55}'/>"
        for i, h in enumerate(heights)
    ) + line((18, base), (222, base), width=0.8)


def gmm_flow() -> list[str]:
    centres = {90.0: PLUS, 210.0: PLUS, 330.0: MINUS}
    spokes = [line(CENTRE, polar(a, 50), width=0.9) for a in centres]
    a, b = polar(210, 68), polar(330, 68)
    labels = [
        word((120, 196), "√2 apart: √2/2 is the best radius"),
        line(a, b, dashed=True),
        word((146, 40), "μ₁"),
        word((30, 172), "μ₂"),
        word((210, 172), "μ₃"),
    ]
    return [
        panel(
            "Data: orthogonal centres of length 1",
            *spokes,
            *[cloud(polar(a, 68), c) for a, c in centres.items()],
            *labels,
        ),
        network("Network: one hidden layer", "neurons [z]₊ᵖ, p > 2"),
        star(
            "Found: one neuron for each centre",
            centres,
            dict(centres),
            word((120, 196), "with p = 1 they would average"),
            length=52,
        ),
    ]


def feature_averaging() -> list[str]:
    centres = {60.0: PLUS, 120.0: PLUS, 240.0: MINUS, 300.0: MINUS}
    return [
        star("Data: clusters, two labels", centres, {}, word((120, 196), "blue is +1, orange is −1")),
        star(
            "Found: every neuron averages",
            centres,
            {90.0: PLUS, 270.0: MINUS},
            word((120, 196), "one direction weakens all clusters"),
        ),
        star(
            "Possible: one for each cluster",
            centres,
            dict(centres),
            word((120, 196), "an attacker needs a longer step"),
            length=50,
        ),
    ]


def feature_purification() -> list[str]:
    before = [9, 6, 10, 7, 62, 8, 11, 6, 9, 7, 10, 8]
    after = [2, 1, 2, 2, 66, 1, 2, 2, 1, 2, 1, 2]
    present = [0, 26, 0, 0, 40, 0, 0, 0, 26, 0, 0, 26]
    words = (word((120, 150), "features 1 … d"), word((120, 168), "only about k are present"))
    return [
        panel("Data: a sparse sum of features", bars([float(h) for h in present], 130, strong=4), *words),
        panel(
            "A neuron after clean training",
            bars([float(h) for h in before], 130, strong=4),
            word((120, 150), "its weight on every feature"),
            word((120, 168), "one feature and a dense mixture"),
        ),
        panel(
            "The same after adversarial training",
            bars([float(h) for h in after], 130, strong=4),
            word((120, 150), "the feature stays"),
            word((120, 168), "the mixture is gone"),
        ),
    ]


def feature_amplification() -> list[str]:
    centres = {0.0: PLUS, 180.0: PLUS, 90.0: MINUS, 270.0: MINUS}
    clouds = [
        cloud(polar(angle, 68), colour, flipped=MINUS if colour == PLUS else PLUS)
        for angle, colour in centres.items()
    ]
    names = [word((222, 92), "μ₁"), word((14, 92), "−μ₁"), word((146, 36), "μ₂"), word((150, 192), "−μ₂")]
    start = [arrow(CENTRE, polar(a, 26)) for a in (18, 71, 128, 163, 215, 252, 301, 337)]
    grown = [
        arrow(CENTRE, polar(a, 50), PLUS if i < 4 else MINUS)
        for i, a in enumerate((-7, 6, 173, 186, 84, 97, 263, 276))
    ]
    return [
        panel("Data: XOR, some labels are wrong", *clouds, *names),
        panel(
            "Network: random neurons",
            *start,
            word((120, 178), "f(x) = Σ aⱼ [⟨wⱼ, x⟩]₊"),
            word((120, 196), "at the start, small"),
        ),
        panel("After one step: amplified", *grown, word((120, 196), "neurons turn to the four centres")),
    ]


def double_edged() -> list[str]:
    centres = {40.0: PLUS, 90.0: PLUS, 140.0: PLUS, 220.0: MINUS, 270.0: MINUS, 320.0: MINUS}
    clouds = [cloud(polar(angle, 60), colour) for angle, colour in centres.items()]
    moves = []
    for angle, colour in centres.items():
        x, y = polar(angle, 60)
        down = 1 if colour == PLUS else -1  # the classes move towards each other, side by side
        moves.append(arrow((x - 9 * down, y), (x - 9 * down, y + 70 * down), width=1.4))
    border = line((20, CENTRE[1]), (220, CENTRE[1]), dashed=True)
    return [
        panel("Data: nearly orthogonal clusters", *clouds, word((120, 197), "length √d, distance √(2d)")),
        network("Network: ReLU, trained to its limit", "neurons [z]₊, any width"),
        panel(
            "One vector z breaks every point",
            *clouds,
            border,
            *moves,
            word((120, 197), "blue moves by −z, orange by +z"),
        ),
    ]


def html(panels: list[str]) -> str:
    """The drawing of a paper; panels stand side by side, or below each other on a narrow page."""
    rows = "\n".join(panels)
    return f"<div class='schematic' style='display:flex;flex-wrap:wrap;gap:8px;justify-content:center'>\n{rows}\n</div>\n"


DRAWINGS = {
    draw.__name__: draw
    for draw in (gmm_flow, feature_averaging, feature_purification, feature_amplification, double_edged)
}

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (PAPERS / name / "schematic.html").write_text(html(draw()), encoding="utf-8")
