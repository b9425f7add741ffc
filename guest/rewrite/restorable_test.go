package rewrite

import "testing"

// TestRestorable checks which modules have no state but memory and exported globals.
func TestRestorable(t *testing.T) {
	counter := Global{GlobalType{I32, true}, i32(0)}
	fixed := Global{GlobalType{I32, false}, i32(0)}
	exported := []Export{{"state:0", KindGlobal, 0}}
	for name, c := range map[string]struct {
		m    Module
		want bool
	}{
		"nothing":                  {Module{}, true},
		"memory":                   {memory, true},
		"exported global":          {Module{Globals: []Global{counter}, Exports: exported}, true},
		"constant":                 {Module{Globals: []Global{fixed}}, true},
		"hidden global":            {Module{Globals: []Global{counter}}, false},
		"second one hidden":        {Module{Globals: []Global{counter, counter}, Exports: exported}, false},
		"function of that index":   {Module{Globals: []Global{counter}, Exports: []Export{{"f", KindFunc, 0}}}, false},
		"imported global":          {Module{Imports: []Import{{Module: "m", Name: "g", Kind: KindGlobal, Global: counter.GlobalType}}, Exports: exported}, false},
		"imported memory":          {Module{Imports: []Import{{Module: "m", Name: "m", Kind: KindMemory, Memory: Limits{Min: 1}}}}, false},
		"table":                    {table, false},
		"passive elements":         {Module{Elems: []Elem{{Mode: Passive, Type: FuncRef, Init: []Instr{op(OpRefFunc, 0)}}}}, false},
		"declared elements":        {Module{Elems: []Elem{{Mode: Declarative, Type: FuncRef, Init: []Instr{op(OpRefFunc, 0)}}}}, true},
		"data that can be dropped": {Module{Memories: memory.Memories, DataCount: true, Data: []Data{{Mode: Passive, Bytes: []byte("x")}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Restorable(module(c.m, FuncType{}))
			if err != nil || got != c.want {
				t.Errorf("%t, %v, want %t", got, err, c.want)
			}
		})
	}
	if _, err := Restorable([]byte("no module")); err == nil {
		t.Error("no error")
	}
}
