package rewrite

import (
	"errors"
	"fmt"
)

// DirectCalls replaces call_indirect by calls of added functions, one for each table and type. An
// added function takes the index after the arguments, and calls the element with the index if the
// type fits; otherwise the function traps, as before. Tables and their segments are removed, so an
// instance need not set them up.
//
// The contents of the tables must be known: they must not be imported, exported or used by any
// table instruction, and must be filled by segments at constant offsets. Otherwise the error wraps
// [ErrUnsupported].
func DirectCalls() Pass { return Pass{"direct calls", directCalls} }

func directCalls(m *Module) error {
	if len(m.tables()) == 0 && len(m.Elems) == 0 {
		return nil
	}
	contents, err := m.tableContents()
	if err != nil {
		return err
	}
	d := dispatchers{m: m, contents: contents, index: map[dispatchKey]uint32{}, next: uint32(len(m.funcTypes())), types: m.funcTypes()}
	var problem error
	referenced := map[uint32]bool{}
	var refs []Instr
	err = m.replace(func(in *Instr) bool {
		switch in.Op {
		case OpCallIndirect:
			*in = Instr{Op: OpCall, Index: d.function(in.Index2, in.Index)}
			return true
		case OpRefFunc:
			if !referenced[in.Index] {
				referenced[in.Index] = true
				refs = append(refs, Instr{Op: OpRefFunc, Index: in.Index})
			}
		case OpTableGet, OpTableSet, OpTableInit, OpTableCopy, OpTableGrow, OpTableSize, OpTableFill, OpElemDrop:
			problem = fmt.Errorf("%v: the contents of tables can change: %w", in.Op, ErrUnsupported)
		}
		return false
	})
	if err := errors.Join(problem, err); err != nil {
		return err
	}
	m.Tables, m.Elems = nil, nil
	if len(refs) > 0 { // ref.func needs them to be declared somewhere
		m.Elems = []Elem{{Mode: Declarative, Type: FuncRef, Init: refs}}
	}
	m.Funcs = append(m.Funcs, d.added...)
	return nil
}

// maxTable limits the used part of a table, in elements.
const maxTable = 1 << 20

// contents has the function index of each element of a table. Empty elements are
// absent.
type contents map[uint32]uint32

// span returns the range of used elements; the range is empty if to is 0.
func (c contents) span() (from, to uint64) {
	from = 1 << 32
	for i := range c {
		from, to = min(from, uint64(i)), max(to, uint64(i)+1)
	}
	return from, to
}

func (m *Module) tableContents() ([]contents, error) {
	if m.imported(KindTable) > 0 {
		return nil, fmt.Errorf("a table is imported: %w", ErrUnsupported)
	}
	for _, e := range m.Exports {
		if e.Kind == KindTable {
			return nil, fmt.Errorf("table %d is exported as %q: %w", e.Index, e.Name, ErrUnsupported)
		}
	}
	all := make([]contents, len(m.Tables))
	for i := range all {
		all[i] = contents{}
	}
	for i, e := range m.Elems {
		if e.Mode != Active {
			continue
		}
		if e.Offset.Op != OpI32Const {
			return nil, fmt.Errorf("element segment %d: offset %v: %w", i, e.Offset.Op, ErrUnsupported)
		}
		offset := uint64(uint32(e.Offset.Value))
		if size := m.Tables[e.Table].Min; offset+uint64(len(e.Init)) > uint64(size) {
			return nil, fmt.Errorf("element segment %d: %d elements at %d in a table of %d", i, len(e.Init), offset, size)
		}
		for j, in := range e.Init {
			at := uint32(offset) + uint32(j)
			switch in.Op {
			case OpRefFunc:
				all[e.Table][at] = in.Index
			case OpRefNull:
				delete(all[e.Table], at)
			default:
				return nil, fmt.Errorf("element segment %d: element %d is %v: %w", i, j, in.Op, ErrUnsupported)
			}
		}
	}
	for i, c := range all {
		if from, to := c.span(); to > from && to-from > maxTable {
			return nil, fmt.Errorf("table %d: %d elements, more than %d: %w", i, to-from, maxTable, ErrUnsupported)
		}
	}
	return all, nil
}

// dispatchKey has a table, and the first type equal to the called type: types are compared by
// structure, not by index.
type dispatchKey struct{ table, typ uint32 }

// dispatchers has the functions added by DirectCalls, in the order of their first calls.
type dispatchers struct {
	m        *Module
	contents []contents
	index    map[dispatchKey]uint32
	added    []Func
	next     uint32 // function index of the next dispatcher
	types    []uint32
}

// function returns the index of the dispatcher for a table and a type.
func (d *dispatchers) function(table, typ uint32) uint32 {
	t := d.m.Types[typ]
	key := dispatchKey{table, d.m.typeIndex(t)}
	f, ok := d.index[key]
	if !ok {
		f = d.next
		d.next++
		d.index[key] = f
		d.added = append(d.added, d.dispatcher(d.contents[table], t))
	}
	return f
}

// dispatcher returns a function that switches over the index, its last parameter,
// counted from the first used element:
//
//	block block ... block        one for each function, and one that traps
//	  local.get index  i32.const first  i32.sub  br_table
//	end  local.get 0 ... call f0 return
//	end  local.get 0 ... call f1 return
//	...
//	end  unreachable
func (d *dispatchers) dispatcher(c contents, t FuncType) Func {
	arguments := uint32(len(t.Params))
	params := append(append([]ValType(nil), t.Params...), I32)
	first, targets, labels := d.labels(c, t)

	var b []byte
	for range len(targets) + 1 {
		b = appendAll(b, Instr{Op: OpBlock, Value: noResult})
	}
	b = appendAll(b, Instr{Op: OpLocalGet, Index: arguments}, Instr{Op: OpI32Const, Value: int64(int32(first))},
		Instr{Op: OpI32Sub}, Instr{Op: OpBrTable, Labels: labels})
	for _, f := range targets {
		b = appendAll(b, Instr{Op: OpEnd})
		for i := range arguments {
			b = appendAll(b, Instr{Op: OpLocalGet, Index: i})
		}
		b = appendAll(b, Instr{Op: OpCall, Index: f}, Instr{Op: OpReturn})
	}
	b = appendAll(b, Instr{Op: OpEnd}, Instr{Op: OpUnreachable}, Instr{Op: OpEnd})
	return Func{Type: d.m.typeIndex(FuncType{params, t.Results}), Body: b}
}

// labels returns the br_table over the elements from first on. targets are the
// functions of type t, each once; the label after them is the trap, which is also
// the default.
func (d *dispatchers) labels(c contents, t FuncType) (first uint32, targets, labels []uint32) {
	from, to := c.span()
	label := map[uint32]uint32{}
	const trap = ^uint32(0)
	for i := from; i < to; i++ {
		f, ok := c[uint32(i)]
		if !ok || !d.m.Types[d.types[f]].equal(t) {
			labels = append(labels, trap)
			continue
		}
		if _, ok := label[f]; !ok {
			label[f] = uint32(len(targets))
			targets = append(targets, f)
		}
		labels = append(labels, label[f])
	}
	labels = append(labels, trap)
	for i := range labels {
		if labels[i] == trap {
			labels[i] = uint32(len(targets))
		}
	}
	return uint32(from), targets, labels
}
