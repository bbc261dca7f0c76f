"""zoo: the image networks that are shipped, and how to train one again."""

import argparse
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console
from rich.table import Table

from featureprism._files import as_json
from featureprism.commands.common import context_from
from featureprism.lab.rows import Row
from featureprism.lab.terminal import duration, progress_bar
from featureprism.zoo.evaluation import JUDGES
from featureprism.zoo.files import KEPT, read_card
from featureprism.zoo.members import MEMBERS
from featureprism.zoo.rebuild import cifar, rebuild, seconds_of


def run_zoo(args: argparse.Namespace) -> int:
    """`featureprism zoo`: who is there; with --rebuild, train one."""
    if args.rebuild is not None:
        return train_again(args)
    cards = {name: read_card(name, args.folder or KEPT) for name in MEMBERS}
    if args.json:
        print(as_json({name: card for name, card in cards.items() if card is not None}, indent=1))
        return 0
    console = Console()
    console.print(_table({name: card for name, card in cards.items() if card is not None}))
    if absent := [name for name, card in cards.items() if card is None]:
        print(f"Not shipped, --rebuild trains them: {', '.join(absent)}")
    return 0


def _table(cards: dict[str, Row]) -> Table:
    """One line for each network: how it was trained and what it is worth."""
    table = Table(title="Networks on CIFAR-10; robust: PGD with restarts and two losses, 95 % intervals")
    for column in ("name", "epochs", "accuracy", *JUDGES):
        table.add_column(column, no_wrap=column == "name")
    for name, card in cards.items():
        accuracies = card["accuracies"]
        table.add_row(
            name,
            str(card["recipe"]["epochs"]),
            *(_interval(accuracies[field]) for field in ("accuracy", *JUDGES)),
        )
    return table


def _interval(accuracies: Row) -> str:
    return f"{accuracies['share']:.3f} [{accuracies['low']:.3f}, {accuracies['high']:.3f}]"


def train_again(args: argparse.Namespace) -> int:
    """Train the members whose names fit the pattern, one after the other; a second call goes on where the first was stopped."""
    members = [member for name, member in MEMBERS.items() if fnmatchcase(name, args.rebuild)]
    if not members:
        raise ValueError(f"The zoo knows no {args.rebuild!r}; it has {', '.join(MEMBERS)}.")
    folder: Path = args.folder or Path("zoo")
    context = context_from(args, networks=folder / "checkpoints")
    data = cifar(context)
    if len(members) > 1:
        members = [member for member in members if read_card(member.name, folder) is None]
    for member in members:
        estimate = duration(seconds_of(member, data, folder, context.device))
        print(
            f"{member.name}: about {estimate} of training here (from steps that were timed), if nothing is done yet."
        )
        with progress_bar(f"train {member.name}") as bar:
            watched = replace(context, progress=bar.within, log=bar.log)
            path = rebuild(member, folder, watched, data)
        print(path)
    return 0
