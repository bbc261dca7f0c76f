"""The lower ends of the ranges in pyproject.toml, as constraints for pip: of what is needed, and of what the tests import beside it."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = re.compile(r"(pytest|pytest-xdist|beartype|pandas)>=")
project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
tested = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
tools = [needed for needed in project["optional-dependencies"]["dev"] if TOOLS.match(needed)]
for needed in [*project["dependencies"], *tools]:
    name, version = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", needed).groups()
    if name == "torch":
        version = (sys.argv[1] if len(sys.argv) > 1 else "") or tested["torch"]
    print(f"{name}=={version}")
