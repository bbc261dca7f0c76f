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
SLOW = ("phase_diagram", "my_torch_or_onnx_model", "robust_heads.md", "sweeps.md")  # shorter ones do the same


def marked(path, name):
    return pytest.param(path, marks=pytest.mark.slow if name in SLOW else (), id=name)


@pytest.mark.parametrize("script", [marked(e, e.stem) for e in EXAMPLES if e.stem not in WITH_WORKERS])
def test_example_runs(script, capsys, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)  # so that show() shows nothing
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("name", WITH_WORKERS)
def test_example_with_workers_runs(name):
    script = ROOT / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = ("dask_jobqueue",)  # needs a Slurm cluster


def blocks_of(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    return [block for block in blocks if not any(word in block for word in ELSEWHERE)]


@pytest.mark.parametrize("page", [marked(p, p.name) for p in PAGES if blocks_of(p)])
def test_the_examples_of_a_page_run_and_print_what_it_says(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page):
        exec(compile(block, page.name, "exec"), {"__name__": "__main__"})
        printed = capsys.readouterr().out
        said = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
        assert all(line in printed for line in said)
        assert printed.strip() or page.name != "README.md"
