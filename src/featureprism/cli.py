"""The command line; what the commands do is in `commands`."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from featureprism.commands import audit, data, experiments, networks, sweeps

MODULES = (experiments, networks, sweeps, audit, data)
COMMANDS = {name: command for module in MODULES for name, command in module.COMMANDS.items()}
BAD_USAGE, INTERRUPTED = 2, 130


def parser() -> argparse.ArgumentParser:
    """The arguments of every command."""
    top = argparse.ArgumentParser(
        prog="featureprism",
        description="What features gradient descent finds, and how far the networks that use them are from breaking.",
    )
    top.add_argument("--version", action="version", version=version("featureprism"))
    commands = top.add_subparsers(dest="command", required=True)

    def add(name: str, text: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, description=text, epilog=f"Example: featureprism {example}"
        )

    for module in MODULES:
        module.add_parsers(add)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 2 bad usage, 3 a claim failed under --strict, 130 interrupted."""
    args = parser().parse_args(argv)
    try:
        return COMMANDS[args.command](args)
    except (ValueError, OSError) as error:
        print(f"featureprism: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        print("\nStopped. What is finished is kept; the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
