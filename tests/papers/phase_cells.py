"""Cells of a phase diagram that are written down, and what claims measure on them."""

from featureprism.lab import Rows


def cells(*rows, **common):
    """Rows of one seed."""
    return Rows.gather({"kind": "cell", "seed": 0, **common, **row} for row in rows)


def values(experiment, table):
    """What each claim measures on the rows of one seed."""
    return {claim.name: claim.value(table)[0] for claim in experiment.claims}
