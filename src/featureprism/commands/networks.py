"""radius, referee and kkt: your own model on your own points."""

import argparse
import sys
from dataclasses import asdict, replace
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from torch import Tensor

from featureprism._files import as_json, prepare_folder
from featureprism._inputs import as_points
from featureprism._points import read_points
from featureprism.brackets import RadiusBracket
from featureprism.commands.bracket_page import write_page
from featureprism.commands.tables import kkt_table, rulings_table
from featureprism.commands.units import stated_units
from featureprism.commands.words import say
from featureprism.geometry import check_domain
from featureprism.lab.terminal import duration, progress_bar
from featureprism.models import read_model
from featureprism.models.model import NotANetwork
from featureprism.models.read import load_points, save_points
from featureprism.networks import TwoLayerNet, load_net
from featureprism.probes import direction_cosines, forget, kkt_audit, other_data
from featureprism.probes.self_test import self_test
from featureprism.seeds import generator_for
from featureprism.training import max_margin_network
from featureprism.verify import Budget, Query, robust_radius
from featureprism.verify.api import SECONDS
from featureprism.verify.batches import bracket_in_batches, write_bracket
from featureprism.verify.query import as_norm
from featureprism.verify.referee import judge_curve, read_curve


def radius(args: argparse.Namespace) -> int:
    """Bracket the robust radius of every point of a file; a second call goes on where the first was stopped."""
    bracket = _bracketed(args, eps=args.eps)
    if args.eps is None:
        from featureprism.lab.bracket_figure import save_curve  # brings matplotlib along

        save_curve(bracket, args.out)
        right = bracket.attacked > 0
        gaps = bracket.gap[right]
        say(bracket)
        if right.any() and bracket.certified.any():
            closed, median = int((gaps <= args.gap).sum()), float(np.median(gaps))
            say(
                f"{closed} of {int(right.sum())} brackets of correctly classified points closed to {args.gap:g}; "
                f"median gap {median:.3g}"
            )
    else:
        holds, flipped = (int(n.sum()) for n in (bracket.certified >= args.eps, bracket.attacked <= args.eps))
        left = len(bracket) - holds - flipped
        say(
            f"{holds} of {len(bracket)} points hold at {args.eps:g} (proven), {flipped} do not, {left} are open"
        )
        if steps := bracket.next_steps():
            print("\n".join(["What now:", *(f"  - {step}" for step in steps)]))
    passed = "passed" if self_test().passed else "FAILED: do not believe the attacked side"
    say(f"attack self-test {passed}{_blindness(bracket)}")
    drawn = " and curve.png" if args.eps is None else ""
    say(f"brackets.csv, witnesses.npz, proofs.npz{drawn} are in {args.out}")
    if args.report:
        say(
            f"the page to hand over is {write_page(bracket, args.out, args.model, args.data, _question(args))}"
        )
    return 0


def _question(args: argparse.Namespace) -> str:
    """The flags with which `check` states the same question."""
    words = [f"--norm {args.norm}"]
    words += [] if args.eps is None else [f"--eps {args.eps:g}"]
    words += [] if args.bounds is None else ["--bounds {:g} {:g}".format(*args.bounds)]
    words += [] if args.unit is None else [f"--unit {args.unit}"]
    words += [] if args.reference is None else [f"--reference {args.reference}"]
    return " ".join(words + (["--fixed", *args.fixed] if args.fixed else []))


def _blindness(bracket: RadiusBracket) -> str:
    """What plain gradients would have missed, where it was measured."""
    if isnan(bracket.blind_share):
        return ""
    return (
        f"; vanished gradients on {bracket.zero_gradient_share:.0%} of the points; "
        f"plain PGD misses {bracket.blind_share:.0%} of them beyond their radius"
    )


def _bracketed(args: argparse.Namespace, eps: float | None = None) -> RadiusBracket:
    """The brackets of the model and the points that the arguments name; `eps`: where only one radius is in question."""
    bounds = None if args.bounds is None else (args.bounds[0], args.bounds[1])
    points, labels = read_points(args.data)
    names, spread, weights = stated_units(args, points)
    about = {"points": points, "features": names, "spread": spread, "unit": args.unit or ""}
    query = Query(as_norm(args.norm), eps, bounds, gap=args.gap, weights=weights)
    try:
        model = read_model(args.model)
    except NotANetwork:
        return _called(args, points, labels, query, about)
    model = model if weights is None else model.with_scores()
    if points.shape[1] != (dim := model.dim):
        raise ValueError(f"{args.data} has points of dimension {points.shape[1]}, the network takes {dim}.")
    try:
        x, label = as_points(points), model.indices(labels, len(points))
        if bounds is not None:
            check_domain(x, bounds)
    except ValueError as error:
        raise ValueError(f"{args.data}: {error}") from error
    seconds = args.seconds if args.branches is None or args.seconds is not None else inf
    budget = Budget(SECONDS * len(x) if seconds is None else seconds, args.branches)
    if budget.seconds < inf:
        print(f"at most about {duration(budget.seconds)} of CPU time for {len(x)} points", file=sys.stderr)
    with progress_bar("brackets") as bar:
        bracket = bracket_in_batches(model, x, label, query, budget, args.out, progress=bar.within)
    return replace(bracket, **about)


def _called(
    args: argparse.Namespace,
    points: np.ndarray,
    labels: np.ndarray,
    query: Query,
    about: dict[str, Any],
) -> RadiusBracket:
    """The brackets of a file that can only be run, by onnxruntime."""
    bracket = robust_radius(
        args.model, points, labels, norm=query.norm, eps=query.eps, bounds=query.bounds, weights=query.weights
    )
    bracket = replace(bracket, **about)
    prepare_folder(args.out)
    write_bracket(args.out, bracket)
    return bracket


def referee(args: argparse.Namespace) -> int:
    """Judge a published curve by what is proven and what is witnessed."""
    radii, claimed, tolerance = read_curve(args.claims)
    bracket = _bracketed(args)
    rulings = judge_curve(bracket, radii, claimed, tolerance, args.of)
    if args.json:
        print(as_json([asdict(ruling) | {"possible": ruling.possible} for ruling in rulings], indent=1))
        return 0
    Console().print(rulings_table(rulings))
    wrong = sum(not ruling.possible for ruling in rulings)
    print(f"{wrong} of {len(rulings)} claims are impossible on these {len(bracket)} points")
    say(f"the witnesses and the proofs are in {args.out}")
    return 0


def kkt(args: argparse.Namespace) -> int:
    """Audit how close a network is to a KKT point of the max-margin problem on its data."""
    if args.most_points < 0:
        raise ValueError(f"--most-points must be 0 or more, got {args.most_points}.")
    net = load_net(args.net)
    x, y = load_points(args.data, net.W.shape[1])
    audit = kkt_audit(net, x, y, tolerance=args.tolerance)
    facts = audit.as_row() | {
        "points": len(y),
        "reference": f"not solved for more than {args.most_points} points",
    }
    if len(y) <= args.most_points:
        facts |= _reference(net, x, y, audit.normalised_margin)
    if args.forget is not None:
        facts |= forget(net, x, y, args.forget, tolerance=args.tolerance).as_row()
    if args.witness is not None:
        facts |= _witness(net, x, y, args.tolerance, args.witness)
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
    exact = kkt_audit(best.net, x, y, tolerance=1e-9, multipliers=(best.multipliers, best.kink_shares))
    facts = {
        "reference": "the exact KKT point with one direction for each sign",
        "reference_stationarity": exact.stationarity,
        "margin_share": margin / exact.normalised_margin,
    }
    if net.b is None:
        return facts
    positive, negative = direction_cosines(net, best.net).tolist()
    return facts | {"cosine_positive": positive, "cosine_negative": negative}


def _witness(net: TwoLayerNet, x: Tensor, y: Tensor, tolerance: float, path: Path) -> dict[str, Any]:
    """Other data of which the network is as much a KKT point, written to a file, with its own audit."""
    if path.suffix != ".npz":
        raise ValueError(f"--witness writes an .npz file, got {path}.")
    prepare_folder(path.parent)
    other = other_data(net, x, y, generator=generator_for("witness", 0), tolerance=tolerance)
    again = kkt_audit(net, other.x, other.y, tolerance=tolerance)
    save_points(path, other.x, other.y)
    return {
        "witness": str(path),
        "witness_points": len(other.y),
        "witness_moved": float(other.moved.max()),
        "witness_stationarity": again.stationarity,
        "witness_slackness": again.slackness,
    }
