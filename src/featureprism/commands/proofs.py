"""check: proofs verified from the weights and the points alone. Nothing but numpy is imported for a model in an .npz file."""

import argparse
import sys
from pathlib import Path

import numpy as np

from featureprism.checker.models import Model, read_weights
from featureprism.checker.proofs import load_proofs
from featureprism.checker.verify import verified_radii
from featureprism.files import as_json
from featureprism.labels import class_positions
from featureprism.points import read_points

REFUSED = 3
EVERYWHERE = (-np.inf, np.inf)
EVERY = 10  # percent between two lines of progress


def check(args: argparse.Namespace) -> int:
    """Verify every certified radius; 3 if one is not established by its proofs."""
    proofs, claimed = load_proofs(args.proofs)
    model, classes = _model(args.model)
    x, y = read_points(args.data)
    if len(x) != len(claimed):
        raise ValueError(f"{args.proofs} speaks of {len(claimed)} points, {args.data} has {len(x)}.")
    labels = class_positions(y, classes, model.num_classes)
    norms = {proof.certificate.norm for proof in proofs} or {2.0}
    if len(norms) > 1:
        raise ValueError(f"{args.proofs} mixes norms: {sorted(norms)}.")
    domains = {proof.certificate.domain for proof in proofs} - {EVERYWHERE}
    if len(domains) > 1:
        raise ValueError(f"{args.proofs} mixes domains: {sorted(domains)}.")
    inside = "".join(f" inside [{lo:g}, {hi:g}]" for lo, hi in domains)
    verified = verified_radii(model, x, labels, proofs, norms.pop(), _Lines())
    refused = np.flatnonzero(verified < claimed)
    facts = {
        "points": len(x),
        "certified": int((claimed > 0).sum()),
        "verified": int(((claimed > 0) & (verified >= claimed)).sum()),
        "refused": refused.tolist(),
        "median": float(np.sort(verified)[(len(verified) - 1) // 2]),  # as brackets have it
        "domain": next(iter(domains), None),
    }
    if args.json:
        print(as_json(facts, indent=1))
    else:
        print(
            f"{facts['verified']} of {facts['certified']} certified radii{inside} verified; median {facts['median']:.5g}"
        )
        if len(refused):
            print(f"refused: points {', '.join(map(str, refused[:20]))}{' ...' if len(refused) > 20 else ''}")
    return REFUSED if len(refused) else 0


def _model(path: Path) -> tuple[Model, np.ndarray | None]:
    """The weights of an .npz file; an .onnx file is read as `radius` reads it, which needs all of featureprism."""
    if path.suffix.lower() != ".onnx":
        return read_weights(path)
    from featureprism.verify import checkable, opened

    model = opened(path)
    return checkable(model.net), model.classes


class _Lines:
    """Progress in plain lines on stderr, on long checks only."""

    def __init__(self) -> None:
        self.next = EVERY

    def __call__(self, share: float) -> None:
        if 100 * share >= self.next and sys.stderr.isatty():
            print(f"checked {share:.0%}", file=sys.stderr)
            self.next += EVERY
