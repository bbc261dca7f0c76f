"""The page as a folder that needs no server: the same files, and recordings of a tour through the scenes."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import torch

from featureprism._files import as_json, prepare_folder, write_whole
from featureprism._inputs import as_points
from featureprism.lab.rows import Row
from featureprism.models import read_model
from featureprism.play.answers import brackets, nearest_of
from featureprism.play.film import film
from featureprism.play.frames import WINDOW, frames
from featureprism.play.own import Own, story
from featureprism.play.papers import SCENES
from featureprism.play.scene import Scene
from featureprism.play.sparse import Sparse, purification
from featureprism.verify import Budget

PAGE = Path(__file__).parent / "page"
MOST_FRAMES = 90  # of a recording
PLACES = 7  # along each side of the slice where the nearest adversarial point is recorded
OWN_POINTS, OWN_WIDTH = 40, 30
MARK = '<script src="state.js">'  # recordings are announced before it
SIX, TEN = "+++---", "+++++-----"
TOUR = (
    *(Scene(k, p=p) for k, p in product((SIX, TEN), (1.0, 3.0))),
    *(Scene(k, labels="all") for k in (SIX, TEN)),
    *(Scene(SIX, p=p, start=0.0) for p in (1.0, 3.0)),
    *(Scene(SIX, p=p, overlap=0.6) for p in (1.0, 3.0)),
)
Move = Callable[[int, int], None]  # so many of all recordings are done


def export(folder: Path, move: Move) -> None:
    """Write the page and every recording; `move(done, total)` shows how far it is."""
    prepare_folder(folder / "recordings")
    for path in PAGE.iterdir():
        shutil.copyfile(path, folder / path.name)
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    write_whole(folder / "index.html", page.replace(MARK, f'<script src="recordings.js"></script>\n{MARK}'))
    parts = list(recordings())
    for done, (name, make) in enumerate(parts):
        move(done, len(parts))
        content = as_json(make())
        write_whole(
            folder / "recordings" / name, f"(window.PRISM_HEARD ??= {{}})[{as_json(name)}] = {content};\n"
        )
    move(len(parts), len(parts))
    write_whole(folder / "recordings.js", f"window.PRISM_RECORDINGS = {as_json(contents())};\n")


def contents() -> Row:
    """What is recorded, as the page asks for it."""
    scenes = [{"words": words(scene), "file": _name(scene)} for scene in TOUR]
    return {"scenes": scenes, "sparse": [{"words": words(Sparse()), "file": "sparse.js"}], "own": "own.js"}


def words(choice: Scene | Sparse) -> dict[str, str]:
    """A choice as the page writes it in its address."""
    values = {field.name: getattr(choice, field.name) for field in fields(choice)}
    return {name: v if isinstance(v, str) else f"{v:g}" for name, v in values.items()}


def _name(scene: Scene) -> str:
    name = f"{len(scene.classes)}-{scene.labels}-p{scene.p:g}-start{scene.start:g}-overlap{scene.overlap:g}"
    return f"{name}.js"


def recordings() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every file and how it is made."""
    for scene in TOUR:
        yield _name(scene), lambda scene=scene: recorded(scene)
    for name, scene in SCENES.items():
        yield f"{name}.js", lambda scene=scene: {"rows": list(scene({}))}
    yield "sparse.js", lambda: {"rows": list(purification(Sparse()))}
    yield (
        "own.js",
        lambda: {"rows": list(story(digits(), Budget(branches=4)))},
    )


def recorded(scene: Scene) -> Row:
    """The film, thinned out; the brackets; and the answers for places all over the slice."""
    opening, *pictures = frames(scene)
    step = -(-len(pictures) // MOST_FRAMES)
    kept = pictures[::-1][::step][::-1]  # the last one always
    left, right, bottom, top = WINDOW
    across = torch.linspace(left, right, 2 * PLACES + 1, dtype=torch.float64)[1::2]
    up = torch.linspace(bottom, top, 2 * PLACES + 1, dtype=torch.float64)[1::2]
    net, at_centre = film(scene).end().net, torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    return {
        "film": [opening, *kept],
        "brackets": list(brackets(scene)),
        "places": [
            *nearest_of(net, scene, at_centre),
            *nearest_of(net, scene, torch.cartesian_prod(across, up), branches=1),
        ],
    }


def digits() -> Own:
    """A network that scikit-learn trained on its handwritten digits, and points it has not seen."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    model = read_model(MLPClassifier((OWN_WIDTH,), tol=1e-2, random_state=0).fit(X[:1200], y[:1200]))
    x, labels = X[1200 : 1200 + OWN_POINTS], y[1200 : 1200 + OWN_POINTS]
    return Own(model, as_points(x), model.indices(labels))
