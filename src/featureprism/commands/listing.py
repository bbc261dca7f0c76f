"""list and claims: what there is, without running anything."""

import argparse

from featureprism.files import as_json
from featureprism.papers import all_papers, experiments_called


def list_experiments(args: argparse.Namespace) -> int:
    """Print what can be reproduced."""
    experiments = [e for paper in all_papers().values() for e in paper.experiments]
    rows = [{"id": e.id, "title": e.title, "source": e.source, "scales": list(e.scales)} for e in experiments]
    if args.json:
        print(as_json(rows, indent=1))
        return 0
    width = max(len(row["id"]) for row in rows)
    for row in rows:
        print(f"{row['id']:<{width}}  {row['title']}  ({row['source']})")
    return 0


def list_claims(args: argparse.Namespace) -> int:
    """Print what is claimed."""
    rows = [
        {"id": e.claim_id(claim), "item": e.id, **claim.as_row()}
        for e in experiments_called(args.name)
        for claim in e.claims
    ]
    if args.json:
        print(as_json(rows, indent=1))
        return 0
    for item in dict.fromkeys(row["item"] for row in rows):
        print(f"\n{item}")
        for row in (r for r in rows if r["item"] == item):
            bound = (
                f"{row['bound'][0]:g} to {row['bound'][1]:g}"
                if row["relation"] == "in"
                else f"{row['relation']} {row['bound']:g}"
            )
            origin = row["source"] if row["origin"] == "paper" else f"featureprism; {row['source']}"
            print(f"  {row['id']}: {row['says']} [{bound}] ({origin})")
    return 0
