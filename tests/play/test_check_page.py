"""The exact checker in a real browser, from a local server, with nothing from any other host."""

import functools
import importlib.util
import json
import math
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import featureprism as fp

pytest.importorskip("selenium", reason="the browser tests need selenium (featureprism[dev])")
import torch
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

DOCS = Path(__file__).parents[2] / "docs"
PATIENCE = 300  # seconds until a condition counts as never met
COLOURS = "--pst-color-success: #2a7; --pst-color-danger: #c33; --pst-color-border: #999"  # the theme's
PAGE = f'<!doctype html><meta charset="utf-8"><title>check</title><body style="{COLOURS}">'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page, its scripts, the checker and the interpreter on a local server; skipped without the npm package."""
    spec = importlib.util.spec_from_file_location("browser_checker", DOCS / "_ext" / "browser_checker.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    package = tool.package(DOCS / "_build" / "packages")
    if package is None:
        pytest.skip("no interpreter: the test of the page needs npm and its package pyodide")
    folder = tmp_path_factory.mktemp("site")
    tool.install(folder, package)
    for script in ("check.js", "worker.js"):
        (folder / "_static" / "check" / script).write_bytes(
            (DOCS / "_static" / "check" / script).read_bytes()
        )
    text = (DOCS / "check_in_browser.md").read_text("utf-8")
    html = text.split("```{raw} html\n")[1].split("```")[0]
    (folder / "index.html").write_text(PAGE + html, encoding="utf-8")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


def files(folder: Path) -> dict[str, Path]:
    """A network, five points, and proofs of ℓ2 radii."""
    generator = torch.Generator().manual_seed(0)
    W, a, b = (torch.randn(*s, dtype=torch.float64, generator=generator) for s in ((8, 3), (8,), (8,)))
    net = fp.networks.TwoLayerNet(W, a, b, activation=fp.networks.ReLU())
    x = torch.randn(5, 3, dtype=torch.float64, generator=generator)
    y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    paths = {name: folder / f"{name}.npz" for name in ("model", "points", "proofs")}
    np.savez(paths["model"], activation=np.array("relu"), W=W.numpy(), a=a.numpy(), b=b.numpy())
    np.savez(paths["points"], x=x.numpy(), y=y.numpy())
    fp.robust_radius(net, x, y, budget=fp.Budget(branches=20)).save(paths["proofs"])
    return paths


def verdict(browser, site: str, paths: dict[str, Path]) -> str:
    """What the page says of three files."""
    browser.get(site)
    for name, path in paths.items():
        browser.find_element(By.ID, f"check-{name}").send_keys(str(path))
    browser.find_element(By.ID, "check-start").click()
    place = browser.find_element(By.ID, "check-verdict")
    WebDriverWait(browser, PATIENCE).until(lambda _: place.get_attribute("data-state"))
    return place.text


@pytest.mark.slow
def test_files_are_verified_in_the_browser(browser, site, tmp_path):
    paths = files(tmp_path)
    assert "All 5 claims are proven" in verdict(browser, site, paths)
    rows = browser.find_elements(By.CSS_SELECTOR, "#check-rows tr")
    with np.load(paths["proofs"]) as file:
        arrays = dict(file)
    shown = [float(row.find_elements(By.TAG_NAME, "td")[1].text) for row in rows]
    assert all(math.isclose(s, c, rel_tol=1e-5) for s, c in zip(shown, arrays["certified"], strict=True))
    hosts = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert all(host.startswith(site.removesuffix("index.html")) for host in hosts)
    browser.save_screenshot(str(tmp_path / "proven.png"))
    # a claim that is too large, and a file about another model
    arrays["certified"] *= 1.001
    np.savez(tmp_path / "more.npz", **arrays)
    assert "of 5 claims are not proven" in verdict(browser, site, paths | {"proofs": tmp_path / "more.npz"})
    arrays["header"] = np.array(str(arrays["header"]).replace('"sha256": "', '"sha256": "0', 1))
    assert json.loads(str(arrays["header"]))
    np.savez(tmp_path / "other.npz", **arrays)
    assert "another model" in verdict(browser, site, paths | {"proofs": tmp_path / "other.npz"})
    assert [line["message"] for line in browser.get_log("browser") if "favicon" not in line["message"]] == []
