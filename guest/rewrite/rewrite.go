// Package rewrite changes WebAssembly modules: it parses a module strictly, runs a pipeline of
// passes over the parsed form, and encodes the result. Begin with [Guest], the pipeline of the
// product, [Pass] and [Module]. The package runs when the guest is built.
//
// Modules are WebAssembly 1.0 with mutable globals, sign extension, saturating conversions,
// multi-value, bulk memory and reference types; any other feature is an error wrapping
// [ErrUnsupported]. Parse does not panic for any input, and uses memory in proportion to the input.
// It checks all structure and every index, but not operand types: the engine checks the types.
// Passes keep a valid module valid.
package rewrite

import (
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// ErrUnsupported is wrapped by errors about possibly valid modules with a feature unknown to this
// package or not preserved by a pass.
var ErrUnsupported = errors.New("not supported")

// Pass is a change of a module. Apply either succeeds or leaves the module unusable.
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

// Passes returns the pipeline of the product. Structure is the first, because it only knows code as
// written by the compiler. Meter comes after ExportState, because fuel is not part of a snapshot,
// and before DirectCalls: dispatchers are not charged, which is safe because they have no loops and
// call each other only through metered code.
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

// Guest rewrites the compiler's guest into the sandbox's guest. The result depends only on wasm,
// and on hot, which selects by name the functions converted by Structure; nil is all.
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
