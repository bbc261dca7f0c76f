"""The lower ends of the ranges in pyproject.toml, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
tested = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
for needed in [*project["dependencies"], "pytest>=8.3", "pytest-xdist>=3.6", "beartype>=0.20"]:
    name, version = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", needed).groups()
    if name == "torch":
        version = (sys.argv[1] if len(sys.argv) > 1 else "") or tested["torch"]
    print(f"{name}=={version}")
