"""Sentences for a terminal."""

import shutil
import sys
import textwrap


def say(text: object) -> None:
    """Print text. A terminal gets long lines broken between words; pipes and files get them whole."""
    lines = str(text).splitlines()
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        lines = [part for line in lines for part in wrapped(line, width)]
    print("\n".join(lines))


def wrapped(line: str, width: int) -> list[str]:
    """One line as lines of at most `width` columns; what is indented stays so, and names are not broken."""
    indent = line[: len(line) - len(line.lstrip(" "))]
    return textwrap.wrap(
        line.lstrip(" "),
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
