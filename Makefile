# make demo    a compact recommender on embedded data, in minutes
# make test    every test
# make lint    ruff, formatting and types
# make bench   the timings in results/
# make campaigns   ten minutes of attacks: forged files, kills, crowds (CAMPAIGN_ARGS chooses)
# make results-page   docs/results.md, docs/frontier.svg and docs/kernels.svg from results/
# make site    the documents as a web site, in site/
# Each creates .venv when it is missing. PYTHON chooses the interpreter.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint format bench campaigns results-page site clean

demo: $(INSTALLED)
	$(BIN)/cerp data info synthetic
	$(BIN)/cerp train synthetic --dim 64 --method full -o demo/full --resume
	$(BIN)/cerp train synthetic --dim 64 --method ud --budget 95% -o demo/ud --resume
	$(BIN)/cerp train synthetic --method filter -o demo/filter --resume
	$(BIN)/cerp train synthetic --dim 64 --budget 90% --budget 95% -o demo/cerp --resume
	$(BIN)/cerp train synthetic --dim 64 --budget 95% --mix -o demo/mixture --resume
	$(BIN)/cerp evaluate popularity demo/ud demo/filter demo/cerp demo/mixture demo/full -k 10
	$(BIN)/cerp export demo/cerp --budget 95% --values int8 -o demo/model.cerp
	$(BIN)/cerp inspect demo/model.cerp
	$(BIN)/cerp report demo/cerp demo/mixture demo/filter demo/ud demo/full -o demo/report.html
	@echo
	@echo "The report:               demo/report.html"
	@echo "The model in a browser:   $(BIN)/cerp serve demo/model.cerp"

# A process for each core, of at most four: each takes half a gigabyte. The tests of a file stay together.
test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(PYTEST_ARGS)

# Without ruff's cache, which does not see that a module has moved.
lint: $(INSTALLED)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/id_leak.py
	$(BIN)/python benchmarks/propagation.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/lookup.py -o results/lookup.json
	$(BIN)/python benchmarks/thresholds.py
	$(BIN)/python benchmarks/graph_bytes.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/batch.py
	$(BIN)/python benchmarks/shop_week.py
	$(BIN)/python benchmarks/update.py
	$(BIN)/python benchmarks/http_load.py
	$(BIN)/python benchmarks/fold_in.py
	$(BIN)/python benchmarks/yelp_shape.py

campaigns: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m campaigns $(CAMPAIGN_ARGS)

results-page: $(INSTALLED)
	PYTHONPATH=tools $(BIN)/python -m results_page results docs/results.md

# The site of the documents, with what it is built with beside the rest.
site: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	rm -rf docs/results && mkdir docs/results # tables that the pages link to become pages
	cd results && find . -name '*.md' ! -name README.md | tar cf - -T - | tar xf - -C ../docs/results
	$(BIN)/zensical build --clean
	rm -rf docs/results
	cp -r results/. site/results/ # what the pages have their figures from

clean:
	rm -rf $(VENV) demo site .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(INSTALLED)
