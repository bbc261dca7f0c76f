"""Open every page of a built site in Chromium, on a desk and on a phone, and list what a reader would trip over.

`visit_pages.py SITE` visits all pages; `visit_pages.py SITE --sample` one of each kind. A page has no raw tags, dollar signs or
backslashes in its visible text, nothing wider than the window, no heading that is cut off, no image that is missing, no formula
that is not typeset, and no error in its console.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

WIDTHS = {"desk": 1280, "phone": 390}
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
LOOK = r"""
const faults = [];
for (const part of document.querySelectorAll("details")) part.open = true;
const text = (() => {
  const copy = document.body.cloneNode(true);
  const aside = "pre, code, script, style, .katex, textarea, template, noscript, .sig";
  for (const part of copy.querySelectorAll(aside)) part.remove();
  return copy.textContent;
})();
const raw = [[/<\/?[a-z][^>]{0,60}>/i, "a raw tag"], [/\\[a-zA-Z(\[]/, "a backslash"], [/\$[^$\n]{1,80}\$/, "a raw formula"]];
for (const [pattern, name] of raw) {
  const match = text.match(pattern);
  if (match) faults.push(`${name}: ${match[0].slice(0, 60)}`);
}
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > width + 1) {
  const wide = [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > width + 1);
  const last = wide[wide.length - 1];
  faults.push(`${document.documentElement.scrollWidth - width} pixels wider than the page: ${last?.outerHTML.slice(0, 80)}`);
}
for (const heading of document.querySelectorAll("h1, h2, h3")) {
  const isCut = heading.clientWidth && heading.scrollWidth > heading.clientWidth + 1;
  if (isCut) faults.push(`a heading that is cut off: ${heading.textContent.slice(0, 60)}`);
}
for (const image of document.images) {
  if (image.loading === "lazy") image.loading = "eager";
  const isMissing = image.complete && !image.naturalWidth && image.getAttribute("src");
  if (isMissing) faults.push(`an image that is missing: ${image.src.slice(0, 80)}`);
}
for (const formula of document.querySelectorAll(".math")) {
  const isTypeset = formula.querySelector(".katex") && !formula.querySelector(".katex-error");
  if (!isTypeset) faults.push(`a formula that is not typeset: ${formula.textContent.slice(0, 60)}`);
}
return faults;
"""


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a window; ValueError where it is not installed."""
    from selenium import webdriver

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise ValueError("Chromium and its driver are not installed (Debian: chromium, chromium-driver).")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            yield session
        finally:
            session.quit()


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The site on a port of this machine: modules of scripts do not load from files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """No line for each request."""


def faults_of(session: Any, address: str) -> list[str]:
    """What is wrong with a page, at each width."""
    faults = []
    for name, width in WIDTHS.items():
        session.set_window_size(width, 900)
        if name == "phone":  # a window cannot be made as narrow as a phone
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": True}
            session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        else:
            session.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        session.get(address)
        found = session.execute_script(LOOK)
        found += [entry["message"] for entry in session.get_log("browser") if entry["level"] == "SEVERE"]
        faults += [f"{urlsplit(address).path} at {name}: {fault}" for fault in found]
    return faults


def pages_of(site: Path, *, sample: bool = False) -> list[Path]:
    """The pages of a site; with `sample` the first of every folder, and those at the top."""
    skipped = ("_static", "_modules", "_sources", "_downloads", "playground")
    pages = [p for p in sorted(site.rglob("*.html")) if p.relative_to(site).parts[0] not in skipped]
    if not sample:
        return pages
    folders = {page.parent: page for page in reversed(pages)}
    chosen = {*folders.values(), *(page for page in pages if page.name == "index.html"), *site.glob("*.html")}
    return [page for page in pages if page in chosen]


def visit(site: Path, pages: Iterable[Path]) -> list[str]:
    """All faults of these pages of a site."""
    with browser() as session, served(site) as root:
        return [fault for page in pages for fault in faults_of(session, f"{root}/{page.relative_to(site)}")]


if __name__ == "__main__":
    chosen = pages_of(Path(sys.argv[1]), sample="--sample" in sys.argv)
    all_faults = visit(Path(sys.argv[1]), chosen)
    print("\n".join(all_faults) or f"{len(chosen)} pages, looked at on a desk and on a phone: nothing wrong.")
    sys.exit(1 if all_faults or not chosen else 0)
