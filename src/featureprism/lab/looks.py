"""A group-sequential plan: more seeds while a claim is undecided, at fixed looks, with the error spent over them.

Whoever looks at five seeds, and takes more because they do not decide, looks twice, and errs more often than an interval of 95 %
says. Here the looks are fixed beforehand and share the error of 5 % between them (Bonferroni: the chance that any look errs is at most
the sum, however the looks depend on each other). The first look, which decides most claims, has three fifths of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from featureprism.lab.claim import Claim
from featureprism.lab.intervals import LEVEL
from featureprism.lab.rows import Rows
from featureprism.lab.verdict import Outcome, Verdict, judge


@dataclass(frozen=True)
class Looks:
    """Numbers of seeds at which claims are judged, and the error that each look may spend.

    Parameters
    ----------
    seeds : tuple of int
        Numbers of seeds, from few to many.
    errors : tuple of float
        Chance of a wrong decision at each look; they add up to at most 5 %.
    seconds : float
        Processor time that the seeds of one further look of an item may take.

    Examples
    --------
    >>> from featureprism.lab.looks import Looks
    >>> [(num, round(level, 4)) for num, level in Looks()]
    [(5, 0.97), (10, 0.99), (20, 0.99)]
    """

    seeds: tuple[int, ...] = (5, 10, 20)
    errors: tuple[float, ...] = (0.03, 0.01, 0.01)
    seconds: float = 600.0

    def __post_init__(self) -> None:
        if len(self.seeds) != len(self.errors) or list(self.seeds) != sorted(set(self.seeds)):
            raise ValueError(
                f"Looks need increasing numbers of seeds with an error each, got {self.seeds}, {self.errors}."
            )
        if min(self.errors) <= 0 or sum(self.errors) > 1 - LEVEL + 1e-12:
            raise ValueError(
                f"The errors of the looks must be positive and add up to at most {1 - LEVEL:g}, got {self.errors}."
            )

    def __iter__(self) -> Iterator[tuple[int, float]]:
        """Number of seeds and confidence of every look."""
        return ((num, 1 - error) for num, error in zip(self.seeds, self.errors, strict=True))

    def judge(self, claim: Claim, rows: Rows, id: str = "") -> Verdict:
        """The verdict of the first look that decides, else of the last for which there are seeds.

        A claim about every run is judged by all seeds there are.
        """
        reached = [(num, level) for num, level in self if num <= len(rows.seeds)]
        if claim.aggregate == "worst" or not reached:
            return judge(claim, rows, id)
        verdict = None
        for num, level in reached:
            verdict = judge(claim, rows.first_seeds(num), id, level)
            if verdict.outcome != Outcome.UNDECIDED:
                break
        assert verdict is not None
        return verdict

    def next(self, num: int) -> int | None:
        """The number of seeds of the look after `num` seeds; None after the last."""
        return next((more for more in self.seeds if more > num), None)
