"""premises: is a setting inside a theorem?"""

import argparse
import shutil
import textwrap

from featureprism._files import as_json
from featureprism.commands.common import parsed_changes
from featureprism.lab.premise import Premise
from featureprism.lab.registry import all_papers, paper_called
from featureprism.lab.table import show
from featureprism.lab.theorem import PremiseTable, factor, premises_of

MARKS = {True: "✓", False: "✗", None: "?"}
RELATIONS = {"<=": "≤", ">=": "≥"}


def print_premises(args: argparse.Namespace) -> int:
    """The premises of a theorem at the sizes of the paper or at others; the theorems of a paper, or of all."""
    if "/" not in args.name:
        return _list_theorems(args)
    table = premises_of(args.name, **parsed_changes(args.set))
    if args.json:
        print(as_json(table.as_row(), indent=1))
    else:
        print("\n".join(_lines(args.name, table)))
    return 0


def _list_theorems(args: argparse.Namespace) -> int:
    if args.set:
        raise ValueError("--set needs one theorem: featureprism premises PAPER/THEOREM --set SIZE=VALUE.")
    papers = [paper_called(args.name)] if args.name else [p for p in all_papers().values() if p.theorems]
    if args.name and not papers[0].theorems:
        raise ValueError(f"The paper {args.name} has no theorems with premises.")
    rows = [
        {
            "theorem": f"{paper.name}/{t.name}",
            "says": t.says,
            "sizes": dict(t.sizes),
            "letters": dict(t.letters),
        }
        for paper in papers
        for t in paper.theorems
    ]
    if args.json:
        print(as_json(rows, indent=1))
        return 0
    for row in rows:
        print(row["theorem"])
        print("\n".join(_wrapped(row["says"], "  ")))
    return 0


def _lines(name: str, table: PremiseTable) -> list[str]:
    theorem = table.theorem
    letters = {size: letter for letter, size in theorem.letters.items()}
    sizes = [
        f"{size} = {_number(value)}" + (f" ({letters[size]})" if size in letters else "")
        for size, value in table.sizes.items()
    ]
    lines = [name, *_wrapped(theorem.says, "  "), *_wrapped(f"At {', '.join(sizes)}:", "  ")]
    lines += [line for premise in table.premises for line in _premise_lines(premise)]
    num, failing = len(table.premises), len(table.failing)
    outside = f"outside the theorem: {failing} of {num} premises fail" + "s" * (failing == 1)
    lines.append(f"This setting is {f'inside: all {num} premises hold' if table.inside else outside}.")
    if theorem.asks:
        lines += _wrapped(f"Not decided by sizes: {theorem.asks}")
    return lines


def _premise_lines(premise: Premise) -> list[str]:
    relation = RELATIONS.get(premise.relation, premise.relation)
    text = (
        f"{MARKS[premise.holds]} {premise.name}: {show(premise.measured)} {relation} {show(premise.required)}"
    )
    if premise.holds is False:
        times = factor(premise)
        by = f"{show(-premise.slack)}" if times is None else f"a factor of {show(times)}"
        text += f", fails by {by}"
    return _wrapped(f"{text} ({premise.source})", "", "    ")


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _wrapped(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    width = min(shutil.get_terminal_size().columns, 120)
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent if hanging is None else hanging
    )
