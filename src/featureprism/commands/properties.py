"""verify: whether a property of a network's outputs holds."""

import argparse
from math import inf

from featureprism._files import as_json
from featureprism.verify.properties.api import COMPETITION, verify_property
from featureprism.verify.query import Budget

SECONDS = 120.0  # unless branches are limited


def verify(args: argparse.Namespace) -> int:
    """Answer in one sentence, and write what shows it."""
    seconds = args.seconds if args.seconds is not None else SECONDS if args.branches is None else inf
    result = verify_property(args.model, args.property, budget=Budget(seconds, args.branches))
    path = None if args.out is None else result.save(args.out)
    if args.json:
        facts = {"answer": result.answer, "competition": COMPETITION[result.answer], "reason": result.reason}
        facts |= {"seconds": result.seconds, "parts": result.num_leaves, "confirmed": result.is_confirmed}
        facts |= {
            name: None if v is None else v.tolist()
            for name, v in (("counterexample", result.counterexample), ("outputs", result.outputs))
        }
        print(as_json(facts | {"written": None if path is None else str(path)}, indent=1))
        return 0
    print(f"{result}.")
    if path is not None:
        print(f"{result.seconds:.1f} CPU seconds; {path}")
    return 0
