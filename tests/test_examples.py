"""Every example and every block of the README runs as it stands."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WITH_WORKERS = ("sweep_your_own",)  # starts processes, which need a main script of their own


@pytest.mark.parametrize("script", [e for e in EXAMPLES if e.stem not in WITH_WORKERS], ids=lambda p: p.stem)
def test_example_runs(script, capsys):
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("name", WITH_WORKERS)
def test_example_with_workers_runs(name):
    script = ROOT / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_examples_of_the_readme_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out.strip()
