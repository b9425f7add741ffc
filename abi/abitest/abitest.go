// Package abitest is the conformance kit of package abi: guests made by hand,
// with how a host that keeps the contract must let each of them end.
//
//	cases.go         the kit: honest guests, wild pointers, wrong order, bad content
//	cases_limits.go  limits, endless loops, guests to be refused
//	cases_hostile.go guests that know the contract and attack the host by it
//	guest.go         the contract as data, and how the guests are put together
//	wasm.go          a tiny encoder of wasm modules
//
// It needs no wasm runtime and no other package of the host, so that any host,
// or a guest in another language, can be held against it.
package abitest
