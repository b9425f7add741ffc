# The usual verbs. CONTRIBUTING.md says more.

.PHONY: build test lint race e2e bench guest check ci

build: ## build ./mcp-metatool
	CGO_ENABLED=0 go build -o mcp-metatool ./cmd/mcp-metatool

test: ## run all tests
	go test ./...

lint: ## check formatting, go.mod, vet, staticcheck, notices
	.ci/run lint

race: ## run tests with the race detector
	.ci/run race

e2e: ## run the demo, and the binary with real servers and clients
	.ci/run e2e

bench: ## measure what the proxy adds to a call
	scripts/bench

guest: ## rebuild host/script/sandbox/guest.wasm.gz
	scripts/build-guest

check: ## what to run before pushing
	.ci/run lint test build guest

ci: ## everything that CI runs
	.ci/run
