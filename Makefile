# Every target sets up .venv by itself; the stamps remember what was installed.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# compiled modules are kept: tests start dozens of processes, each of which would compile all that it imports
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-slow test-thorough mutants check bench results docs pages wheel test-oldest clean

# real data for the tests and the published results, where a folder with it lies beside the project
NEARBY := $(wildcard ../shared/data)
export FEATUREPRISM_DATA ?= $(if $(NEARBY),$(abspath $(NEARBY)))

demo: .venv/run.stamp            ## reproduce gmm-flow at the quick scale and write the report
	$(BIN)/featureprism reproduce gmm-flow --scale quick --out demo
	$(BIN)/featureprism report demo

test: .venv/dev.stamp            ## the quick tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-slow: .venv/dev.stamp       ## the slow ones: many random networks, killed runs, whole items
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "slow and not thorough"

test-thorough: .venv/dev.stamp   ## the rest of ten thousand random models of every kind: three CPU hours
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m thorough

PART ?= 1/1
mutants: .venv/dev.stamp         ## plant small bugs and see whether the nearest tests notice: PART=3/8, GROUP="checker lab"
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/run.py $(PART) $(GROUP)

check: .venv/dev.stamp           ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: .venv/dev.stamp           ## timings as ratios within one run
	$(BIN)/python -m benchmarks

SCALE ?= quick
results: .venv/run.stamp         ## docs/results/SCALE.json: items that changed since they were published, on seeds that nobody has looked at; SLOW=--slow: images too
	$(BIN)/featureprism reproduce all $(SLOW) --scale $(SCALE) --fresh docs/results --until-decided --out results/$(SCALE)
	$(BIN)/featureprism report results/$(SCALE) --publish docs/results
	$(BIN)/python -m featureprism.lab.costs docs/results

docs: .venv/docs.stamp           ## the site, offline, in docs/_build/html; a warning is an error
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	OMP_NUM_THREADS=1 $(BIN)/featureprism play --export docs/_build/html/playground
	$(BIN)/python docs/_ext/browser_checker.py docs/_build/html
	$(BIN)/python docs/_ext/check_links.py docs/_build/html
	$(BIN)/python docs/_ext/visit_pages.py docs/_build/html

pages: .venv/docs.stamp          ## the site without gallery and recordings, one page of each kind looked at in Chromium
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -b html -D plot_gallery=0 docs docs/_build/plain
	$(BIN)/python docs/_ext/visit_pages.py docs/_build/plain --sample

wheel: .venv/docs.stamp          ## the wheel, tried alone in an empty environment
	$(BIN)/python -m build --wheel --outdir dist
	sh .ci/try-wheel

test-oldest:                     ## the quick tests with the oldest versions that pyproject.toml allows (torch: as tested, or TORCH=2.6.0)
	sh .ci/test-oldest

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/run.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[onnx,play]'
	touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@ .venv/run.stamp

.venv/docs.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $@ .venv/dev.stamp .venv/run.stamp

clean:
	rm -rf .venv demo results dist docs/_build docs/atlas docs/gallery docs/reference
