"""radius and kkt: your own network on your own points."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor

from featureprism.attacks import self_test
from featureprism.commands.common import AddParser
from featureprism.files import as_json
from featureprism.networks import TwoLayerNet, load_net, load_points
from featureprism.probes import direction_cosines, kkt_audit
from featureprism.report import kkt_table, progress_bar, save_curve
from featureprism.sweep import Request, bracket_points
from featureprism.training import max_margin_network


def add_parsers(add: AddParser) -> None:
    """The arguments of the commands."""
    own = add(
        "radius",
        "Bracket the robust radius of your own two-layer network on your own points: proven below, attacked above.",
        "radius net.npz data.npz --out radii",
    )
    own.add_argument(
        "net",
        type=Path,
        metavar="NET.npz",
        help="W, a, optional b, activation (relu, prelu, polynomial, tanh), p",
    )
    own.add_argument("data", type=Path, metavar="DATA.npz", help="x (n, d) and y (n,) in {-1, +1}")
    own.add_argument("--norm", type=float, default=2, help="2 or inf (default: 2)")
    own.add_argument(
        "--gap",
        type=float,
        default=0.01,
        help="relative width at which a bracket counts as closed (default: 0.01)",
    )
    own.add_argument(
        "--seconds", type=float, default=1.0, metavar="S", help="proof time per point (default: 1)"
    )
    own.add_argument(
        "--out", type=Path, default=Path("radii"), metavar="DIR", help="where results go (default: radii)"
    )

    audit = add(
        "kkt",
        "Audit how close your two-layer ReLU network is to a KKT point of the max-margin problem on your data.",
        "kkt net.npz data.npz",
    )
    audit.add_argument("net", type=Path, metavar="NET.npz", help="W, a, optional b, activation relu")
    audit.add_argument("data", type=Path, metavar="DATA.npz", help="x (n, d) and y (n,) in {-1, +1}")
    audit.add_argument(
        "--tolerance",
        type=float,
        default=1e-3,
        metavar="T",
        help="neurons within T ‖w‖‖x‖ of their kink may have any derivative in [0, 1] (default: 0.001)",
    )
    audit.add_argument(
        "--most-points",
        type=int,
        default=2000,
        metavar="N",
        help="solve for the exact point beside it up to N points (default: 2000)",
    )
    audit.add_argument("--json", action="store_true", help="print JSON")


def radius(args: argparse.Namespace) -> int:
    """Bracket the robust radius of every point of a file; a second call goes on where the first was stopped."""
    net = load_net(args.net)
    x, y = load_points(args.data, net.W.shape[1])
    request = Request(norm=args.norm, gap=args.gap, seconds_per_point=args.seconds)
    with progress_bar("brackets") as track:
        bracket = bracket_points(net, x, y, request, args.out, track=track)
    save_curve(bracket.certified, bracket.attacked, args.out)
    low, high = (float(side.median()) for side in (bracket.certified, bracket.attacked))
    print(f"half of the points fall between {low:.5g} (proven) and {high:.5g} (attacked)")
    closed = int((bracket.gap <= args.gap).sum())
    print(
        f"{closed} of {len(x)} brackets closed to {args.gap:g}; median gap {float(bracket.gap.median()):.3g}"
    )
    passed = "passed" if self_test().passed else "FAILED: do not believe the attacked side"
    print(
        f"attack self-test {passed}; vanished gradients on {bracket.zero_gradient_share:.0%} of the points; "
        f"plain PGD misses {bracket.blind_share:.0%} of them beyond their radius"
    )
    print(f"brackets.csv, witnesses.npz and curve.png are in {args.out}")
    return 0


def kkt(args: argparse.Namespace) -> int:
    """Audit how close a network is to a KKT point of the max-margin problem on its data."""
    net = load_net(args.net)
    x, y = load_points(args.data, net.W.shape[1])
    audit = kkt_audit(net, x, y, tolerance=args.tolerance)
    facts = audit.as_row() | {
        "points": len(y),
        "reference": f"not solved for more than {args.most_points} points",
    }
    if len(y) <= args.most_points:
        facts |= _reference(net, x, y, audit.normalised_margin)
    if args.json:
        print(as_json(facts, indent=1))
    else:
        Console().print(kkt_table(facts))
    return 0


def _reference(net: TwoLayerNet, x: Tensor, y: Tensor, margin: float) -> dict[str, Any]:
    """The exact KKT point with one direction for each sign, beside the network; or why there is none."""
    try:
        best = max_margin_network(x, y)
    except ValueError as error:  # not separable, or one class only: the audit itself stands
        return {"reference": str(error)}
    exact = kkt_audit(best.net, x, y, tolerance=1e-9, multipliers=(best.alone, best.against))
    facts = {
        "reference": "the exact KKT point with one direction for each sign",
        "reference_stationarity": exact.stationarity,
        "margin_share": margin / exact.normalised_margin,
    }
    if net.b is None:
        return facts
    positive, negative = direction_cosines(net, best.net).tolist()
    return facts | {"cosine_positive": positive, "cosine_negative": negative}


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {"radius": radius, "kkt": kkt}
