"""PhaseDiagram diagrams from rows: a heat map with contours and the theory's lines, and slices with fitted exponents."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.lines import Line2D

from featureprism.lab.rate import Rate, rate
from featureprism.lab.rows import Row, Rows
from featureprism.lab.style import COLOURS, SETTINGS, band, panels

LINES = 6  # slices drawn
WIDE = 4.0  # a range with this ratio is drawn on a log scale
Cell = tuple[Any, Any]


@dataclass(frozen=True)
class PhaseDiagram:
    """A value over two parameters: per cell (x, y) one number for each seed, and the cells where runs failed or are missing."""

    x: str
    y: str
    value: str
    cells: dict[Cell, dict[int, float]]
    failed: frozenset[Cell] = frozenset()
    missing: frozenset[Cell] = frozenset()
    theory: dict[Cell, float] = field(default_factory=dict)

    def axis(self, index: int) -> list[Any]:
        """The values along x (0) or y (1), in order."""
        values = {cell[index] for cell in (*self.cells, *self.failed, *self.missing)}
        return sorted(values, key=lambda v: (isinstance(v, str), v))

    def means(self) -> dict[Cell, float]:
        """The mean over seeds of every cell that has one."""
        finite = {cell: [v for v in by.values() if isfinite(v)] for cell, by in self.cells.items()}
        return {cell: sum(values) / len(values) for cell, values in finite.items() if values}


def phase_of(rows: Iterable[Row], x: str, y: str, value: str, *, theory: str | None = None) -> PhaseDiagram:
    """The cells of rows that have all three columns; one row for each cell and seed, or it is not clear what is meant."""
    cells: dict[Cell, dict[int, float]] = {}
    predicted: dict[Cell, float] = {}
    first: dict[tuple[Cell, int], Row] = {}
    names: set[str] = set()
    for row in rows:
        names |= row.keys()
        if is_place(row.get(x)) and is_place(row.get(y)) and isinstance(row.get(value), int | float):
            cell, seed = (row[x], row[y]), row["seed"]
            if seed in cells.setdefault(cell, {}):
                raise ValueError(_unclear(first[cell, seed], row, {x, y, value}))
            cells[cell][seed], first[cell, seed] = float(row[value]), row
            if theory:
                expected = row.get(theory)
                predicted[cell] = float(expected) if isinstance(expected, int | float) else nan
    for name in (x, y, value, *([theory] if theory else [])):
        if name not in names:
            raise ValueError(f"No row has a column '{name}'. There are: {', '.join(sorted(names))}.")
    if not cells:
        raise ValueError(f"No row has {x}, {y} and {value} together.")
    phase = PhaseDiagram(x, y, value, cells, theory=predicted)
    if not phase.means():
        raise ValueError(
            f"There is nothing to draw: {value} is NaN or infinite in all {len(first)} rows that have it."
        )
    return phase


def is_place(value: Any) -> bool:
    """Whether a value has a place on an axis: a word or a finite number."""
    return isinstance(value, str) or (isinstance(value, int | float) and isfinite(value))


def _unclear(one: Row, other: Row, known: set[str]) -> str:
    differ = [k for k in one.keys() | other.keys() if k not in known and one.get(k) != other.get(k)]
    differ.sort(
        key=lambda k: (isinstance(one.get(k), float), k)
    )  # words and whole numbers are more likely to differ on purpose
    return f"Several rows share a cell and a seed; they differ in {', '.join(differ[:6])}. Choose with --where NAME=VALUE."


def rates(phase: PhaseDiagram) -> dict[Any, Rate]:
    """How the value grows with x at every y with at least three positive x and positive values."""
    fits = {}
    for y in phase.axis(1):
        points = [
            {"seed": seed, "x": x, "value": value}
            for (x, other), values in phase.cells.items()
            if other == y and not isinstance(x, str) and x > 0
            for seed, value in values.items()
            if 0 < value < inf
        ]
        seeds = [seed for seed in {p["seed"] for p in points} if sum(p["seed"] == seed for p in points) >= 3]
        if seeds:
            fits[y] = rate(Rows.gather(p for p in points if p["seed"] in seeds), x="x", y="value")
    return fits


def draw_map(
    axes: Axes,
    phase: PhaseDiagram,
    *,
    boundary: Callable[[float], float] | None = None,
    label: str = "theory",
    levels: Sequence[float] = (),
) -> None:
    """Heat map of the means with contours (solid), those of the theory's column (dashed), and a boundary y(x)."""
    xs, ys, means = phase.axis(0), phase.axis(1), phase.means()
    place_x, place_y = _places(axes, xs, "x"), _places(axes, ys, "y")
    points = np.array([[place_x[x], place_y[y]] for x, y in means])
    values = np.array(list(means.values()))
    norm = LogNorm() if _is_wide(values) and not levels else Normalize()
    if 2 * len(means) < len(xs) * len(ys):  # random draws: no grid to fill
        drawn = axes.scatter(*points.T, c=values, norm=norm, s=30, edgecolors="none")
    else:
        table = _table(means, xs, ys)
        edges = [
            _edges(list(p.values()), s)
            for p, s in ((place_x, axes.get_xscale()), (place_y, axes.get_yscale()))
        ]
        drawn = axes.pcolormesh(*edges, table, norm=norm)
        axes.set_facecolor("0.9")
        levels = levels or _spread(values, norm)
        _contours(axes, place_x, place_y, table, _table(phase.theory, xs, ys), levels)
    figure = axes.get_figure()
    assert figure is not None
    figure.colorbar(drawn, ax=axes, label=phase.value)
    handles = _marks(axes, phase, place_x, place_y)
    if boundary:
        limits = axes.get_xlim(), axes.get_ylim()
        line = np.geomspace(*limits[0], 200) if axes.get_xscale() == "log" else np.linspace(*limits[0], 200)
        axes.plot(line, [boundary(float(v)) for v in line], color="white", linewidth=3.2)
        handles += axes.plot(
            line, [boundary(float(v)) for v in line], color=COLOURS[1], linestyle="--", label=label
        )
        axes.set(xlim=limits[0], ylim=limits[1])
    elif phase.theory:
        handles.append(Line2D([], [], color=COLOURS[1], linestyle="--", label=label))
    axes.set(xlabel=phase.x, ylabel=phase.y)
    if handles:
        axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=len(handles))


def draw_slices(axes: Axes, phase: PhaseDiagram) -> None:
    """The value against x at up to six y, with bands from the least to the largest seed, and on a wide x the exponents."""
    places = _places(axes, phase.axis(0), "x")
    fitted = rates(phase) if axes.get_xscale() == "log" else {}
    ys = phase.axis(1)
    chosen = [ys[i] for i in sorted({round(i) for i in np.linspace(0, len(ys) - 1, min(LINES, len(ys)))})]
    for colour, y in zip(COLOURS, chosen, strict=False):
        line = {x: [v for v in phase.cells.get((x, y), {}).values() if isfinite(v)] for x in places}
        line = {places[x]: values for x, values in line.items() if values}
        if not line:
            continue
        low, high, mean = ([f(v) for v in line.values()] for f in (min, max, lambda v: sum(v) / len(v)))
        label = f"{phase.y} = {show(y)}" + (f": {power(fitted[y], phase.x)}" if y in fitted else "")
        band(axes, list(line), low, mean, high, colour, label)
        axes.plot(list(line), mean, "o", color=colour, markersize=3)
        theory = {places[x]: phase.theory[x, y] for x in places if (x, y) in phase.theory}
        axes.plot(list(theory), list(theory.values()), color=colour, linewidth=0.9, linestyle="--")
    if _is_wide(list(phase.means().values())):
        axes.set_yscale("log")
    axes.set(xlabel=phase.x, ylabel=phase.value)
    axes.legend(fontsize=7)


def power(fit: Rate, x: str) -> str:
    """A fit in words: the exponent with its interval over seeds, or that the points are not a power law."""
    if fit.is_power_law is False:
        return f"not a power law in {x} (exponent {fit.first_exponents.mean():.2f} to {fit.last_exponents.mean():.2f})"
    low, high = fit.interval
    interval = f" [{low:.2f}, {high:.2f}]" if len(fit.exponents) > 1 else ""
    return f"{x}^{fit.exponent:.2f}{interval}"


def show(value: Any) -> str:
    """A parameter's value, short."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def save_phase(phase: PhaseDiagram, folder: Path) -> Path:
    """phase-X-Y-VALUE.png and .svg: the map and its slices."""
    with plt.rc_context(SETTINGS):
        figure, (left, right) = panels(2, width=5.0, height=3.8)
        draw_map(left, phase)
        draw_slices(right, phase)
        path = folder / f"phase-{phase.x}-{phase.y}-{phase.value}.png"
        figure.savefig(path, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)
    return path


def _is_wide(values: Sequence[float] | np.ndarray) -> bool:
    values = np.asarray(values)
    return bool(len(values) and values.min() > 0 and values.max() >= WIDE * values.min())


def _places(axes: Axes, values: list[Any], along: str) -> dict[Any, float]:
    """Where each value stands on an axis: numbers where they are, words in a row."""
    scale, ticks = (axes.set_xscale, axes.set_xticks) if along == "x" else (axes.set_yscale, axes.set_yticks)
    if any(isinstance(v, str | bool) for v in values):
        ticks(range(len(values)), [str(v) for v in values])
        return {v: float(i) for i, v in enumerate(values)}
    if _is_wide(values):
        scale("log")
    return {v: float(v) for v in values}


def _edges(centres: list[float], scale: str) -> np.ndarray:
    """Borders half way between centres, on the scale of the axis."""
    c = np.log(centres) if scale == "log" else np.asarray(centres)
    middle = (c[1:] + c[:-1]) / 2
    ends = (
        (c[0] - (middle[0] - c[0]), c[-1] + (c[-1] - middle[-1])) if len(c) > 1 else (c[0] - 0.5, c[0] + 0.5)
    )
    edges = np.concatenate([[ends[0]], middle, [ends[1]]])
    return np.exp(edges) if scale == "log" else edges


def _table(means: dict[Cell, float], xs: list[Any], ys: list[Any]) -> np.ndarray:
    return np.array([[means.get((x, y), nan) for x in xs] for y in ys])


def _spread(values: np.ndarray, norm: Normalize) -> list[float]:
    """Four levels between the least and the largest value."""
    if values.min() == values.max():
        return []
    spaced = np.geomspace if isinstance(norm, LogNorm) else np.linspace
    return spaced(values.min(), values.max(), 6)[1:-1].tolist()


def _contours(
    axes: Axes,
    place_x: dict[Any, float],
    place_y: dict[Any, float],
    table: np.ndarray,
    theory: np.ndarray,
    levels: Sequence[float],
) -> None:
    """Contours of the measured means, and dashed at the same levels those of the theory."""
    if min(table.shape) < 2:
        return
    for values, style in (
        (table, {"colors": "white", "linewidths": 0.9}),
        (theory, {"colors": COLOURS[1], "linewidths": 1.2, "linestyles": "--"}),
    ):
        known = values[np.isfinite(values)]
        crossed = [level for level in levels if len(known) and known.min() < level < known.max()]
        if crossed:
            lines = axes.contour(
                list(place_x.values()), list(place_y.values()), values, levels=crossed, **style
            )
            if values is table:
                axes.clabel(lines, fontsize=7, fmt=lambda v: f"{v:.3g}")


def _marks(
    axes: Axes, phase: PhaseDiagram, place_x: dict[Any, float], place_y: dict[Any, float]
) -> list[Any]:
    """A cross where a run failed, a ring where one is missing."""
    handles = []
    for cells, mark, label in ((phase.failed, "x", "a run failed"), (phase.missing, "o", "runs missing")):
        if cells:
            x, y = zip(*((place_x[c[0]], place_y[c[1]]) for c in cells), strict=True)
            style: Any = {
                "marker": mark,
                "color": "black",
                "linestyle": "none",
                "markerfacecolor": "none",
                "markersize": 5,
            }
            handles += axes.plot(x, y, label=label, **style)
    return handles
