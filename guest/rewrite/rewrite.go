// Package rewrite changes WebAssembly modules: it parses a module strictly, runs a
// pipeline of passes over the parsed form, and encodes the result. It makes the guest
// of the sandbox metered and cheap to instantiate. It runs when the guest is built,
// and does not depend on the engine that runs the guest.
//
//	rewrite.go    Pass, Apply, and Guest: the pipeline of the product
//	module.go     Module, the parsed form
//	parse.go      Parse (sections.go, entries.go: the sections one by one)
//	reader.go     bounded reading, LEB128, ParseError
//	op.go         the instruction set: names and kinds of immediates
//	instr.go      Instr, one decoded instruction: Decode and Append
//	check.go      checks of function bodies by Parse
//	encode.go     Encode
//	renumber.go   adding an import, which changes all function indices
//	structure.go  the pass Structure (shape.go: the form of functions that it
//	              converts; graph.go: their control flow; layout.go: how it is
//	              written)
//	names.go      the names of functions
//	meter.go      the pass Meter (cost.go: how much is charged; flow.go: where
//	              it is charged; checks.go: where it is checked)
//	calls.go      the pass DirectCalls
//	data.go       the pass ExtractData, and Segments, its counterpart at run time
//	state.go      the passes ExportState and LimitMemory
//	skeleton.go   Skeleton, a module without its code
//	interface.go  imports and exports as text, for comparison
//
// # Supported features
//
// WebAssembly 1.0 with mutable globals, sign extension, saturating conversions,
// multi-value, bulk memory and reference types (the core specification 2.0
// without SIMD). Anything else is refused with an error that wraps [ErrUnsupported].
//
// # Hostile modules
//
// Parse does not panic for any input, and uses memory in proportion to it. It checks
// all structure and every index, but not operand types: the engine that compiles the
// result does that. Passes keep a valid module valid.
//
// # Writing a pass
//
// A pass that reads code decodes a body with [Func.Decode], which returns a flat list
// of instructions with their immediates, and writes instructions with
// [Instr.Append]. [Instr.At] is the offset of an instruction in the old body, so that
// unchanged parts can be copied as bytes. Bodies are independent of each other and
// are decoded one at a time. Control structure is implicit in the list (block, loop,
// if ... end, as in the binary format); flow.go shows how to walk it.
package rewrite

import (
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// ErrUnsupported is wrapped by errors about modules that may be valid but use a
// feature that this package does not know or a pass cannot preserve.
var ErrUnsupported = errors.New("not supported")

// Pass is one change of a module. Apply either succeeds or leaves the module
// unusable.
type Pass struct {
	Name  string
	Apply func(*Module) error
}

// Apply runs passes over m, in order.
func (m *Module) Apply(passes ...Pass) error {
	for _, p := range passes {
		if err := p.Apply(m); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// maxPages is the size of the address space of a 32-bit memory, in pages of 64 KiB.
const maxPages = 1 << 16

// FuelGlobal is the name under which [Guest] exports the fuel counter.
const FuelGlobal = "fuel"

// Passes returns the pipeline of the product. Structure is the first, because it
// knows code only as the compiler writes it. Meter comes after ExportState, because
// fuel is not part of a snapshot, and before DirectCalls: dispatchers are not
// charged, which is safe because they have no loops and call each other only through
// metered code.
func Passes(hot func(name string) bool) []Pass {
	return []Pass{
		Structure(hot),
		ExtractData(),
		ExportState(),
		LimitMemory(maxPages),
		Meter(MeterOptions{Module: abi.HostModule, Name: abi.FuncFuelOut, Global: FuelGlobal}),
		DirectCalls(),
	}
}

// Guest rewrites a guest as the compiler wrote it into the one that the sandbox runs.
// The result depends only on wasm, and on hot, which says by their names which functions
// Structure converts; nil is all.
func Guest(wasm []byte, hot func(name string) bool) ([]byte, error) {
	m, err := Parse(wasm)
	if err != nil {
		return nil, err
	}
	if err := m.Apply(Passes(hot)...); err != nil {
		return nil, err
	}
	return m.Encode(), nil
}
