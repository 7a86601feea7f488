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
LDFLAGS := -X $(MODULE)/internal/version.Version=$(VERSION)

.PHONY: help
help: ## Show this text
	@awk 'BEGIN { FS = ":.*## " } /^[a-z][a-z-]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The tools have a module of their own, so that their dependencies stay out of the product's go.mod. They are built again
# only when what they are made of changes.
$(TOOLS)/%: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	cd tools && $(GO) build -o ../$@ "$$($(GO) list -f '{{.ImportPath}}' tool | grep '/$*$$')"

.PHONY: generate
generate: $(TOOLS)/sqlc ## Compile sql/queries to internal/db
	$(TOOLS)/sqlc generate

.PHONY: sqlc-diff
sqlc-diff: $(TOOLS)/sqlc ## Fail when internal/db is not what sqlc makes of sql/
	$(TOOLS)/sqlc diff
