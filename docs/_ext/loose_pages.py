"""A page that nobody put into the guide's table of contents stands at its end, so that no page is ever lost."""

import re
from pathlib import Path
from typing import Any

MARK = "% every other page of this folder"
ELSEWHERE = {"index", "guide", "about", "results", "findings", "errata", "changelog", "contributing"}


def with_loose_pages(text: str, folder: Path) -> str:
    """The text of the guide with the names of all pages beside it that it does not name."""
    named = set(re.findall(r"^\w+$", text, flags=re.MULTILINE)) | ELSEWHERE
    pages = sorted(p.stem for p in folder.glob("*.md") if not p.stem.startswith("errata"))
    return text.replace(MARK, "\n".join(page for page in pages if page not in named))


def _read(app: Any, name: str, source: list[str]) -> None:
    if name == "guide":
        source[0] = with_loose_pages(source[0], Path(app.srcdir))


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _read)
    app.connect("env-get-outdated", lambda *_: ["guide"])  # pages come and go without a change of the guide
    return {"parallel_read_safe": True, "parallel_write_safe": True}
