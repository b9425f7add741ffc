package rewrite

import "fmt"

// StatePrefix begins the names of the exports added by ExportState: "state:0", "state:1" and so on,
// in the order of the globals.
const StatePrefix = "state:"

// ExportState exports every mutable global of the module. Together with the memory, they are the
// module's state between calls, which a host can then copy to another instance. Imported globals
// and references cannot be copied: for them, the error wraps [ErrUnsupported]. Changeable tables
// are not checked for; a module accepted by DirectCalls has none.
func ExportState() Pass { return Pass{"export state", exportState} }

func exportState(m *Module) error {
	n := 0
	for i, g := range m.globals() {
		if !g.Mutable {
			continue
		}
		if uint32(i) < m.imported(KindGlobal) {
			return fmt.Errorf("global %d is mutable and imported: %w", i, ErrUnsupported)
		}
		if g.Type.isRef() {
			return fmt.Errorf("global %d is a mutable %v: %w", i, g.Type, ErrUnsupported)
		}
		if err := m.export(Export{Name: fmt.Sprint(StatePrefix, n), Kind: KindGlobal, Index: uint32(i)}); err != nil {
			return err
		}
		n++
	}
	return nil
}

// LimitMemory sets the maximum of the module's own memory, in pages of 64 KiB. The host sets the
// limit of an instance; the maximum in the module matters to engines that reserve address space in
// advance.
func LimitMemory(most uint32) Pass {
	return Pass{"limit memory", func(m *Module) error {
		for i := range m.Memories {
			l := &m.Memories[i]
			if most < l.Min || most > maxPages {
				return fmt.Errorf("a maximum of %d pages (the memory begins with %d, and can have %d)", most, l.Min, maxPages)
			}
			l.Max, l.HasMax = most, true
		}
		return nil
	}}
}
