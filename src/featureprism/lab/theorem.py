"""Theorems as data: is a setting inside a theorem, and which premise fails by how much?

The `theory.py` of a paper registers its theorems as THEOREMS, a tuple of `Theorem`, and the paper is made with
`Paper(..., theorems=theory.THEOREMS)`. A premise depends on sizes alone: nothing is trained or sampled.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from featureprism._suggest import did_you_mean
from featureprism.lab.premise import Premise
from featureprism.lab.rows import Row

if TYPE_CHECKING:
    from featureprism.lab.experiment import Paper


@dataclass(frozen=True)
class Theorem:
    """A theorem with the premises that sizes decide.

    Parameters
    ----------
    name : str
        As in PAPER/NAME: "theorem-4-5".
    says : str
        What it promises, in one sentence.
    sizes : mapping
        Every size the premises depend on, with the value it has unless another is given.
    premises : callable
        `premises(**sizes)` gives the list of `Premise`.
    letters : mapping
        The paper's letters and the sizes they stand for: {"d": "dim"}. Either name may be given.
    asks : str
        What the theorem asks for beyond sizes.
    """

    name: str
    says: str
    sizes: Mapping[str, Any]
    premises: Callable[..., list[Premise]]
    letters: Mapping[str, str] = field(default_factory=dict)
    asks: str = ""

    def at(self, sizes: Mapping[str, Any]) -> "PremiseTable":
        """The premises at other sizes; a size that it does not have, or of another type, is refused."""
        from featureprism.lab.experiment import changed

        named = {self.letters.get(name, name): value for name, value in sizes.items()}
        for name in named:
            if name not in self.sizes:
                known = [*self.sizes, *self.letters]
                raise ValueError(f"{self.name} has no size '{name}'. {did_you_mean(name, known)}")
        given = changed(dict(self.sizes), named, self.name)
        try:
            return PremiseTable(self, given, tuple(self.premises(**given)))
        except (ArithmeticError, ValueError) as error:
            shown = ", ".join(f"{name} = {value}" for name, value in given.items())
            raise ValueError(
                f"The premises of {self.name} cannot be computed at {shown}: {error}. Most sizes must be positive."
            ) from error


@dataclass(frozen=True)
class PremiseTable:
    """The premises of a theorem at given sizes.

    Attributes
    ----------
    theorem : Theorem
        The theorem.
    sizes : mapping
        Sizes at which it is looked at.
    premises : tuple of Premise
        Its premises, with what is required and what is there.
    """

    theorem: Theorem
    sizes: Mapping[str, Any]
    premises: tuple[Premise, ...]

    @property
    def failing(self) -> tuple[Premise, ...]:
        """The premises that do not hold."""
        return tuple(premise for premise in self.premises if premise.holds is not True)

    @property
    def inside(self) -> bool:
        """Whether every premise holds."""
        return not self.failing

    def as_row(self) -> Row:
        """For JSON."""
        rows = [premise.as_row() | {"factor": factor(premise)} for premise in self.premises]
        return {
            "theorem": self.theorem.name,
            "says": self.theorem.says,
            "asks": self.theorem.asks,
            "sizes": dict(self.sizes),
            "inside": self.inside,
            "premises": rows,
        }


def factor(premise: Premise) -> float | None:
    """The factor by which a failing premise misses what is required; None where it holds or a ratio makes no sense."""
    measured, required = premise.measured, premise.required
    if premise.holds is not False or not (measured > 0 and required > 0 and math.isfinite(measured)):
        return None
    return max(measured / required, required / measured)


def premises_of(name: str, **sizes: Any) -> PremiseTable:
    """Is a setting inside a theorem, and which premise fails by how much?

    Parameters
    ----------
    name : str
        PAPER/THEOREM, as `featureprism premises` lists them.
    **sizes
        Sizes of the setting, by name or by the paper's letter; the others have the values of the paper's experiment.

    Returns
    -------
    PremiseTable
        Its `inside` says whether every premise holds, `failing` names those that do not.

    Raises
    ------
    ValueError
        For a theorem or a size that does not exist, and for sizes that are not numbers of the right kind.

    Examples
    --------
    >>> from featureprism.lab import premises_of
    >>> table = premises_of("gmm-flow/theorem-1", alpha=0.1, D=50)
    >>> [(premise.id, round(premise.slack, 3)) for premise in table.failing][0]
    ('theorem-1.dim', -0.5)
    """
    from featureprism.lab.registry import paper_called

    paper, _, theorem = name.partition("/")
    return theorem_called(paper_called(paper), theorem).at(sizes)


def theorem_called(paper: "Paper", name: str) -> Theorem:
    """A theorem of a paper."""
    known = {theorem.name: theorem for theorem in paper.theorems}
    if not known:
        raise ValueError(f"The paper {paper.name} has no theorems with premises.")
    if name not in known:
        raise ValueError(f"{paper.name} has no theorem '{name}'. {did_you_mean(name, known)}")
    return known[name]
