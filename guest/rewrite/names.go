package rewrite

import "fmt"

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
