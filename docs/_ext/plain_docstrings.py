"""Our docstrings are plain text: `code` in single backticks, formulas with * and | as they are. Sphinx wants reStructuredText."""

import re
from typing import Any

CODE = re.compile(r"(`+[^`]+`+)")
MARKS = re.compile(r"([*|\\]|(?<=\w)_(?=\W|$))")


def plain(line: str) -> str:
    """A line with its code in double backticks, and every other mark as the character that it is."""
    parts = CODE.split(line)
    return "".join(f"``{p.strip('`')}``" if i % 2 else MARKS.sub(r"\\\1", p) for i, p in enumerate(parts))


def translate(lines: list[str]) -> list[str]:
    """A docstring, whose examples stay as they are."""
    in_example, result = False, []
    for line in lines:
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        result.append(line if in_example else plain(line))
    return result


def _process(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = translate(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
