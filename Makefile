# Two commands on a bare machine with Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
export PYTHONDONTWRITEBYTECODE :=  # without compiled modules every start takes ten seconds longer

.PHONY: demo test test-gpu lint docs bench clean

demo: $(READY)  ## build a town, train with binary and graded labels, evaluate, and write a report
	$(BIN)/samespot demo --out demo

# One process more than cores, up to four, since some tests wait for servers and browsers. Each computes with one thread,
# or they would wait for each other, and where numba has more, they sleep while they wait. The longest files come first
# (tests/conftest.py), so that none is last.
JOBS ?= $(shell $(PYTHON) -c "import os; print(min(4, 1 + (os.cpu_count() or 1)))")

test: $(READY)  ## every test
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

test-gpu:  ## what touches a GPU, against the processor, on the Python of this machine: two minutes; nothing is installed
	PYTHONPATH=src $(PYTHON) -m pytest --confcutdir tests/gpu -rs --durations 5 tests/gpu

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)  ## the documentation as a site, into site/
	$(BIN)/mkdocs build --strict --quiet

bench: $(READY)  ## every benchmark that needs no GPU and no data, small: five minutes on two cores
	$(BIN)/python benchmarks

clean:
	rm -rf $(VENV) demo dist build

# uv resolves and installs in a quarter of pip's time, so it comes first.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[dev]"
	@$(BIN)/samespot --help > /dev/null  # the first start compiles; later ones are instant
	@$(BIN)/python -c "import samespot.demo, samespot.figures.report, samespot.figures.report_networks, samespot.evaluation.run"
	@touch $(READY)
