"""Premises of a theorem: conditions on a setting, beside what the setting has."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from featureprism.lab.bounds import Bound
from featureprism.lab.rows import Row, Rows


@dataclass(frozen=True)
class Premise:
    """One condition of a theorem beside what the setting has.

    Parameters
    ----------
    id : str
        "theorem.condition", for claims to name.
    name : str
        The quantity, in the paper's letters.
    measured : float
        What the setting has; NaN when it could not be measured.
    relation : {"<=", "<", ">=", ">", "in"}
        How it must compare with what is required.
    required : float
        What the theorem requires.
    source : str
        Where the condition stands.

    Examples
    --------
    >>> import featureprism as fp
    >>> premise = fp.lab.Premise("theorem-1.noise", "α² ln N", measured=0.04, relation="<=", required=1.0)
    >>> premise.holds, premise.slack
    (True, 0.96)
    """

    id: str
    name: str
    measured: float
    relation: str
    required: float
    source: str = ""

    @property
    def bound(self) -> Bound:
        """What is required, as a bound."""
        return Bound.of(self.relation, self.required)

    @property
    def holds(self) -> bool | None:
        """Whether the condition is met; None when it could not be measured."""
        bound = self.bound  # an unknown relation is refused whatever was measured
        return None if math.isnan(self.measured) else bound.holds(self.measured)

    @property
    def slack(self) -> float:
        """Distance from what is required, in units of the measured quantity; negative when it fails."""
        gap = self.measured - self.required
        return gap if self.relation in (">=", ">") else -gap

    def as_row(self) -> Row:
        """The premise as a flat row."""
        return {
            "kind": "premise",
            "id": self.id,
            "name": self.name,
            "measured": self.measured,
            "relation": self.relation,
            "required": self.required,
            "holds": self.holds,
            "slack": self.slack,
            "source": self.source,
        }


@dataclass(frozen=True)
class PremiseStatus:
    """The premises under which a theorem speaks, and how many of them hold in a run."""

    num_premises: int
    failing: tuple[str, ...]

    @property
    def inside(self) -> bool | None:
        """Whether the theorem speaks of this run; None when no premise was measured."""
        return None if self.num_premises == 0 else not self.failing

    def as_row(self) -> Row:
        """For JSON."""
        holding = self.num_premises - len(self.failing)
        return {
            "inside": self.inside,
            "premises": self.num_premises,
            "holding": holding,
            "failing": list(self.failing),
        }


@dataclass(frozen=True)
class Requires:
    """Premises by the beginning of their ids ("assumption-4-3" stands for all of its parts), in the runs with these fields."""

    ids: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def regime(self, rows: Rows) -> PremiseStatus:
        """Which of the premises hold in every run that measured them."""
        parts = rows.of("premise", **self.fields).groups("id")
        chosen = {id: part for id, part in parts.items() if self._names(id)}
        failing = tuple(id for id, part in chosen.items() if not all(row["holds"] is True for row in part))
        return PremiseStatus(len(chosen), failing)

    def _names(self, id: str) -> bool:
        return any(id == prefix or id.startswith(f"{prefix}.") for prefix in self.ids)


def requires(*ids: str, **fields: Any) -> Requires:
    """The premises under which a claim is made: `requires("assumption-2-2", "theorem-3-1.n", name="within")`.

    Parameters
    ----------
    *ids : str
        Names of premises, or of theorems with all of their premises.
    **fields
        Only premises of rows with these values.

    Returns
    -------
    Requires
        For the argument `premises` of `Claim`.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.lab.requires('assumption-2-2', name='within').ids
    ('assumption-2-2',)
    """
    return Requires(ids, fields)
