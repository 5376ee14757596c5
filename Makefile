# `make help` lists the targets. All that is needed beforehand is python3 (3.11 or newer) and make.

PYTHON ?= python3
ARGS ?=
VENV := .venv
LEGACY := .venv-legacy
APM := .venv-apm
CLIENTS := .venv-clients
AUDIT := .venv-audit
BIN := $(VENV)/bin
PY := $(BIN)/python
# Most of the tests wait for processes and sockets, so two workers pay off on two cores.
WORKERS ?= 2
TIMES ?= 20
# What can be broken in a host: processes, exporters, faults, hostile input, privacy.
SAFETY := tests/safety tests/export tests/capture/test_attempt.py \
          tests/casebook/test_11_early_break.py tests/casebook/test_12_async_cancel.py \
          tests/casebook/test_17_fork_after_instrument.py tests/casebook/test_20_broken_body_never_breaks_the_app.py \
          tests/casebook/test_22_collector_down.py tests/casebook/test_privacy.py
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-legacy test-apm peers check lint format types fresh prices docs bundle alerts corpus fuzz truth bench walk soak \
        safety pythons lock audit build clean clients venv venv-legacy venv-apm venv-clients

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: venv ## Show it at work: simulator, live table, comparison with the truth (ARGS="--seconds 20")
	@$(BIN)/lz-otel demo $(ARGS)

test: venv venv-legacy venv-apm venv-clients ## All tests, those with older SDKs, APM libraries and clients in environments of their own
	@[ -d .peers ] || [ -n "$$LZ_REQUIRE_PEERS" ] || scripts/fetch-peers || \
	    echo "lz-otel: no peers; the tests against real servers will be skipped" >&2
	@echo "== older SDKs (anthropic<1, openai<3 on httpx)"
	$(LEGACY)/bin/python -m pytest -q tests/sdk $(ARGS)
	@echo "== APM libraries"
	$(APM)/bin/python -m pytest -q -n $(WORKERS) tests/apm $(ARGS)
	@echo "== clients"
	$(CLIENTS)/bin/python -m pytest -q -n $(WORKERS) tests/clients $(ARGS)
	@echo "== all"
	$(PY) -m pytest -q -n $(WORKERS) --dist loadfile --ignore tests/apm --ignore tests/clients $(ARGS)

test-unit: venv ## The fast tests only
	$(PY) -m pytest -q -x tests --ignore tests/apm --ignore tests/clients --ignore tests/sdk --ignore tests/stack --ignore tests/test_packaging.py $(ARGS)

test-legacy: venv-legacy ## Only the tests of the older SDKs
	$(LEGACY)/bin/python -m pytest -q tests/sdk $(ARGS)

test-apm: venv-apm ## Only the tests with real APM libraries (Datadog, New Relic, Sentry, Elastic, Logfire, OpenTelemetry)
	$(APM)/bin/python -m pytest -q -n $(WORKERS) tests/apm $(ARGS)

clients: venv-clients ## Call with the real clients (google-genai, boto3, cohere, litellm, …), and write docs/clients.md
	$(CLIENTS)/bin/python scripts/clients.py

peers: ## Fetch the real servers the tests talk to (Prometheus, Alertmanager, VictoriaMetrics, …) into .peers/
	scripts/fetch-peers

check: lint types fresh ## Format, lint, types, and whether generated files are fresh

lint: venv ## Format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: venv ## Format all code
	$(BIN)/ruff format .

types: venv
	$(BIN)/mypy

fresh: venv
	$(PY) scripts/docs.py --check
	$(BIN)/lz-otel bundle --check

prices: venv ## Write the price list anew from the data set genai-prices, to be reviewed as a diff
	$(PY) scripts/prices.py

docs: venv ## Write the generated tables in README and docs/
	$(PY) scripts/docs.py

bundle: venv ## Write dashboards, rules, alerts and runbooks from the catalogue
	$(BIN)/lz-otel bundle --write

alerts: ## Check and unit-test the alert rules with promtool and amtool
	scripts/check-alerts

corpus: venv ## Replay the recorded exchanges in ../shared, and print how many are exactly right
	LZ_CORPUS=all $(PY) -m pytest -q -rP tests/corpus $(ARGS)

fuzz: venv ## Mutated bodies through every reader, 100,000 of them (nightly)
	LZ_FUZZ_EXAMPLES=$${LZ_FUZZ_EXAMPLES:-100000} $(PY) -m pytest -q --timeout 7200 tests/extract/test_fuzz.py $(ARGS)

truth: venv ## Run every scenario of the simulator and compare the metrics with the truth
	scripts/truth $(PY) $(ARGS)

bench: venv ## What it costs: writes benchmarks/RESULTS.md (ARGS=--quick for a first look)
	$(PY) -m benchmarks $(ARGS)

walk: venv ## How often one answer enters a file of lz_otel, up to /metrics (ARGS="--limit 60")
	$(PY) -m benchmarks.walk $(ARGS)

soak: venv ## Ten minutes of mixed traffic and faults; every invariant is checked (ARGS="--seconds 60")
	$(PY) -m benchmarks.soak $(ARGS)

safety: venv ## Every safety test TIMES times in a row (20), up to the first failure
	@for i in $$(seq $(TIMES)); do echo "== safety tests, $$i of $(TIMES)"; \
	    $(PY) -m pytest -q -n $(WORKERS) --dist loadfile -p no:cacheprovider $(SAFETY) $(ARGS) || exit 1; done

pythons: venv ## All tests on every Python, and with the oldest packages (nightly; ARGS=--smoke: the ends, in minutes)
	$(PY) scripts/pythons.py $(ARGS)

lock: venv ## Write requirements/ anew (ARGS=--upgrade for newer versions)
	scripts/lock $(BIN)/uv $(ARGS)

audit: ## Known vulnerabilities of what is locked (asks a public database)
	@scripts/venv $(AUDIT) requirements/audit.txt
	$(AUDIT)/bin/python scripts/audit $(ARGS)

build: venv ## Wheel and source archive into dist/
	$(PY) -m hatchling build

clean: ## Remove all that the targets above made
	rm -rf $(VENV) $(LEGACY) $(APM) $(CLIENTS) $(AUDIT) .venv-3.* .venv-floor .pythons .peers .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

venv:
	@scripts/venv $(VENV) requirements/dev.txt

venv-legacy:
	@scripts/venv $(LEGACY) requirements/sdk-legacy.txt

venv-apm:
	@scripts/venv $(APM) requirements/apm.txt

venv-clients:
	@scripts/venv $(CLIENTS) requirements/clients.txt
