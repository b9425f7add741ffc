package rewrite

import (
	"fmt"
	"strings"
)

// Interface lists the imports and exports of a module with their types, a line each, in the order
// of the module:
//
//	import "metatool" "fuel_out" func () -> ()
//	export "memory" memory 134 65536
//	export "fuel" global mut i64
//
// Code and data are not read. A host can use two modules with equal lists in the same way; only a
// digest shows whether they do the same.
func Interface(wasm []byte) ([]string, error) {
	m, err := parse(wasm, false)
	if err != nil {
		return nil, err
	}
	return m.Interface(), nil
}

// Interface is like the function Interface.
func (m *Module) Interface() []string {
	funcs, tables, globals := m.funcTypes(), m.tables(), m.globals()
	memories := []Limits{}
	var lines []string
	for _, i := range m.Imports {
		what := ""
		switch i.Kind {
		case KindFunc:
			what = m.Types[i.Type].String()
		case KindTable:
			what = i.Table.String()
		case KindMemory:
			what = i.Memory.String()
			memories = append(memories, i.Memory)
		case KindGlobal:
			what = i.Global.String()
		}
		lines = append(lines, fmt.Sprintf("import %q %q %v %s", i.Module, i.Name, i.Kind, what))
	}
	memories = append(memories, m.Memories...)
	for _, e := range m.Exports {
		what := ""
		switch e.Kind {
		case KindFunc:
			what = m.Types[funcs[e.Index]].String()
		case KindTable:
			what = tables[e.Index].String()
		case KindMemory:
			what = memories[e.Index].String()
		case KindGlobal:
			what = globals[e.Index].String()
		}
		lines = append(lines, fmt.Sprintf("export %q %v %s", e.Name, e.Kind, what))
	}
	return lines
}

func (t FuncType) String() string { return typeList(t.Params) + " -> " + typeList(t.Results) }

func typeList(types []ValType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func (l Limits) String() string {
	if !l.HasMax {
		return fmt.Sprint(l.Min)
	}
	return fmt.Sprint(l.Min, " ", l.Max)
}

func (t Table) String() string { return t.Type.String() + " " + t.Limits.String() }

func (t GlobalType) String() string {
	if t.Mutable {
		return "mut " + t.Type.String()
	}
	return t.Type.String()
}

// Restorable reports whether an instance of a module is as new once a host has restored the memory
// and the exported globals: code of the module cannot change any other state, for example tables,
// droppable segments, and mutable globals without an export. Code and data are not read.
func Restorable(wasm []byte) (bool, error) {
	m, err := parse(wasm, false)
	if err != nil {
		return false, err
	}
	exported := map[uint32]bool{}
	for _, e := range m.Exports {
		exported[e.Index] = exported[e.Index] || e.Kind == KindGlobal
	}
	for i, g := range m.globals() {
		if g.Mutable && (!exported[uint32(i)] || uint32(i) < m.imported(KindGlobal)) {
			return false, nil
		}
	}
	for _, e := range m.Elems {
		if e.Mode != Declarative {
			return false, nil
		}
	}
	return len(m.tables()) == 0 && !m.DataCount && m.imported(KindMemory) == 0, nil
}
