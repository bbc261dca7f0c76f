"""--unit, --reference and --fixed: what a change of each feature costs."""

import argparse

import numpy as np

from featureprism._features import query_weights, spread_of
from featureprism._points import read_feature_names, read_points


def stated_units(
    args: argparse.Namespace, x: np.ndarray
) -> tuple[tuple[str, ...] | None, np.ndarray, np.ndarray | None]:
    """The names of the features, their standard deviations, and their weights in the question; None for weights of 1."""
    names = read_feature_names(args.data)
    spread = spread_of(x, None if args.reference is None else read_points(args.reference)[0])
    known = set(names or ())
    fixed = [int(f) if f.isdecimal() and f not in known else f for f in args.fixed] or None
    return names, spread, query_weights(args.unit, None, fixed, spread, names)
