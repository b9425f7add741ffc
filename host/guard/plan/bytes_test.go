package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// TestPlanOfBytes applies plans whose runs would send other bytes that mean the same: a read has
// another answer when it is made again, or the plan says something else than its script. Nothing is
// sent then. Otherwise what is sent are the bytes of the plan.
func TestPlanOfBytes(t *testing.T) {
	box := sandboxtest.Guest(t)
	const code = "x = s.get(n=1)\ns.put(x, meta={k: x[k] for k in x})"
	const read = `{"a":1.0,"b":{"d":"<","c":[2]}}`
	same := func(p *plan.Plan) {}
	swap := func(old, new string) func(p *plan.Plan) {
		return func(p *plan.Plan) {
			for i := range p.Steps {
				if s := &p.Steps[i]; s.Do == plan.Write {
					s.Arguments = []byte(strings.Replace(string(s.Arguments), old, new, 1))
				}
			}
		}
	}
	for _, c := range []struct {
		what  string
		again string // the answer of the read when the plan is applied
		edit  func(p *plan.Plan)
		made  bool
	}{
		{"nothing", read, same, true},
		{"white space", ` { "a": 1.0, "b": {"d":"<","c":[ 2 ]}}`, same, true},
		{"order in the answer", `{"b":{"d":"<","c":[2]},"a":1.0}`, same, false},
		{"order below", `{"a":1.0,"b":{"c":[2],"d":"<"}}`, same, false},
		{"form of a number", `{"a":1e0,"b":{"d":"<","c":[2]}}`, same, false},
		{"an integer", `{"a":1,"b":{"d":"<","c":[2]}}`, same, false},
		{"an escape", `{"a":1.0,"b":{"d":"\u003c","c":[2]}}`, same, false},
		{"order in the plan", read, swap(`"d":"<","c":[2]`, `"c":[2],"d":"<"`), false},
		{"number in the plan", read, swap(`1.0`, `1e0`), false},
		{"escape in the plan", read, swap(`"<"`, `"\u003c"`), false},
		{"meta", read, func(p *plan.Plan) {
			p.Steps[1].Meta = []byte(strings.Replace(string(p.Steps[1].Meta), `1.0`, `1e0`, 1))
		}, false},
	} {
		for _, fresh := range []bool{true, false} {
			if !fresh && c.again != read {
				continue
			}
			w := newWorld(t, box, library{})
			w.rng, w.read = rand.New(rand.NewPCG(1, 1)), read
			file, _, f := w.Make(t.Context(), plan.Subject{Code: code, Params: []byte(`{}`)}, route.Call{Params: []byte(`{"_meta":{"z" : 1, "m":[1 ,2]}}`)})
			if f != nil {
				t.Fatal(f.Text())
			}
			before := file.Digest
			c.edit(&file.Plan)
			file.Digest = file.Plan.Digest()
			changed := file.Digest != before
			file, err := plan.Parse(file.JSON())
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			want, meta := planned(t, &file.Plan), fmt.Sprintf(`{"z":1,"m":[1,2],%s`, string(file.Plan.Steps[1].Meta)[1:])
			w.read = c.again
			o, err := w.Apply(t.Context(), file, plan.ApplyOptions{Fresh: fresh}, route.Call{})
			switch {
			case err != nil:
				t.Errorf("%s: %v", c.what, err)
			case !c.made && (len(w.made) > 0 || !o.Differs || c.again == read && !changed):
				t.Errorf("%s (fresh %t): planned %q, made %q, %+v", c.what, fresh, want, w.made, o)
			case c.made && (o.Failure != nil || !slices.Equal(w.made, want) || w.meta[0] != meta):
				t.Errorf("%s (fresh %t): planned %q, made %q with %q, want %q, %+v", c.what, fresh, want, w.made, w.meta, meta, o)
			}
		}
	}
}

// TestPlanOfVersion1 applies a plan of the version before, whose digests are of canonical JSON, and the
// plan that continues it.
func TestPlanOfVersion1(t *testing.T) {
	box := sandboxtest.Guest(t)
	for _, fresh := range []bool{true, false} {
		w := newWorld(t, box, library{})
		w.rng, w.read = rand.New(rand.NewPCG(1, 1)), `{"b":1.0,"a":[]}`
		code := "x = s.get(n=1)\ny = s.put(x)\ns.put(n=y.n, x=x)"
		file, _, f := w.Make(t.Context(), plan.Subject{Code: code, Params: []byte(`{}`)}, route.Call{})
		if f != nil {
			t.Fatal(f.Text())
		}
		file.Plan.Version = 1
		file.Plan.Steps[0].Answer = pins.Digest(wire.Marshal(file.Answers[0]))
		file.Digest = file.Plan.Digest()
		for n := range 2 {
			var err error
			if file, err = plan.Parse(file.JSON()); err != nil || file.Plan.Version != n+1 {
				t.Fatalf("%v, %+v", err, file)
			}
			o, err := w.Apply(t.Context(), file, plan.ApplyOptions{Fresh: fresh}, route.Call{})
			if err != nil || o.Failure != nil || len(w.made) != n+1 || o.Finished != (n == 1) {
				t.Fatalf("%v, %+v, made %q", err, o, w.made)
			}
			file = o.Next
		}
		if want := `put {"b":1.0,"a":[]}`; w.made[0] != want || !strings.HasSuffix(w.made[1], `,"x":{"b":1.0,"a":[]}}`) {
			t.Errorf("made %q", w.made)
		}
	}
}
