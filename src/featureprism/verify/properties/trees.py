"""The columns of a proof of a property while it is searched for (docs/proof_format.md, "Properties")."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from featureprism.checker.property_proofs import NONE


@dataclass
class Trees:
    """Trees of cuts and leaves, the domains they refer to, and all their numbers."""

    case_root: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    sides: list[tuple[int, int]] = field(default_factory=list)
    domain: list[int] = field(default_factory=list)
    block: list[np.ndarray | None] = field(default_factory=list)
    domains: list[tuple[int, int, np.ndarray]] = field(default_factory=list)  # case, parent, numbers

    def new(self, count: int = 1) -> list[int]:
        """Nodes without numbers or cuts: leaves that are proven by the rule."""
        first = len(self.cut)
        self.cut += [NONE] * count
        self.value += [0.0] * count
        self.sides += [(NONE, NONE)] * count
        self.domain += [NONE] * count
        self.block += [None] * count
        return list(range(first, first + count))

    def split(self, node: int, at: int, value: float = 0.0) -> tuple[int, int]:
        """Cut a node; returns its two parts."""
        below, above = self.new(2)
        self.cut[node], self.value[node], self.sides[node] = at, value, (below, above)
        return below, above

    def leaf(self, node: int, domain: int, numbers: np.ndarray) -> None:
        """A leaf with multipliers."""
        self.domain[node], self.block[node] = domain, numbers

    def columns(self) -> dict[str, Any]:
        """What the file holds."""
        blocks = [numbers for _, _, numbers in self.domains] + [b for b in self.block if b is not None]
        ends = np.cumsum([0, *map(len, blocks)])
        num = len(self.domains)
        width = np.array([0 if b is None else len(b) for b in self.block], dtype=np.int64)
        first = np.zeros(len(width), dtype=np.int64)
        first[[b is not None for b in self.block]] = ends[num:-1]
        sides = np.array(self.sides, dtype=np.int64).reshape(-1, 2)
        return {
            "node_cut": self.cut,
            "node_value": self.value,
            "node_below": sides[:, 0],
            "node_above": sides[:, 1],
            "node_domain": self.domain,
            "node_first": first,
            "node_width": width,
            "domain_case": [case for case, _, _ in self.domains],
            "domain_parent": [parent for _, parent, _ in self.domains],
            "domain_first": ends[:num],
            "domain_width": [len(numbers) for _, _, numbers in self.domains],
            "case_root": self.case_root,
            "numbers": np.concatenate([np.empty(0), *blocks]),
        }
