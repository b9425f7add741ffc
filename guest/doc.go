// Command guest is the program inside the sandbox: a wasip1 reactor with the exports and imports
// defined in package abi. main.go passes messages between the host and the interpreter, and sets
// the limits of the Go runtime.
//
// The language is in package interp, which does not depend on wasm and is tested natively.
// scripts/build-guest compiles this command into host/script/sandbox/guest.wasm.
package main
