"""Networks of the zoo on disk: NAME.npz holds the weights in half precision, NAME.json says how they came about.

They are part of the package (a wheel carries them) and lie under `zoo/` in the repository. Arrays only: nothing is unpickled.
"""

import hashlib
import io
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from featureprism._files import as_json, prepare_folder, write_whole
from featureprism.checker.arrays import read_arrays
from featureprism.data.images import ImageSet
from featureprism.lab import Rows
from featureprism.lab.rows import Row
from featureprism.networks.deep import channels_last
from featureprism.zoo.members import MEMBERS, SHAPE, Member, stems
from featureprism.zoo.training import fresh

KEPT = Path(__file__).with_name("kept")
COUNTER = "num_batches_tracked"  # batch normalisation counts its batches; nothing depends on it


def save(member: Member, net: nn.Module, card: Row, folder: Path = KEPT) -> Path:
    """Write both files; the card comes last and knows the sum of the other, so that a kill leaves no pair that passes for whole."""
    prepare_folder(folder)
    state = net.state_dict()
    arrays = {
        name: value.cpu().numpy().astype(np.float16)
        for name, value in state.items()
        if not name.endswith(COUNTER)
    }
    if spilled := [name for name, array in arrays.items() if not np.isfinite(array).all()]:
        raise ValueError(f"{member.name} does not fit into half precision: {', '.join(spilled)}.")
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    path = folder / f"{member.name}.npz"
    write_whole(path, stream.getvalue())
    about = {"name": member.name, "sha256": hashlib.sha256(stream.getvalue()).hexdigest(), **card}
    write_whole(_card(member.name, folder), as_json(about, indent=1) + "\n")
    return path


def _card(name: str, folder: Path) -> Path:
    return folder / f"{name}.json"


def read_card(name: str, folder: Path = KEPT) -> Row | None:
    """What is known of a network of the zoo: training, accuracy and hashes.

    Parameters
    ----------
    name : str
        Name of the network.
    folder : path, optional
        Where the networks are.

    Returns
    -------
    dict or None
        None where the network is not there.

    Examples
    --------
    >>> import featureprism as fp
    >>> card = fp.zoo.read_card('alexnet-clean')
    >>> isinstance(card, dict)
    True
    """
    path = _card(name, folder)
    if not path.exists():
        return None
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"Cannot read {path}: {error}; copy it again, or 'featureprism zoo --rebuild {name}'."
        ) from error
    if not isinstance(card, dict) or "sha256" not in card:
        raise ValueError(f"{path} is no card of the zoo: it lacks the sum of the weights; copy it again.")
    return card


def load(name: str, folder: Path = KEPT) -> nn.Module:
    """Load a network of the zoo.

    Parameters
    ----------
    name : str
        Name of the network, see `members`.
    folder : path, optional
        Where the networks are.

    Returns
    -------
    nn.Module
        In eval mode and single precision, on the CPU.

    Raises
    ------
    ValueError
        If it is not there.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.zoo.load('alexnet-clean').eval()
    >>> net(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    if name not in MEMBERS:
        raise ValueError(f"The zoo knows no {name!r}; it has {', '.join(MEMBERS)}.")
    card, path = read_card(name, folder), folder / f"{name}.npz"
    if card is None:
        raise ValueError(f"{name} is not in {folder}; 'featureprism zoo --rebuild {name}' trains it.")
    arrays = read_arrays(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != card["sha256"]:
        raise ValueError(f"{path} is not the file that its card speaks of (SHA-256 differs); copy it again.")
    net = fresh(MEMBERS[name])
    state = {name: torch.from_numpy(array.astype(np.float32)) for name, array in arrays.items()}
    wanted = {key: value for key, value in net.state_dict().items() if not key.endswith(COUNTER)}
    if {key: value.shape for key, value in wanted.items()} != {k: v.shape for k, v in state.items()}:
        raise ValueError(f"{path} does not hold the weights of a {MEMBERS[name].network}; copy it again.")
    net.load_state_dict(state, strict=False)
    return channels_last(net.eval())


def family_mark(stem: str, trainings: Iterable[str], folder: Path = KEPT) -> str:
    """A word that changes with the weights of these trainings of a family (or of sets of them); empty where one of them is missing.

    It stands in the settings of experiments, so that new weights are measured anew.
    """
    cards = [read_card(f"{one}-{name}", folder) for one in stems(stem) for name in trainings]
    if any(card is None for card in cards):
        return ""
    sums = "".join(card["sha256"] for card in cards if card is not None)
    return f"{stem} {hashlib.sha256(sums.encode()).hexdigest()[:8]}"


def is_cifar(data: ImageSet) -> bool:
    """Whether these are the images that the zoo was trained for."""
    return data.source.startswith("cifar10") and tuple(data.x_train.shape[1:]) == SHAPE


def share_weights(rows: Rows) -> bool:
    """Whether two seeds of a run measured one training of the zoo."""
    zoo = {row["zoo"] for row in rows if row.get("zoo") and str(row.get("source")).startswith("cifar10")}
    return any(
        len(rows.seeds) > len({seed % len(stems(name.split()[0])) for seed in rows.seeds}) for name in zoo
    )
