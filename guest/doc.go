// Command guest is the program inside the sandbox: a wasip1 reactor that
// exports what package abi asks of a guest, and imports what it offers.
//
// It is only the doorway. main.go carries messages across the boundary and
// sets the limits of the Go runtime; the language is in guest/interp, which
// knows nothing of wasm and is tested natively. scripts/build-guest compiles
// it into host/sandbox/guest.wasm.
package main
