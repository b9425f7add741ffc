package rewrite

import "fmt"

// MeterOptions name the import and the export added by Meter.
type MeterOptions struct {
	// Module and Name are the names of the imported function called after the fuel has run out,
	// without parameters and results
	Module, Name string
	// Global is the export name of the fuel counter, a mutable i64.
	Global string
}

// Meter makes a module subtract the cost of executed code from a counter (see [Op.Cost] and the
// constants near it). The counter is an exported global of the module with the initial value 0.
//
// Each sequence of instructions is charged before it runs, together with code likely to run
// afterwards (flow.go); a run with another branch gets the rest back. So when a function called
// from outside has returned, the counter has decreased by exactly the cost of the executed code.
// While the function runs, and after a trap, the counter can be lower: by at most the cost of the
// rest of each active function.
//
// If the counter is below 0, the imported function is called at the next check: before every jump
// back to an earlier place, at the entry of a function with calls, and before each operation
// charged by length (checks.go). The function raises the counter or ends the run. If it returns
// with the counter still below 0, execution continues to a call at the next check. Every endless
// run reaches a check. Between checks, each active function can at most run to the end, so the
// counter cannot wrap around.
func Meter(o MeterOptions) Pass {
	return Pass{"meter", func(m *Module) error { return meter(m, o) }}
}

func meter(m *Module, o MeterOptions) error {
	for _, i := range m.Imports {
		if i.Module == o.Module && i.Name == o.Name {
			return fmt.Errorf("the module imports %s.%s already", o.Module, o.Name)
		}
	}
	out, err := m.importFunc(o.Module, o.Name, FuncType{})
	if err != nil {
		return err
	}
	fuel := uint32(len(m.globals()))
	if err := m.export(Export{Name: o.Global, Kind: KindGlobal, Index: fuel}); err != nil {
		return err
	}
	m.Globals = append(m.Globals, Global{GlobalType{I64, true}, Instr{Op: OpI64Const}})

	w := bodyMeter{fuel: fuel, out: out}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		locals := m.locals(f)
		used, err := w.body(f, uint32(locals))
		if err != nil {
			return err
		}
		if used && locals == maxLocals {
			return fmt.Errorf("function %d has %d locals, none is left to use", int(m.imported(KindFunc))+i, maxLocals)
		}
	}
	return nil
}

// bodyMeter meters bodies one by one.
type bodyMeter struct {
	fuel, out uint32 // the counter, the function to call
	flow      flow
	instrs    []Instr
}

// body meters f. It reports whether a local was added, with the index local.
func (w *bodyMeter) body(f *Func, local uint32) (used bool, err error) {
	if w.instrs, err = f.Decode(w.instrs[:0]); err != nil {
		return false, err
	}
	list := w.flow.charges(w.instrs)
	e := editor{old: f.Body}
	for i := range w.instrs {
		in := &w.instrs[i]
		if len(list) > 0 && list[0].at == i {
			e.keep(in.At)
			e.out = w.charge(e.out, list[0])
			list = list[1:]
		}
		if by := in.Op.byLength(); by != noLength {
			if _, ok := constantCost(w.instrs, i); !ok {
				e.keep(in.At)
				e.out = w.check(w.length(e.out, by, local))
				used = true
			}
		}
	}
	f.Body = e.finish()
	if used {
		f.Locals = append(f.Locals[:len(f.Locals):len(f.Locals)], Locals{1, I32})
	}
	return used, nil
}

func (w *bodyMeter) charge(b []byte, c charge) []byte {
	if c.cost != 0 {
		b = appendAll(b, Instr{Op: OpGlobalGet, Index: w.fuel}, Instr{Op: OpI64Const, Value: c.cost},
			Instr{Op: OpI64Sub}, Instr{Op: OpGlobalSet, Index: w.fuel})
	}
	if c.check {
		b = w.check(b)
	}
	return b
}

func (w *bodyMeter) check(b []byte) []byte {
	return appendAll(b, Instr{Op: OpGlobalGet, Index: w.fuel}, Instr{Op: OpI64Const}, Instr{Op: OpI64LtS},
		Instr{Op: OpIf, Value: noResult}, Instr{Op: OpCall, Index: w.out}, Instr{Op: OpEnd})
}

// length charges for the length on top of the stack, and leaves the length there.
func (w *bodyMeter) length(b []byte, by byLength, local uint32) []byte {
	get := Instr{Op: OpLocalGet, Index: local}
	b = appendAll(b, Instr{Op: OpLocalTee, Index: local}, Instr{Op: OpGlobalGet, Index: w.fuel}, get)
	if by == pagesLength {
		most := Instr{Op: OpI32Const, Value: maxPages}
		b = appendAll(b, most, get, most, Instr{Op: OpI32LtU}, Instr{Op: OpSelect})
	}
	b = appendAll(b, Instr{Op: OpI64ExtendU})
	switch by {
	case bytesLength:
		b = appendAll(b, Instr{Op: OpI64Const, Value: bytesShift}, Instr{Op: OpI64ShrU})
	case pagesLength:
		b = appendAll(b, Instr{Op: OpI64Const, Value: pageShift}, Instr{Op: OpI64Shl})
	}
	return appendAll(b, Instr{Op: OpI64Sub}, Instr{Op: OpGlobalSet, Index: w.fuel})
}
