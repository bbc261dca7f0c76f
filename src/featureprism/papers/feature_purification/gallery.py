"""Sheets of pictures for the image items; matplotlib is imported when something is drawn."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from featureprism.lab import Rows
from featureprism.lab.images import as_image
from featureprism.lab.rows import Row

GAP = 1  # pixels between pictures
NAMES = {"adversarial": "adversarially trained", "clean": "cleanly trained", "start": "at the start"}


def mosaic(pictures: Iterable[Row], columns: int) -> np.ndarray:
    """Pictures side by side on white, `columns` in a row."""
    images = [as_image(row).numpy() for row in sorted(pictures, key=lambda row: row["index"])]
    height, width, channels = images[0].shape
    lines = -(-len(images) // columns)
    sheet = np.ones((lines * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels))
    for index, image in enumerate(images):
        top, left = (index // columns) * (height + GAP), (index % columns) * (width + GAP)
        sheet[top : top + height, left : left + width] = image
    return sheet


def gallery(rows: Rows, *, columns: int, facts: str = "", by: str = "") -> Any:
    """One sheet of pictures for each network (first seed), with the mean share of energy of `facts` rows in its title.

    With `by` there is one line of sheets for each value of that setting.
    """
    import matplotlib.pyplot as plt

    pictures = rows.of("picture", seed=rows.seeds[0])
    lines = sorted(pictures.distinct(by)) if by else [None]
    names = sorted(pictures.distinct("network"), key=lambda name: name != "images")
    shown = max(len(own) for own in pictures.groups("network").values())
    tall = 2.5 * -(-shown // len(lines) // columns) / columns + 0.45  # inches of a sheet and its title
    figure, axes = plt.subplots(
        len(lines),
        len(names),
        figsize=(2.5 * len(names), tall * len(lines)),
        layout="constrained",
        squeeze=False,
    )
    for line, value in zip(axes, lines, strict=True):
        chosen = pictures.having(**{by: value}) if by else pictures
        for spot, name in zip(line, names, strict=True):
            sheet = mosaic(chosen.having(network=name), columns)
            spot.imshow(sheet if sheet.shape[2] == 3 else sheet[..., 0], cmap="gray", interpolation="nearest")
            spot.set_axis_off()
            title = f"{NAMES.get(name, name)}{f', {by} {value}' if by else ''}"
            shares = rows.of(facts, network=name).column("share")
            if len(shares) and not by:
                title += f"\n{shares.mean():.0%} in the first components"
            spot.set_title(title, fontsize=8)
    return figure
