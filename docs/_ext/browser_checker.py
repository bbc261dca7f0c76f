"""The exact checker and an interpreter for it, copied into a built site: `browser_checker.py docs/_build/html`.

The interpreter is the npm package pyodide, one version, known by its digest. Where npm is not installed the page says so by itself.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

VERSION = "314.0.7"
SHA256 = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
NEEDED = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
EXACT = Path(__file__).parents[2] / "src" / "featureprism" / "checker" / "exact.py"


def package(folder: Path) -> Path | None:
    """The package's archive in a folder, fetched if it is not there; None without npm."""
    path = folder / f"pyodide-{VERSION}.tgz"
    npm = shutil.which("npm")
    if not path.exists() and npm:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [npm, "pack", "--silent", f"pyodide@{VERSION}"], cwd=folder, check=False, capture_output=True
        )
    if not path.exists():
        return None
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise ValueError(f"{path} is not the package that this site was tested with.")
    return path


def install(site: Path, archive: Path) -> None:
    """Copy the checker and what the interpreter needs."""
    target = site / "_static" / "check"
    (target / "pyodide").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(EXACT, target / "exact.py")
    with tarfile.open(archive) as files:
        for name in NEEDED:
            source = files.extractfile(f"package/{name}")
            assert source is not None
            (target / "pyodide" / name).write_bytes(source.read())


if __name__ == "__main__":
    site = Path(sys.argv[1])
    found = package(site.parent / "packages")
    if found is None:
        print("npm is not here: the site has no interpreter for the exact checker.")
    else:
        install(site, found)
