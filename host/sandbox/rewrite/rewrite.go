// Package rewrite changes WebAssembly modules: it parses one strictly, runs a
// pipeline of passes over the parsed form, and encodes the outcome. It is what
// makes the guest of the sandbox metered and cheap to instantiate; it runs when
// the guest is built, and knows nothing of the engine that runs it.
//
//	rewrite.go    Pass, Apply, and Guest: the pipeline of the product
//	module.go     Module, the parsed form
//	parse.go      Parse (sections.go, entries.go: the sections one by one)
//	reader.go     bounded reading, LEB128, ParseError
//	op.go         the instruction set: names and kinds of immediates
//	instr.go      Instr, one decoded instruction: Decode and Append
//	check.go      what Parse wants of a function body
//	encode.go     Encode
//	renumber.go   a new import, and every function index moved on
//	meter.go      the pass Meter (cost.go: what costs how much; flow.go: where
//	              it is charged; checks.go: where it is checked)
//	calls.go      the pass DirectCalls
//	data.go       the pass ExtractData, and Segments, its counterpart at run time
//	state.go      the passes ExportState and LimitMemory
//	interface.go  imports and exports as text, to compare
//
// # What is understood
//
// WebAssembly 1.0 with mutable globals, sign extension, saturating conversions,
// multi-value, bulk memory and reference types (the core specification 2.0
// without SIMD). All else is refused with an error that wraps [ErrUnsupported].
//
// # Hostile modules
//
// Parse does not panic, whatever the bytes, and needs memory in proportion to
// them. It checks all structure and every index, but not operand types: that is
// for the engine that compiles the outcome. A pass keeps a valid module valid.
//
// # Writing a pass
//
// A pass that looks at code decodes a body with [Func.Decode], which gives a
// flat list of instructions with their immediates, and writes one with
// [Instr.Append]; [Instr.At] is where an instruction is in the old body, so that
// what stays can be copied as bytes. Bodies are independent of each other, one
// is decoded at a time. Control structure is implicit in the list (block, loop,
// if ... end, as in the binary), and flow.go shows how to walk it.
package rewrite

import (
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// ErrUnsupported is wrapped by errors about modules that may be valid but use
// what this package does not know or a pass cannot keep.
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

// maxPages is the address space of a 32-bit memory, in pages of 64 KiB.
const maxPages = 1 << 16

// FuelGlobal is the name under which [Guest] exports the fuel counter.
const FuelGlobal = "fuel"

// Passes is the pipeline of the product. The meter comes after what adds state
// (fuel is not part of a snapshot) and before direct calls: the functions that
// dispatch them are free of charge, which is sound because they neither loop
// nor reach each other but through metered code.
func Passes() []Pass {
	return []Pass{
		ExtractData(),
		ExportState(),
		LimitMemory(maxPages),
		Meter(MeterOptions{Module: abi.HostModule, Name: abi.FuncFuelOut, Global: FuelGlobal}),
		DirectCalls(),
	}
}

// Guest rewrites a guest as its compiler wrote it into the one that the sandbox
// runs. The outcome depends on wasm only.
func Guest(wasm []byte) ([]byte, error) {
	m, err := Parse(wasm)
	if err != nil {
		return nil, err
	}
	if err := m.Apply(Passes()...); err != nil {
		return nil, err
	}
	return m.Encode(), nil
}
