# Targets for people and for .ci/run. Each target that is meant to be called has a text behind "##" for `make help`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

GO ?= go
TOOLS := .tools/bin
MODULE := github.com/fourblocks2020/fencerow
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
PACKAGES ?= ./...
TEST_TIMEOUT ?= 30m
LDFLAGS := -X $(MODULE)/internal/version.Version=$(VERSION)

.PHONY: help
help: ## Show this text
	@awk 'BEGIN { FS = ":.*## " } /^[a-z][a-z-]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The tools have a module of their own, so that their dependencies stay out of the product's go.mod. They are built again
# only when what they are made of changes.
$(TOOLS)/%: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	cd tools && $(GO) build -o ../$@ "$$($(GO) list -f '{{.ImportPath}}' tool | grep '/$*$$')"

# What the tests run under: a PostgreSQL server for all packages, and a look at each test's outcome.
.PHONY: test-tools
test-tools:
	@mkdir -p $(TOOLS)
	$(GO) build -o $(TOOLS)/ ./internal/pgtest/cmd/pgtest-server ./scripts/gotest

.PHONY: setup
setup: ## Install what is missing: PostgreSQL, pgbouncer, C compiler, psycopg2
	@scripts/setup.sh

.PHONY: build
build: ## Build bin/fencerow and bin/fencerowd
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/fencerow ./cmd/fencerowd

.PHONY: demo
demo: build ## Run the whole job on this machine: memory store, stub ledger, sample entries
	./bin/fencerow dev --once

# Tests of timing, and of what the programs come to when they have the machine for themselves.
ALONE := ./e2e/... ./internal/faults/... ./internal/pgstore ./internal/slots/natsrpc ./internal/writer

.PHONY: test
test: setup test-tools ## Run all tests with -race on a real PostgreSQL; a skipped test fails
	@# The race detector has each program wait for a second at its end, for races to come; there are dozens.
	GORACE=atexit_sleep_ms=50 $(TOOLS)/pgtest-server -- $(TOOLS)/gotest -packages '$(PACKAGES)' -alone '$(ALONE)' \
		-- -race -count=1 -p 2 -parallel 4 -timeout $(TEST_TIMEOUT)

.PHONY: test-short
test-short: setup test-tools ## Run the tests with -short and without -race
	$(TOOLS)/pgtest-server -- $(TOOLS)/gotest -allow-skips -packages '$(PACKAGES)' -- -short

.PHONY: test-container
test-container: setup ## Run the store tests on a container made from Debian's packages (as root)
	scripts/test-container.sh

# What a run of `make faults` is: see docs/reliability.md.
SEED ?= 1
DURATION ?= 1m
ENTRIES ?= 0

.PHONY: faults
faults: setup ## Run the product under faults chosen by SEED for DURATION, with ENTRIES entries
	$(GO) run ./internal/faults/cmd/faults -seed $(SEED) -duration $(DURATION) -entries $(ENTRIES) $(FAULTS_FLAGS)

.PHONY: faults-mutants
faults-mutants: setup ## Run deliberately broken builds under faults until each is found
	$(GO) run ./internal/faults/cmd/faults -mutants -seed $(SEED) $(FAULTS_FLAGS)

# What the fuzz targets claim: see docs/reliability.md.
FUZZTIME ?= 1m
FUZZPARALLEL ?= 1
TARGET ?=

.PHONY: fuzz
fuzz: ## Run each fuzz target, or TARGET alone, for FUZZTIME; end at the first finding
	GO='$(GO)' scripts/fuzz.sh run '$(FUZZTIME)' '$(FUZZPARALLEL)' '$(TARGET)'

.PHONY: fuzz-keep
fuzz-keep: ## Keep some of the inputs that fuzzing found, to be run by every test
	GO='$(GO)' scripts/fuzz.sh keep '$(TARGET)'

# What is measured, and how: see docs/performance.md.
BENCH_FLAGS ?= -tune -json ../docs/bench.json -chart ../docs/bench.svg

.PHONY: bench
bench: setup ## Measure fencerow beside other queues; BENCH_FLAGS chooses what
	cd bench && $(GO) run . $(BENCH_FLAGS)

.PHONY: migrate-verify
migrate-verify: setup build test-tools ## Check the migration history on a private server
	$(TOOLS)/pgtest-server -- sh -c 'FENCEROW_DSN="$$TREX_POSTGRESQL_TEST_DSN" ./bin/fencerow migrate verify'

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Run go vet and golangci-lint
	$(GO) vet ./...
	$(TOOLS)/golangci-lint run
	cd bench && $(GO) vet ./...
	cd bench && ../$(TOOLS)/golangci-lint run --config ../.golangci.yml ./...

.PHONY: fmt
fmt: ## Format the Go files
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: generate
generate: $(TOOLS)/sqlc ## Compile sql/queries to internal/db
	$(TOOLS)/sqlc generate

.PHONY: sqlc-diff
sqlc-diff: $(TOOLS)/sqlc ## Fail when internal/db is not what sqlc makes of sql/
	$(TOOLS)/sqlc diff

.PHONY: ci
ci: ## Run every check that guards the main branch
	.ci/run

.PHONY: clean
clean: ## Remove what make built
	rm -rf bin .tools
