// Package abitest is the conformance suite of package abi: handmade guests, and how a
// run of each must end in a host that implements the contract.
//
//	cases.go         the suite: correct guests, ranges outside memory, wrong order, bad content
//	cases_limits.go  limits, endless loops, guests that must be refused
//	cases_hostile.go guests that use the contract to attack the host
//	cases_withheld.go withheld answers
//	withheld.go      scripts that a guest must run, and how, while they are planned
//	guest.go         the contract as data, and building guests
//	wasm.go          a small encoder of wasm modules
//
// It needs no wasm runtime and no package of the host, so that it can test any host,
// or a guest in another language.
package abitest
