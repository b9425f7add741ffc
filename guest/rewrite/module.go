package rewrite

import (
	"fmt"
	"strings"
)

// ValType is the type of a value, as in the binary format.
type ValType byte

// The value types.
const (
	I32       ValType = 0x7f
	I64       ValType = 0x7e
	F32       ValType = 0x7d
	F64       ValType = 0x7c
	FuncRef   ValType = 0x70
	ExternRef ValType = 0x6f

	v128 ValType = 0x7b
)

func (t ValType) isRef() bool { return t == FuncRef || t == ExternRef }

func (t ValType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return fmt.Sprintf("type %#x", byte(t))
}

// Kind is the kind of an import or an export.
type Kind byte

// The kinds, as in the binary format.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
)

func (k Kind) String() string {
	if k > KindGlobal {
		return fmt.Sprintf("kind %d", byte(k))
	}
	return [...]string{"func", "table", "memory", "global"}[k]
}

// Module is a parsed module. Passes change a Module in place and must keep the indices correct. A
// Module shares the parsed bytes, which must not change, and is not safe for concurrent use.
type Module struct {
	Types    []FuncType
	Imports  []Import
	Funcs    []Func // without the imported ones
	Tables   []Table
	Memories []Limits // at most a single memory, imported or not
	Globals  []Global
	Exports  []Export
	Start    *uint32
	Elems    []Elem
	// DataCount reports a data count section, needed by memory.init and data.drop.
	DataCount bool
	Data      []Data
	// Custom has the custom sections. Encode puts them last.
	Custom []Custom
}

// FuncType is the type of a function.
type FuncType struct{ Params, Results []ValType }

func (t FuncType) equal(u FuncType) bool {
	return string(valBytes(t.Params)) == string(valBytes(u.Params)) && string(valBytes(t.Results)) == string(valBytes(u.Results))
}

func valBytes(types []ValType) []byte {
	b := make([]byte, len(types))
	for i, t := range types {
		b[i] = byte(t)
	}
	return b
}

// Import is an imported function, table, memory or global.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         uint32     // of a function
	Table        Table      // a table
	Memory       Limits     // a memory
	Global       GlobalType // a global
}

// Func is a function with a body.
type Func struct {
	Type   uint32
	Locals []Locals
	// Body is the code with the final end.
	Body []byte
}

// Locals declares Count locals of a single type.
type Locals struct {
	Count uint32
	Type  ValType
}

// Limits are the limits of a table (in elements) or a memory (in pages of 64 KiB).
type Limits struct {
	Min, Max uint32
	HasMax   bool
}

// Table is a table of references.
type Table struct {
	Type ValType
	Limits
}

// GlobalType is the type of a global.
type GlobalType struct {
	Type    ValType
	Mutable bool
}

// Global is a global with an initial value.
type Global struct {
	GlobalType
	Init Instr // a constant instruction
}

// Export makes a function, table, memory or global visible under a name.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
}

// Mode is the use of a segment during instantiation.
type Mode byte

// The modes. Data segments are never declarative.
const (
	Active      Mode = iota // copied to Offset, then dropped
	Passive                 // used by table.init or memory.init
	Declarative             // declares references only
)

// Elem is a segment of references.
type Elem struct {
	Mode   Mode
	Table  uint32
	Offset Instr // a constant instruction, of an active segment
	Type   ValType
	// Init is a constant instruction per element (ref.func, ref.null or global.get).
	Init []Instr
}

// Data is a segment of bytes.
type Data struct {
	Mode   Mode
	Memory uint32
	Offset Instr // a constant instruction, of an active segment
	Bytes  []byte
}

// Custom is a custom section.
type Custom struct {
	Name  string
	Bytes []byte
}

// imported counts the imports of a kind; they come first in the index space.
func (m *Module) imported(k Kind) uint32 {
	n := uint32(0)
	for _, i := range m.Imports {
		if i.Kind == k {
			n++
		}
	}
	return n
}

// funcTypes returns the type index of every function, imported ones first.
func (m *Module) funcTypes() []uint32 {
	types := make([]uint32, 0, len(m.Imports)+len(m.Funcs))
	for _, i := range m.Imports {
		if i.Kind == KindFunc {
			types = append(types, i.Type)
		}
	}
	for _, f := range m.Funcs {
		types = append(types, f.Type)
	}
	return types
}

// tables returns all tables, imported ones first.
func (m *Module) tables() []Table {
	var tables []Table
	for _, i := range m.Imports {
		if i.Kind == KindTable {
			tables = append(tables, i.Table)
		}
	}
	return append(tables, m.Tables...)
}

// globals returns the type of every global, imported ones first.
func (m *Module) globals() []GlobalType {
	var types []GlobalType
	for _, i := range m.Imports {
		if i.Kind == KindGlobal {
			types = append(types, i.Global)
		}
	}
	for _, g := range m.Globals {
		types = append(types, g.GlobalType)
	}
	return types
}

// typeIndex returns the index of t, and adds a new t.
func (m *Module) typeIndex(t FuncType) uint32 {
	for i, have := range m.Types {
		if have.equal(t) {
			return uint32(i)
		}
	}
	m.Types = append(m.Types, t)
	return uint32(len(m.Types) - 1)
}

// locals counts the parameters and locals of f.
func (m *Module) locals(f *Func) uint64 {
	n := uint64(len(m.Types[f.Type].Params))
	for _, l := range f.Locals {
		n += uint64(l.Count)
	}
	return n
}

// export adds an export, if the name is free.
func (m *Module) export(e Export) error {
	for _, have := range m.Exports {
		if have.Name == e.Name {
			return fmt.Errorf("the module exports a %v %q already", have.Kind, e.Name)
		}
	}
	m.Exports = append(m.Exports, e)
	return nil
}

const (
	nameSection = "name" // the custom section with names
	ofFunctions = 1      // the part with the names of functions
)

// FunctionNames returns the names of functions by their index, or an empty map if the module has no
// section with names.
func (m *Module) FunctionNames() (map[uint32]string, error) {
	names := map[uint32]string{}
	for _, c := range m.Custom {
		if c.Name != nameSection {
			continue
		}
		for r := (reader{b: c.Bytes}); r.more(); {
			part := r.byte()
			body := r.bytes(r.u32())
			if r.err != nil {
				return nil, fmt.Errorf("section %q: %w", nameSection, r.err)
			}
			if part != ofFunctions {
				continue
			}
			list := reader{b: body}
			for n := list.count(); n > 0 && list.err == nil; n-- {
				i := list.u32()
				names[i] = list.name()
			}
			if list.err != nil {
				return nil, fmt.Errorf("section %q: %w", nameSection, list.err)
			}
		}
	}
	return names, nil
}

// importFunc adds an imported function, increments all later function indices, and returns the
// index of the new function. It changes f.Body of every function, and drops debug information,
// which names functions by index.
func (m *Module) importFunc(module, name string, t FuncType) (uint32, error) {
	at := m.imported(KindFunc)
	m.Imports = append(m.Imports, Import{Module: module, Name: name, Kind: KindFunc, Type: m.typeIndex(t)})
	moved := func(i *uint32) {
		if *i >= at {
			*i++
		}
	}
	constant := func(in *Instr) {
		if in.Op == OpRefFunc {
			moved(&in.Index)
		}
	}
	for i := range m.Exports {
		if m.Exports[i].Kind == KindFunc {
			moved(&m.Exports[i].Index)
		}
	}
	if m.Start != nil {
		start := *m.Start
		moved(&start)
		m.Start = &start
	}
	for i := range m.Globals {
		constant(&m.Globals[i].Init)
	}
	for i := range m.Elems {
		for j := range m.Elems[i].Init {
			constant(&m.Elems[i].Init[j])
		}
	}
	m.dropDebug()
	return at, m.replace(func(in *Instr) bool {
		if in.Op != OpCall && in.Op != OpRefFunc || in.Index < at {
			return false
		}
		in.Index++
		return true
	})
}

// replace calls change with every instruction of every body. change reports a changed instruction.
func (m *Module) replace(change func(in *Instr) bool) error {
	var instrs []Instr
	for i := range m.Funcs {
		f := &m.Funcs[i]
		var err error
		if instrs, err = f.Decode(instrs[:0]); err != nil {
			return err
		}
		e := editor{old: f.Body}
		for j := range instrs {
			at := instrs[j].At
			if !change(&instrs[j]) {
				continue
			}
			e.keep(at)
			e.out = instrs[j].Append(e.out)
			e.skip(after(instrs, j, f.Body))
		}
		f.Body = e.finish()
	}
	return nil
}

// after returns the offset of the instruction after instrs[i].
func after(instrs []Instr, i int, body []byte) uint32 {
	if i+1 < len(instrs) {
		return instrs[i+1].At
	}
	return uint32(len(body))
}

// editor writes a changed copy of a body, from front to back.
type editor struct {
	old, out []byte
	done     uint32 // offset in old
}

// keep copies the bytes up to at.
func (e *editor) keep(at uint32) {
	if e.out == nil {
		e.out = make([]byte, 0, len(e.old)+len(e.old)/4+64)
	}
	e.out = append(e.out, e.old[e.done:at]...)
	e.done = at
}

// skip leaves out the bytes up to at.
func (e *editor) skip(at uint32) { e.done = at }

// finish returns the new body; the old body if unchanged.
func (e *editor) finish() []byte {
	if e.out == nil {
		return e.old
	}
	e.keep(uint32(len(e.old)))
	return e.out
}

// dropDebug drops custom sections about the original code.
func (m *Module) dropDebug() {
	var kept []Custom
	for _, c := range m.Custom {
		if c.Name != "name" && c.Name != "sourceMappingURL" && !strings.HasPrefix(c.Name, ".debug_") {
			kept = append(kept, c)
		}
	}
	m.Custom = kept
}
