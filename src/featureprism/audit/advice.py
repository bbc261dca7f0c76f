"""What an audit advises: which head to take, and what beats it."""

from collections.abc import Sequence

from featureprism.lab.heads.compare import OFFERED, chance
from featureprism.lab.rows import Row

YOURS = "your head"
ALLOWED = 0.01  # loss of accuracy that a recommended head may have
WHERE = "Radii are distances between embeddings (median of test points); they promise nothing directly about images or texts."
SIDES = ("certified_radius", "attacked_radius")


def recommendation(rows: Sequence[Row]) -> Row:
    """The head with the largest proven radius among those that lose at most 1 point to the head at hand, if it holds further.

    What counts is the proven radius of validation points: an open bracket earns nothing. A head that is no worse than the recommended
    one in accuracy and proven radius, and better in one, is named: it dominates.
    """
    heads = [row for row in rows if row["kind"] == "head"]
    now = next((row for row in heads if row["family"] == "yours"), None) or next(
        row for row in heads if row["family"] == "ReLU"
    )
    best = _best(heads, now)
    taken = best if best is not None and _holds_further(best, now) else now
    beaten_by = dominating(heads, taken)
    text = f"{_sentence(taken, now, best)} {WHERE}" + (f" {_beaten(beaten_by, taken)}" if beaten_by else "")
    names = [row["head"] for row in beaten_by]
    return {"kind": "recommendation", "head": taken["head"], "text": text, "dominated_by": names}


def _best(heads: Sequence[Row], now: Row) -> Row | None:
    """Ours with the largest proven radius, of those whose validation accuracy is near enough.

    A standard error is taken off the loss that is allowed, but nobody is asked for more than the accuracy of the head at hand.
    """
    floor = now["held_accuracy"] - max(ALLOWED - chance(now["held_points"]), 0.0)
    able = [row for row in heads if row["family"] in OFFERED and row["held_accuracy"] >= floor]
    return max(able, key=lambda row: row["held_proven"], default=None)


def _holds_further(best: Row, now: Row) -> bool:
    """Whether neither radius is smaller, and one is larger."""
    return all(best[side] >= now[side] for side in SIDES) and any(best[side] > now[side] for side in SIDES)


def dominating(heads: Sequence[Row], taken: Row) -> list[Row]:
    """Heads that are no worse than one in accuracy and proven radius, and better in one; the farthest first."""
    names = ("accuracy", "certified_radius")
    better = [
        row
        for row in heads
        if all(row[name] >= taken[name] for name in names) and any(row[name] > taken[name] for name in names)
    ]
    return sorted(better, key=lambda row: -row["certified_radius"])


def _sentence(taken: Row, now: Row, best: Row | None) -> str:
    if best is None:
        return f"Keep {now['head']}: no head of ours is within 1 point of its accuracy on validation points."
    if taken is now:
        return (
            f"Keep {now['head']}: '{best['head']}', the best of ours within 1 point of its accuracy on validation points, does not "
            "hold further on test points, proven and attacked."
        )
    loss = 100 * (now["accuracy"] - taken["accuracy"])
    return (
        f"Take '{taken['head']}', saved as head.npz: it {'loses' if loss > 0 else 'gains'} {abs(loss):.1f} points of accuracy "
        f"against {now['head']} and holds up to {taken['attacked_radius']:.3g} instead of {now['attacked_radius']:.3g} "
        f"(proven: {taken['certified_radius']:.3g} instead of {now['certified_radius']:.3g})."
    )


def _beaten(rows: Sequence[Row], taken: Row) -> str:
    """Which heads are better on all counts."""
    first = rows[0]
    more = (
        f" (so {'does' if len(rows) == 2 else 'do'} {', '.join(row['head'] for row in rows[1:])})"
        if rows[1:]
        else ""
    )
    return (
        f"'{first['head']}' dominates it{more}: accuracy {first['accuracy']:.1%} against {taken['accuracy']:.1%}, proven "
        f"{first['certified_radius']:.3g} against {taken['certified_radius']:.3g}, attacked {first['attacked_radius']:.3g} against "
        f"{taken['attacked_radius']:.3g}."
    )
