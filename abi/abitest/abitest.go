// Package abitest is the conformance suite of package abi: handmade guests, and how a run of each
// must end in a host that implements the contract. Begin with [Case] and [Script]; the contract as
// data is in [HostFunctions].
//
// The package needs no wasm runtime and no package of the host, so it can test any host, or a guest
// in another language.
package abitest
