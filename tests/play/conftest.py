"""A server of the playground in a process of its own, and a real browser where there is one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,1200",
)


FEW_POINTS = """
import sys
from featureprism.cli import main
from featureprism.play import scene
scene.TEST_POINTS = 6  # whose radii are all that the page waits for
main(sys.argv[1:])
"""


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where `featureprism play` listens."""
    command = [sys.executable, "-c", FEW_POINTS, "play", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        assert said.startswith("The playground is at http://127.0.0.1:")
        yield said.split()[4]
        server.terminate()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory):
    """Chromium without a window; a test that needs it is skipped where it is not installed."""
    selenium = pytest.importorskip(
        "selenium.webdriver", reason="the browser tests need selenium (featureprism[dev])"
    )
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip(
            "no browser: the tests of the page need chromium and chromium-driver (apt-get install both)"
        )
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    window.set_script_timeout(120)
    yield window
    window.quit()
