"""The command line: the arguments are in `commands.arguments`, what the commands do in the other modules of `commands`."""

import codecs
import gc
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module

from featureprism.commands.arguments import parser

BAD_USAGE, INTERRUPTED = 2, 130
DEBUG = "FEATUREPRISM_DEBUG"
LISTS = ("list", "show", "claims", "premises")  # that import everything, print and end
COMMANDS = {  # imported when called: most of them need torch
    "list": "listing.list_experiments",
    "show": "listing.show",
    "claims": "listing.list_claims",
    "premises": "premises.print_premises",
    "reproduce": "experiments.run_reproduce",
    "report": "experiments.run_report",
    "radius": "networks.radius",
    "verify": "properties.verify",
    "check": "proofs.check",
    "referee": "networks.referee",
    "compare": "compare.compare",
    "kkt": "networks.kkt",
    "sweep": "sweeps.run_sweep",
    "rows": "sweeps.print_rows",
    "phase": "sweeps.draw_phase",
    "audit": "audit.run_audit",
    "explain": "explain.run_explain",
    "fetch": "data.fetch",
    "embed": "data.embed",
    "zoo": "zoo.run_zoo",
    "play": ".play.command.play",  # not in `commands`: it has a server
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 2 bad usage, 3 a claim failed under --strict or a proof was refused, 130 interrupted."""
    _print_anywhere()
    args = parser().parse_args(argv)
    module, _, function = COMMANDS[args.command].rpartition(".")
    try:
        with _keeping_everything() if args.command in LISTS else nullcontext():
            code = getattr(import_module(f".{module}", "featureprism.commands"), function)(args)
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # `featureprism list | head`: nobody reads the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"featureprism: {error}", file=sys.stderr)
        return BAD_USAGE
    except Exception as error:  # of a library below us: nobody should have to read its traceback
        if os.environ.get(DEBUG):
            raise
        print(f"featureprism: {in_one_sentence(error)}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        print("\nStopped. What is finished is kept; the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED


def in_one_sentence(error: Exception) -> str:
    """What a library complained about, in one line, and how to see where."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, MemoryError):
        reason = reason or "there is not enough memory"
    words = f"{type(error).__name__}: {reason[:300]}" if reason else type(error).__name__
    return f"This did not work: {words.rstrip('.')}. With {DEBUG}=1 in the environment the same command shows where."


@contextmanager
def _keeping_everything() -> Iterator[None]:
    """No search for garbage, now or at the end of the process, where it takes a third of a short command's time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _print_anywhere() -> None:
    """A character that the terminal or the file behind stdout has no code for is printed as JSON would escape it: \\u2016."""
    codecs.register_error("json", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="json")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


if __name__ == "__main__":
    sys.exit(main())
