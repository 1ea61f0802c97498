# make run     builds and starts the server
# make demo    builds, starts a primary, a replica and a load, and says where their page is
# make test    what CI runs: installs what the tests need, then format, lints, unit, model, fuzz, crash and client tests
# make check   a quick part of it: format, lints, unit tests
# make test-long  what takes longer: tests of the benchmarks, mistakes of a witness in the lab, then the long form of the models
# make package the crates that programs embed as packages, and a program built with each (a part of make test)
# make deny    known vulnerabilities, licences and sources of dependencies, where cargo-deny is installed; not a part of make test
# make python  the fleet path in Python: style and tests (a part of make test)
# make crash   the long form of the crash lab
# make night   all of the lab in turns for HOURS hours, and a table of what it came to
# make histories  ten million random transactions, everything they saw checked
# Benchmarks write pages of figures; JSON and plots go to OUT, which is $(TARGET)/bench and no part of the repository.
# make bench-log      every figure of the log, about twenty minutes on a machine that does nothing else: crates/wal/README.md
# make bench-txn      every figure of transactions, beside PostgreSQL, about forty minutes: docs/bench/txn.md
# make bench-index    ordered indexes beside each other, about an hour: docs/bench/index.md
# make bench-kv       the key-value engine beside RocksDB's db_bench, about ten minutes: docs/bench/kv.md
# make bench-tpcc     TPC-C on the engine and beside PostgreSQL, about nine minutes: docs/bench/tpcc.md
# make bench-replication  a replica's delay, beside PostgreSQL's, more than an hour (BENCH=--short: 25 minutes): docs/bench/replication.md
# make bench-training  what collecting for models costs, an hour and more (BENCH=--short: less): docs/bench/training.md
# make bench-compare  the log beside other log libraries; builds and tests them first
# make model-long  the long form of the models
# make sizes   the largest source files

SHELL := /bin/bash
CARGO ?= cargo
DATA ?= ./collie-data
LISTEN ?= 127.0.0.1:5433
CYCLES ?= 50
STATES ?= 1000000
SEED ?= 1
HOURS ?= 8
VENV := .venv
CLIENTS ?= 6
TRANSACTIONS ?= 10000000
# A build cache outside the checkout is used when CARGO_TARGET_DIR names one.
TARGET := $(or $(CARGO_TARGET_DIR),target)
# What tests build has the mistakes in it that tests plant: each is asleep until it is asked for by name. Nothing that is run or measured has.
MISTAKES := --features collie-faultlab/planted-bugs,collie-engine/planted-bugs,collie-kv/planted-bugs
# Benchmarks are linted with everything else, and tested by `make test-long`.
TESTED := --workspace --exclude collie-bench
PACKAGES := chromium libclang-dev postgresql-15 postgresql-client-15 rocksdb-tools python3-venv git

.PHONY: run demo test check test-long crash night histories tools run-tools lint deny unit package python model model-mixes model-long build lab sizes bench-log bench-txn bench-index bench-kv bench-tpcc bench-replication bench-training bench-compare

run: run-tools
	$(CARGO) build --release -p collie
	@echo "connect with: psql -h 127.0.0.1 -p 5433 -U collie collie"
	exec $(TARGET)/release/collie serve --data $(DATA) --listen $(LISTEN)

demo: run-tools
	$(CARGO) run --release -p collie -- demo

# The parser's build needs libclang, nothing else does.
run-tools:
	@./tests/tools libclang-dev

tools:
	@./tests/tools $(PACKAGES)
	@test -x $(VENV)/bin/python || python3 -m venv $(VENV)
	@$(VENV)/bin/python -c 'import psycopg' 2>/dev/null || $(VENV)/bin/pip install --quiet 'psycopg[binary]>=3.1,<4'
	@cmp -s python/requirements.txt $(VENV)/python-requirements || { $(VENV)/bin/pip install --quiet -r python/requirements.txt && cp python/requirements.txt $(VENV)/python-requirements; }

test: tools lint build unit package python model lab
	@echo "make test: everything passed"

# The tests inside of the crates, with their models of small size, and the checks of the tree.
check: lint
	$(CARGO) test $(TESTED) --exclude collie-clients-tests --no-fail-fast --lib --bins $(MISTAKES)
	$(CARGO) test -p collie-tidy

# Benchmarks start the server that is next to their program.
test-long: tools
	$(CARGO) build -p collie -p collie-bench
	$(CARGO) test --no-fail-fast -p collie-bench
	$(CARGO) test -p collie-engine --features bench-hooks --lib
	$(CARGO) test -p collie-faultlab --features planted-bugs --test cluster -- --ignored
	$(MAKE) model-long

lint: run-tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# Licences, sources and known vulnerabilities of what is linked, where cargo-deny is installed; the list of advisories is fetched if it can be, and
# the last one that was is used otherwise.
deny:
	@command -v cargo-deny > /dev/null || { echo "cargo-deny is not installed (cargo install cargo-deny): only tests/tidy has looked"; exit 1; }
	cargo-deny check --hide-inclusion-graph bans licenses sources
	@cargo-deny fetch db || echo "no new advisories could be fetched: what is here is looked at"
	cargo-deny check --disable-fetch advisories

build: run-tools
	@./tests/room $(TARGET) 12
	$(CARGO) build $(TESTED) --all-targets $(MISTAKES)

# Unit, property, fuzz, tidy and client tests, and mistakes planted in whole processes; those of the log under each of its
# protocols, which the log's lab draws by itself. The client tests drive the binary that `build` made; they mostly wait for
# servers, so that more of them run at a time than there are cores.
unit: tools build
	$(CARGO) test $(TESTED) --exclude collie-clients-tests --no-fail-fast $(MISTAKES)
	COLLIE_PYTHON=$(CURDIR)/$(VENV)/bin/python $(CARGO) test $(TESTED) --test clients $(MISTAKES) -- --test-threads $(CLIENTS)
	@wal=$$(realpath $$($(CARGO) test $(TESTED) $(MISTAKES) --no-run 2>&1 | sed -n 's/^ *Executable unittests .*(\(.*collie_wal-[^)]*\))$$/\1/p')) && cd crates/wal && \
	failed=; for variant in PROTOCOL=mutex PROTOCOL=help; do \
		echo "the log's tests with COLLIE_WAL_$$variant"; env COLLIE_WAL_$$variant $$wal --skip tests::lab:: || failed="$$failed $$variant"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

# What a program that embeds the log or the key-value engine gets: the first program of each README, built with the packages alone.
package:
	$(CARGO) test -p collie-tidy --test packages -- --ignored

# The fleet path in Python: style, and tests against the example program that `build` made.
python: tools build
	$(VENV)/bin/ruff check --no-cache python
	$(VENV)/bin/ruff format --no-cache --check python
	cd python && COLLIE_FLEET=$(abspath $(TARGET))/debug/examples/fleet ../$(VENV)/bin/python -m unittest discover -s tests -t .

# Models of the concurrent parts on the real types, every interleaving up to the preemption bound.
model: model-mixes
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom $(CARGO) test --profile model -p collie-txn -p collie-store -p collie-sync -p collie-obs -p collie-wal -p collie-engine --lib loom

# Larger mixes of the log, and of sessions, under drawn schedules: a slice.
model-mixes:
	RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=$(TARGET)/shuttle $(CARGO) test -p collie-wal -p collie-engine --lib shuttle_

# The long form (docs/models.md): higher bounds, and the mistakes that need them; more draws; all interleavings of three workers.
# About twenty minutes on one core for the log alone; with the other crates it was not timed in one run yet.
model-long:
	LOOM_LONG=1 $(CARGO) test --release -p collie-wal --test interleavings
	SHUTTLE_LONG=1 RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=$(TARGET)/shuttle $(CARGO) test -p collie-wal -p collie-engine --lib shuttle_ -- --nocapture
	LOOM_LONG=1 RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom $(CARGO) test --profile model -p collie-txn -p collie-store -p collie-sync -p collie-obs -p collie-wal -p collie-engine --lib loom -- --nocapture

# The lab's slice for every test run; `make crash` is the long form.
lab: build
	$(TARGET)/debug/faultlab log-states --states 100000 --seed $(SEED)
	$(TARGET)/debug/faultlab killloop --cycles 5 --seed $(SEED) --server $(TARGET)/debug/collie
	$(TARGET)/debug/faultlab powercut --cycles 8 --seed $(SEED) --server $(TARGET)/debug/collie --dir $(DIR)
	$(TARGET)/debug/faultlab iofault --cycles 8 --seed $(SEED) --server $(TARGET)/debug/collie --dir $(DIR)
	$(TARGET)/debug/faultlab fulldisk --rounds 1 --seed $(SEED) --server $(TARGET)/debug/collie --dir $(DIR)
	$(TARGET)/debug/faultlab bitrot --cycles 6 --seed $(SEED) --server $(TARGET)/debug/collie
	$(TARGET)/debug/faultlab upgrade --server $(TARGET)/debug/collie
	$(TARGET)/debug/faultlab memory --rounds 1 --bombs 5 --limit-mib 400 --seed $(SEED) --server $(TARGET)/debug/collie
	$(TARGET)/debug/faultlab storm --waves 5 --seed $(SEED) --server $(TARGET)/debug/collie
	$(TARGET)/debug/faultlab list-append --rounds 4 --transactions 3000 --kills 1 --seed $(SEED) --server $(TARGET)/debug/collie
	$(TARGET)/debug/faultlab list-append --replica --rounds 2 --transactions 4000 --kills 2 --seed $(SEED) --server $(TARGET)/debug/collie
	$(TARGET)/debug/faultlab cluster --runs 1 --minutes 1 --seed $(SEED)
	$(TARGET)/debug/faultlab cluster --witness --runs 1 --minutes 1 --seed $(SEED)
	$(TARGET)/debug/faultlab failover --cycles 3 --seed $(SEED) --server $(TARGET)/debug/collie
	$(TARGET)/debug/faultlab list-append --failovers 2 --rounds 1 --transactions 3000 --seed $(SEED) --server $(TARGET)/debug/collie

crash:
	$(CARGO) build --release -p collie -p collie-faultlab
	$(TARGET)/release/faultlab log-states --states $(STATES) --seed $(SEED)
	$(TARGET)/release/faultlab log-threads --rounds 500 --seed $(SEED)
	$(TARGET)/release/faultlab log-flips --seed $(SEED)
	$(TARGET)/release/faultlab log-kill --cycles $$((20 * $(CYCLES))) --seed $(SEED)
	$(TARGET)/release/faultlab killloop --cycles $(CYCLES) --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab powercut --cycles $$((6 * $(CYCLES))) --seed $(SEED) --server $(TARGET)/release/collie --dir $(DIR)
	$(TARGET)/release/faultlab iofault --cycles $$((4 * $(CYCLES))) --seed $(SEED) --server $(TARGET)/release/collie --dir $(DIR)
	$(TARGET)/release/faultlab fulldisk --rounds $(CYCLES) --seed $(SEED) --server $(TARGET)/release/collie --dir $(DIR)
	$(TARGET)/release/faultlab bitrot --cycles $$((20 * $(CYCLES))) --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab upgrade --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab memory --rounds 2 --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab storm --waves $$((16 + $(CYCLES))) --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab list-append --rounds $$((8 * $(CYCLES))) --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab list-append --replica --rounds $$((4 * $(CYCLES))) --kills 4 --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab list-append --failovers 4 --rounds $$((2 * $(CYCLES))) --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab failover --cycles $$((2 * $(CYCLES))) --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab failover --witness --cycles $$((2 * $(CYCLES))) --seed $(SEED) --server $(TARGET)/release/collie
	$(TARGET)/release/faultlab cluster --runs $$((12 * $(CYCLES))) --minutes 10 --seed $(SEED)
	$(CARGO) build --release -p collie-faultlab --features planted-bugs
	$(TARGET)/release/faultlab failover --points --cycles $$((2 * $(CYCLES))) --seed $(SEED)

# As root, since power cuts, failing calls and memory are skipped elsewhere. A violation ends its part only, and the night with an error.
night:
	$(CARGO) build --release -p collie -p collie-faultlab
	$(TARGET)/release/faultlab night --hours $(HOURS) --seed $(SEED) --server $(TARGET)/release/collie --dir $(DIR)

histories:
	$(CARGO) build --release -p collie-faultlab
	$(TARGET)/release/faultlab txn-histories --transactions $(TRANSACTIONS) --seed $(SEED)

# As root PostgreSQL runs as user postgres, who must reach DIR; on a disk, as /tmp may not be.
DIR ?= /var/tmp
OUT ?= $(TARGET)/bench
MEASURED = $(CARGO) build --release -p collie -p collie-bench && $(TARGET)/release/collie-bench

bench-log: run-tools
	$(MEASURED) log $(BENCH) --out $(OUT) --readme crates/wal/README.md

bench-txn: run-tools
	$(MEASURED) txn $(BENCH) --dir $(DIR) --out $(OUT) --readme docs/bench/txn.md

bench-index: run-tools
	$(MEASURED) index $(BENCH) --out $(OUT) --readme docs/bench/index.md

# The peer is of the package rocksdb-tools. Data go to DIR, and are removed.
bench-kv: run-tools
	@./tests/tools rocksdb-tools
	$(MEASURED) kv --peer $(BENCH) --dir $(DIR)/collie-bench-kv --out $(OUT) --readme docs/bench/kv.md

bench-tpcc: run-tools
	$(MEASURED) tpcc embedded-async embedded embedded-sql servers $(BENCH) --dir $(DIR) --out $(OUT) --readme docs/bench/tpcc.md

bench-replication: run-tools
	$(MEASURED) replication $(BENCH) --dir $(DIR) --out $(OUT) --readme docs/bench/replication.md --targets README.md

bench-training: run-tools
	$(MEASURED) training $(BENCH) --dir $(DIR) --out $(OUT) --readme docs/bench/training.md

# The peers have a workspace and a lock file of their own.
bench-compare:
	$(CARGO) test --release --manifest-path bench/compare/Cargo.toml
	mkdir -p $(OUT)
	$(CARGO) run --release --manifest-path bench/compare/Cargo.toml -- $(BENCH) --json $(OUT)/peers.json --readme crates/wal/README.md

sizes:
	@git ls-files '*.rs' | xargs wc -l | sort -rn | sed -n '2,21p'
