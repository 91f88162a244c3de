# `make run` opens a console, `make test` runs every test, `make check` is ruff and mypy, `make growth` shows how the time
# of each public call grows with its data, `make docs` builds the documentation.
PYTHON ?= python3
VENV := .venv
# What is installed, by purpose. Each is made once, and again only when pyproject.toml changes.
NODE := $(VENV)/.node
DEVELOPMENT := $(VENV)/.development
DOCUMENTATION := $(VENV)/.documentation

# An environment that an interrupted attempt has left without pip is completed. One of an older Python is never made,
# because it would be used from then on.
ENVIRONMENT = test -x $(VENV)/bin/pip || { \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "lunabox: $(PYTHON) is not Python 3.11 or later; name another one: make PYTHON=python3.12 ..." >&2; exit 1; }; \
	$(PYTHON) -m venv $(VENV); }

# The compatible mode puts this directory on the path, where Spark looks for the data source.
INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat

# Compiled code, also where PYTHONDONTWRITEBYTECODE is set for everything else: without it each process compiles anew.
COMPILE := PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m compileall -q box console lua

.PHONY: run test check soak bench growth teeth docs clean

run: $(NODE)
	@$(COMPILE)
	@$(VENV)/bin/lunabox

# On all cores, the long files first (test/conftest.py); the tests of a file stay together, because many share a node, and
# those of all files that share a Spark session (test/distribution.py). Pytest writes down the modules that it has compiled.
test: $(DEVELOPMENT)
	@$(COMPILE) test
	@PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest --numprocesses auto --dist loadfile

check: $(DEVELOPMENT)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

bench: $(DEVELOPMENT)
	@$(VENV)/bin/python -m test.bench

growth: $(DEVELOPMENT)
	@$(VENV)/bin/python -m test.bench.growth

# Campaigns with random seeds: `make soak SOAK='--long kills'`; see `python -m test.soak --help`.
soak: $(DEVELOPMENT)
	@$(VENV)/bin/python -m test.soak $(SOAK)

# The product is broken in ways that have names; the simulation has to notice.
teeth: $(DEVELOPMENT)
	@$(VENV)/bin/python -m test.teeth

# The site in build/site, man pages in build/man. The variable: the theme warns of a release that is not out yet.
docs: $(DOCUMENTATION)
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict --quiet
	@$(VENV)/bin/python docs/hooks/man.py build/man
	@echo "lunabox: the site begins at build/site/index.html, the man pages are in build/man" >&2

$(NODE): pyproject.toml
	@echo "lunabox: installing into $(VENV), which takes a moment ..." >&2
	@$(ENVIRONMENT)
	@$(INSTALL) --editable .
	@touch $@

# pip compiles the packages on one processor, for half a minute; `compileall -j 0` uses all. Some files of packages are not
# meant to be compiled.
$(DEVELOPMENT): pyproject.toml
	@echo "lunabox: installing with what tests need into $(VENV), which takes some minutes ..." >&2
	@$(ENVIRONMENT)
	@$(INSTALL) --no-compile --editable '.[dev,spark,suite,docs]'
	@PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $(NODE) $@

$(DOCUMENTATION): pyproject.toml
	@echo "lunabox: installing what the documentation needs into $(VENV), which takes a moment ..." >&2
	@$(ENVIRONMENT)
	@$(INSTALL) --editable '.[docs]'
	@touch $(NODE) $@

clean:
	rm -rf $(VENV) build *.egg-info
