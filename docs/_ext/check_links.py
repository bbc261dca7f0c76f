"""Every internal link of a built site leads to a page, and to an anchor on it."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.anchors.add(value)
            elif value and name in ("href", "src") and tag != "base":
                self.links.add(value)


def broken_links(site: Path) -> list[str]:
    """What leads nowhere, as "page: link"."""
    found = (
        path for path in sorted(site.rglob("*.html")) if path.relative_to(site).parts[0] != "_static"
    )  # templates of the theme
    pages = {path: Page(path.read_text("utf-8")) for path in found}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            known = pages.get(target)
            # views of the playground are no anchors; pages of sources know only one of the names of a function
            has_anchor = target.parent.name != "playground" and path.relative_to(site).parts[0] != "_modules"
            is_anchor_known = not (known and has_anchor) or unquote(parts.fragment) in known.anchors
            if not (target.is_file() and is_anchor_known):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


if __name__ == "__main__":
    found = broken_links(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "Every internal link leads somewhere.")
    sys.exit(bool(found))
