# `make run` opens a console, `make test` runs every test, `make check` is ruff and mypy.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.ready

.PHONY: run test check soak bench clean

run: $(STAMP)
	@$(VENV)/bin/lunabox

test: $(STAMP)
	@$(VENV)/bin/python -m pytest

check: $(STAMP)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

bench: $(STAMP)
	@$(VENV)/bin/python -m test.bench

soak: $(STAMP)
	@$(VENV)/bin/python -m pytest -m soak test/soak

# The environment is made once and again only when pyproject.toml changes.
$(STAMP): pyproject.toml
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat \
		--editable '.[dev,spark]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info
