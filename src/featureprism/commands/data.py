"""fetch and embed: image data from its official archives, and its CLIP embeddings."""

import argparse

from featureprism.commands.common import context_from
from featureprism.data.clip import save_embeddings
from featureprism.data.images import DIGITS, fetch_images, load_images
from featureprism.lab.terminal import progress_bar


def fetch(args: argparse.Namespace) -> int:
    """Download what is missing and print the folder."""
    print(fetch_images(args.name))
    return 0


def embed(args: argparse.Namespace) -> int:
    """Embed training and test images and print the file."""
    context = context_from(args)
    if not args.out.parent.is_dir():
        raise ValueError(f"{args.out.parent} is not a folder; choose another --out.")
    images = load_images(args.name, context.data)
    if images.source != args.name and images.source == DIGITS:
        raise ValueError(
            f"{args.name} is not at hand: 'featureprism fetch {args.name}', or name its folder with --data."
        )
    with progress_bar(f"embed {args.name}") as bar:
        save_embeddings(images, args.out, device=context.device, progress=bar.within)
    print(args.out)
    return 0
