"""`featureprism play`: the playground on this machine, or as a folder of recordings."""

import argparse
import os
import sys
import webbrowser
from contextlib import suppress
from importlib.util import find_spec

NEEDED = ("starlette", "uvicorn")
INTERRUPTED = 130


def play(args: argparse.Namespace) -> int:
    """Serve the page until interrupted, or write it with recordings."""
    if args.export is not None:
        return _export(args)
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise ValueError(f"The playground needs {' and '.join(missing)}: pip install 'featureprism[play]'.")
    if not 0 <= args.port < 65536:
        raise ValueError(f"--port must be between 0 and 65535, got {args.port}.")
    from featureprism.play.server import serve

    def ready(address: str) -> None:
        print(f"The playground is at {address} (on this machine alone; Ctrl+C ends it)", flush=True)
        if not args.no_browser:
            webbrowser.open(address)

    with suppress(KeyboardInterrupt):
        serve(args.port, ready)
    print("\nThe playground has ended.", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)  # at once: threads that still compute answers for nobody would keep the process


def _export(args: argparse.Namespace) -> int:
    """Record every scene of the tour, with progress."""
    from featureprism.lab.terminal import progress_bar
    from featureprism.play.export import export

    with progress_bar("recordings") as bar:
        export(args.export, bar.move)
    print(f"{args.export}/index.html is the playground with recordings; it needs no server")
    return 0
