# Every target sets up .venv by itself; the stamps remember what was installed.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test test-slow check bench clean

demo: .venv/run.stamp            ## reproduce gmm-flow at the quick scale and write the report
	$(BIN)/featureprism reproduce gmm-flow --scale quick --out demo
	$(BIN)/featureprism report demo

test: .venv/dev.stamp            ## the quick tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-slow: .venv/dev.stamp       ## the others: every head, ten thousand networks against brute force
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m slow

check: .venv/dev.stamp           ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: .venv/dev.stamp           ## timings as ratios within one run
	$(BIN)/python -m benchmarks

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@ .venv/run.stamp

clean:
	rm -rf .venv demo
