"""featureprism fetch: the official archives of image data, into the cache."""

import argparse
from collections.abc import Callable

from featureprism.data.images import ARCHIVES, fetch_images


def add_parsers(add: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """The arguments of fetch."""
    fetching = add(
        "fetch", "Download MNIST or CIFAR-10 into the cache, checked against their sums.", "fetch mnist"
    )
    fetching.add_argument("name", choices=sorted(ARCHIVES), help="what to fetch")


def fetch(args: argparse.Namespace) -> int:
    """Download what is missing and print the folder."""
    print(fetch_images(args.name))
    return 0


COMMANDS = {"fetch": fetch}
