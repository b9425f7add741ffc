package tools

import (
	"testing"
	"time"
)

func hashed(change func(*Definition)) string {
	d := tool("a")
	d.OutputSchema = []byte(`{"type":"array"}`)
	if change != nil {
		change(&d)
	}
	return d.Hash()
}

func TestHash(t *testing.T) {
	limits := func(text string) func(*Definition) {
		return func(d *Definition) {
			var err error
			if d.Limits, err = ParseLimits([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := map[string]string{hashed(nil): "the plain one"}
	for name, change := range map[string]func(*Definition){
		"name":                 func(d *Definition) { d.Name = "b" },
		"code":                 func(d *Definition) { d.Code += "\n" },
		"inputSchema":          func(d *Definition) { d.InputSchema = []byte(`{"type":"object","a":1}`) },
		"number literal":       func(d *Definition) { d.InputSchema = []byte(`{"type":"object","a":1.0}`) },
		"outputSchema":         func(d *Definition) { d.OutputSchema = []byte(`{"type":"object"}`) },
		"no outputSchema":      func(d *Definition) { d.OutputSchema = nil },
		"fuel":                 limits(`{"fuel":67108864}`),
		"memory":               limits(`{"memory":67108864}`),
		"timeout":              limits(`{"timeout":67108864}`),
		"calls":                limits(`{"calls":67108864}`),
		"bounds":               func(d *Definition) { d.Permissions = &Permissions{Bounds: []string{"a.b"}} },
		"no bounds":            func(d *Definition) { d.Permissions = &Permissions{Bounds: []string{}} },
		"durable":              func(d *Definition) { d.Durable = true },
		"in doubt":             func(d *Definition) { d.Durable, d.InDoubt = true, AskInDoubt },
		"labels":               func(d *Definition) { d.Labels = []string{"private"} },
		"a part that ends":     func(d *Definition) { d.Code = "return 1inputSchema 17\n" },
		"a schema that is not": func(d *Definition) { d.InputSchema = []byte(`{"type":`) },
	} {
		h := hashed(change)
		if len(h) != 64 {
			t.Errorf("%s: hash %q", name, h)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[h] = name
	}
	for name, same := range map[string][2]func(*Definition){
		"description": {nil, func(d *Definition) { d.Description = "other" }},
		"times":       {nil, func(d *Definition) { d.Metadata = Metadata{Modified: time.Unix(1, 0), ExecutionCount: 7} }},
		"white space": {nil, func(d *Definition) { d.InputSchema = []byte(" {\n\"type\" :\t\"object\"}\n") }},
		"no limits":   {nil, limits(`{}`)},
		"limits":      {limits(`{"memory":"64MB","fuel":67108864}`), limits(`{"fuel":67108864, "memory":67108864, "later":1}`)},
	} {
		if a, b := hashed(same[0]), hashed(same[1]); a != b {
			t.Errorf("%s: %s and %s", name, a, b)
		}
	}
}

// Journals have hashes of earlier versions of this program.
func TestHashStays(t *testing.T) {
	const want = "e9d7826e795d413c03bdc442bb3486651f9669da940a15956cb869058f78d8e4" // as sha256sum(1) has it
	if got := hashed(nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
