"""Help for mistyped names."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known name as a question, or all of them."""
    known = list(known)
    near = get_close_matches(str(name), known, n=1, cutoff=0.3)
    return f"Did you mean '{near[0]}'?" if near else f"Choose from: {', '.join(known)}."
