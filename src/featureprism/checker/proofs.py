"""Proofs as plain arrays: the trees of many certificates, laid out one node after another."""

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from featureprism.checker.cells import PARAMETERS
from featureprism.checker.certificate import Certificate
from featureprism.files import read_arrays, write_whole

FORMAT = 1
NO_NODE = -1
OF_PROOF = {
    "point": int,
    "own": int,
    "rival": int,
    "kind": str,
    "norm": float,
    "radius": float,
    "reach": float,
    "root": int,
    "lo": float,
    "hi": float,
    "axes": int,
}
LATER = {"lo": -np.inf, "hi": np.inf, "axes": 0}  # columns that older files lack, and what is meant there
OF_NODE = {"cut": int, "value": float, "below": int, "above": int, "tau": float, "first": int, "width": int}


@dataclass(frozen=True)
class Proof:
    """Why point number `point`, of the class `own`, is not taken for `rival` within a radius."""

    point: int
    own: int
    rival: int
    certificate: Certificate


def as_arrays(proofs: Iterable[Proof]) -> dict[str, np.ndarray]:
    """One array for each column of proofs, nodes and leaf parameters."""
    records: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    parameters: dict[str, list[np.ndarray]] = {name: [] for name in (*PARAMETERS, "multipliers")}
    ellipsoids: list[np.ndarray] = []  # the weights of each, one after the other
    for proof in proofs:
        c = proof.certificate
        weights = c.tree.get("weights", np.empty(0))
        ellipsoids.append(weights)
        root = _lay_out(c.tree, nodes, parameters) if c.tree else NO_NODE
        records.append(
            {"point": proof.point, "own": proof.own, "rival": proof.rival, "kind": c.kind, "norm": c.norm}
            | {"radius": c.radius, "reach": c.reach, "root": root, "lo": c.domain[0], "hi": c.domain[1]}
            | {"axes": len(weights)}
        )
    arrays = {
        n: np.array([r[n] for r in records], dtype=t if t is not str else "<U16") for n, t in OF_PROOF.items()
    }
    arrays |= {f"node_{n}": np.array([r[n] for r in nodes], dtype=t) for n, t in OF_NODE.items()}
    arrays |= {name: np.concatenate([np.empty(0), *parts]) for name, parts in parameters.items()}
    return arrays | {"ellipsoids": np.concatenate([np.empty(0), *ellipsoids]), "format": np.array(FORMAT)}


def _lay_out(
    tree: dict[str, Any], nodes: list[dict[str, Any]], parameters: dict[str, list[np.ndarray]]
) -> int:
    """Append a tree to the lists; returns the number of its root."""
    root, waiting = len(nodes), [(tree, NO_NODE, "")]
    while waiting:
        plain, parent, side = waiting.pop()
        if parent != NO_NODE:
            nodes[parent][side] = len(nodes)
        node = dict.fromkeys(OF_NODE, NO_NODE) | {"value": 0.0, "tau": 0.0, "width": 0}
        if "cut" in plain:
            node |= {"cut": plain["cut"], "value": plain["value"]}
            waiting += [(plain["below"], len(nodes), "below"), (plain["above"], len(nodes), "above")]
        else:
            names = _of_leaf("deep" if "multipliers" in plain else "cells")
            first = sum(map(len, parameters[names[0]]))
            node |= {"tau": plain.get("tau", 0.0), "first": first, "width": len(plain[names[0]])}
            for name in names:
                parameters[name].append(plain[name])
        nodes.append(node)
    return root


def _of_leaf(kind: str) -> tuple[str, ...]:
    """The arrays that hold the parameters of a leaf."""
    return ("multipliers",) if kind == "deep" else PARAMETERS


def from_arrays(arrays: dict[str, np.ndarray]) -> list[Proof]:
    """The proofs of such arrays; a ValueError where they do not fit together."""
    filled = {name: np.full(np.shape(arrays.get("norm", ())), value) for name, value in LATER.items()}
    arrays = {**filled, "multipliers": np.empty(0), "ellipsoids": np.empty(0), **arrays}
    _refuse_malformed(arrays)
    proofs, ends = [], np.cumsum(arrays["axes"])
    for i, kind in enumerate(arrays["kind"].tolist()):
        point, own, rival, root = (int(arrays[name][i]) for name in ("point", "own", "rival", "root"))
        norm, radius, reach = (float(arrays[name][i]) for name in ("norm", "radius", "reach"))
        domain = (float(arrays["lo"][i]), float(arrays["hi"][i]))
        tree = _tree(root, arrays, kind) if root != NO_NODE else {}
        if arrays["axes"][i] > 0:
            tree["weights"] = arrays["ellipsoids"][ends[i] - arrays["axes"][i] : ends[i]]
        proofs.append(Proof(point, own, rival, Certificate(radius, kind, norm, reach, tree, domain)))
    return proofs


def _refuse_malformed(arrays: dict[str, np.ndarray]) -> None:
    wanted = [*OF_PROOF, *(f"node_{n}" for n in OF_NODE), *PARAMETERS, "format"]
    if missing := [name for name in wanted if name not in arrays]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    if arrays["format"].size != 1 or int(arrays["format"].item()) != FORMAT:
        raise ValueError(f"it has the format {arrays['format']}, this program reads {FORMAT}")
    for names, kinds in ((list(OF_PROOF), OF_PROOF), ([f"node_{n}" for n in OF_NODE], OF_NODE)):
        lengths = {arrays[name].shape for name in names}
        if len(lengths) != 1 or len(next(iter(lengths))) != 1:
            raise ValueError(f"{', '.join(names)} must be as long as each other")
        for name, kind in zip(names, kinds.values(), strict=True):
            if arrays[name].dtype.kind != {int: "i", float: "f", str: "U"}[kind]:
                raise ValueError(f"{name} must hold {kind.__name__}s, got {arrays[name].dtype}")


def _tree(root: int, arrays: dict[str, np.ndarray], kind: str) -> dict[str, Any]:
    """The tree at a node; every node is used at most once, so that no tree holds itself."""
    tree: dict[str, Any] = {}
    waiting, seen, total = [(root, tree)], set(), len(arrays["node_cut"])
    while waiting:
        i, plain = waiting.pop()
        if not 0 <= i < total or i in seen:
            raise ValueError(f"a tree leads to the node {i}, which is not there or was met before")
        seen.add(i)
        cut = int(arrays["node_cut"][i])
        if cut != NO_NODE:
            plain |= {"cut": cut, "value": float(arrays["node_value"][i]), "below": {}, "above": {}}
            waiting += [(int(arrays[f"node_{side}"][i]), plain[side]) for side in ("below", "above")]
            continue
        first, width = int(arrays["node_first"][i]), int(arrays["node_width"][i])
        if first < 0 or width < 0:
            raise ValueError(f"the leaf {i} has its parameters at {first}, {width} of them")
        plain |= {name: arrays[name][first : first + width] for name in _of_leaf(kind)}
        if kind != "deep":
            plain["tau"] = float(arrays["node_tau"][i])
    return tree


def save_proofs(path: Path, proofs: Iterable[Proof], certified: np.ndarray) -> None:
    """Write proofs.npz in one motion: the proofs, and the radius (n,) that is claimed for each point."""
    content = BytesIO()
    np.savez_compressed(content, **as_arrays(proofs), certified=certified)  # pyright: ignore[reportArgumentType]
    write_whole(path, content.getvalue())


def load_proofs(path: Path) -> tuple[list[Proof], np.ndarray]:
    """The proofs and the claimed radii of a file that `save_proofs` wrote."""
    arrays = read_arrays(path)
    try:
        certified = arrays.get("certified", np.empty((0, 0)))
        if certified.ndim != 1 or certified.dtype != np.float64 or not (certified >= 0).all():
            raise ValueError("certified must hold one float64 radius for each point, none of them negative")
        return from_arrays(arrays), certified
    except ValueError as error:
        raise ValueError(f"{path} holds no proofs that can be read: {error}.") from error
