package plan_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

var long = flag.Bool("long", false, "plan and apply more generated scripts")

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// world is a server with the read "get" and the writes "put" and "drop", and a planner for
// it. It notes the calls that it gets.
type world struct {
	*plan.Planner
	rng    *rand.Rand // for the answers of writes
	fails  int        // the number of the call that fails; 0 is none
	hangs  int        // likewise, that is not answered
	hung   func()     // called when a call hangs; nil for nothing
	made   []string   // tool and arguments of each call
	record bool       // reads, too
	read   string     // the answer of "get"; "" for its argument n
	meta   []string   // the _meta of each call that is in made
}

func newWorld(t *testing.T, box compose.Sandbox, saved plan.Saved) *world {
	w := &world{}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	cat := catalog.New([]catalog.Source{{Server: "s", Prefix: "s__", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }}},
		log, func(*catalog.Scope, wire.Surface, []byte) {})
	var all [][]byte
	for _, name := range []string{"get", "put", "drop"} {
		all = append(all, fmt.Appendf(nil, `{"name":%q,"annotations":{"readOnlyHint":%t}}`, name, name == "get"))
	}
	cat.SetUpstream("s", wire.Tools, all, nil)
	c := compose.New(compose.Options{Sandbox: box, Upstreams: w, Catalog: cat, Saved: saved.(compose.Saved), Log: log, Timeout: time.Minute})
	w.Planner = plan.New(plan.Options{
		Composer: c, Router: w, Saved: saved, Guest: sandbox.GuestDigest(), Expires: time.Hour,
		Definition: func(_, tool string) []byte {
			return all[slices.Index([]string{"get", "put", "drop"}, tool)]
		},
		Store: plan.NewStore(t.TempDir(), requeststate.New(requeststate.NewKey, time.Now), time.Now),
	})
	return w
}

// Ready implements compose.Upstreams and plan.Router.
func (*world) Ready(context.Context, route.Origin, string) error { return nil }

// Preview implements plan.Router.
func (*world) Preview(context.Context, route.Origin, route.ScriptCall) (policy.Decision, error) {
	return policy.Decision{}, nil
}

// CallUpstream implements compose.Upstreams.
func (w *world) CallUpstream(ctx context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	arguments, _ := wire.Get(call.Params, "arguments")
	if call.Tool == "get" {
		if w.record {
			w.made = append(w.made, "get "+string(arguments))
		}
		if w.read != "" {
			return wire.Reply{Result: fmt.Appendf(nil, `{"content":[],"structuredContent":%s}`, w.read)}
		}
		n, _ := wire.Get(arguments, "n")
		return wire.Reply{Result: fmt.Appendf(nil, `{"content":[],"structuredContent":{"n":%s}}`, n)}
	}
	meta, _ := wire.Get(call.Params, "_meta")
	w.made, w.meta = append(w.made, call.Tool+" "+string(arguments)), append(w.meta, string(meta))
	if len(w.made) == w.fails {
		return wire.Reply{Error: []byte(`{"code":-1,"message":"it fails"}`)}
	}
	if len(w.made) == w.hangs {
		if w.hung != nil {
			w.hung()
		}
		<-ctx.Done()
		return wire.Reply{Error: []byte(`{"code":-1,"message":"it has ended"}`)}
	}
	answers := []string{`{"n":1}`, `{"n":4,"x":[null,{}]}`, `{"n":7.5}`, `{"n":0,"x":"<the answer of write 1>"}`}
	return wire.Reply{Result: fmt.Appendf(nil, `{"content":[],"structuredContent":%s}`, answers[w.rng.IntN(len(answers))])}
}

// library has saved tools, among them those of the scripts.
type library map[string]tools.Definition

func (l library) Get(name string) (tools.Definition, error) {
	def, ok := l[name]
	if !ok {
		return def, tools.ErrNotFound
	}
	return def, nil
}

func (l library) List() (all []tools.Definition) {
	for _, def := range l {
		all = append(all, def)
	}
	return all
}

// planned returns the writes of a plan as calls; answers are those of all writes so far.
func planned(t *testing.T, p *plan.Plan) (all []string) {
	for _, s := range p.Steps {
		if s.Do == plan.Write {
			all = append(all, s.Tool+" "+string(s.Arguments))
		}
	}
	return all
}

// TestPlansComeTrue is the property that everything rests on: a plan makes no write, and
// to apply it makes the writes of the plan, in that order, and no others, whatever their
// answers are; the next plan as well, until the script ends. -long tries many more scripts.
func TestPlansComeTrue(t *testing.T) {
	t.Parallel() // it mostly waits for the disk
	n := 30
	if *long {
		n = 600
	}
	box := sandboxtest.Guest(t)
	plans, writes, stages, failed := 0, 0, 0, 0
	for seed := range uint64(n) {
		code := abitest.Generated(seed, "s.get", "s.put", "s.drop")
		if seed%3 == 0 { // saved tools, one of which calls another, one after the other and in a batch
			code = "a = tools.part(x=1)\nb = parallel([lambda: tools.part(x=2), lambda: s.put(last=a), lambda: tools.whole()])\nreturn [a, b]"
		}
		saved := library{}
		for name, code := range map[string]string{
			"part":  abitest.Generated(seed+1, "s.get", "s.put", "s.drop"),
			"whole": "return [tools.part(x=3), s.put(after=tools.part(x=4))]",
		} {
			saved[name] = tools.Definition{Name: name, Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`), Code: code}
		}
		w := newWorld(t, box, saved)
		w.rng = rand.New(rand.NewPCG(seed, 1))
		file, _, f := w.Make(t.Context(), plan.Subject{Code: code, Params: []byte(`{}`)}, route.Call{})
		if f != nil {
			t.Fatalf("seed %d: %s\n%s", seed, f.Text(), code)
		}
		for file != nil {
			plans++
			if plans > 200*n {
				t.Fatalf("seed %d: plans without end\n%s\n%s", seed, code, file.Text())
			}
			if len(w.made) > 0 {
				t.Fatalf("seed %d: the plan has made %q\n%s", seed, w.made, code)
			}
			want := planned(t, &file.Plan)
			if w.fails = 0; seed%5 == 0 {
				w.fails = 1 + len(want)/2
			}
			o, err := w.Apply(t.Context(), file, plan.ApplyOptions{Fresh: seed%2 == 0}, route.Call{})
			if err != nil || o.Differs || w.fails == 0 && o.Failure != nil {
				t.Fatalf("seed %d: %v, %v\n%s\n%s", seed, err, o.Failure.Text(), code, file.Text())
			}
			if o.Failure != nil {
				failed++
				made, undone := cutDrops(w.made, o)
				if len(made) > len(want) {
					t.Fatalf("seed %d: made %q and %q, planned %q\n%s", seed, made, undone, want, code)
				}
				want = want[:len(made)]
				w.made = made
			}
			if !sameCalls(w.made, want) {
				t.Fatalf("seed %d: made\n%s\nplanned\n%s\n%s", seed, strings.Join(w.made, "\n"), strings.Join(want, "\n"), code)
			}
			writes += len(want)
			file, w.made = o.Next, nil
			if file != nil {
				stages++
			}
		}
	}
	t.Logf("%d scripts: %d plans, %d of them continue others, %d writes, %d failed", n, plans, stages, writes, failed)
	if writes < n || stages < n/4 || failed == 0 {
		t.Error("the scripts do too little to test anything")
	}
}

// cutDrops returns the calls without the compensations at their end.
func cutDrops(made []string, o *plan.Outcome) (writes, undone []string) {
	n := 0
	o.Record.Any(func(r *journal.Record) bool { // a saved tool that fails makes its own
		for i := range r.Calls {
			if r.Calls[i].Undo {
				n++
			}
		}
		return false
	})
	return made[:len(made)-n], made[len(made)-n:]
}

// sameCalls compares calls with those of a plan, in which answers of writes are references.
func sameCalls(made, planned []string) bool {
	return slices.EqualFunc(made, planned, func(made, planned string) bool {
		before, _, _ := strings.Cut(planned, `{"$withheld":`)
		return made == planned || before != planned && strings.HasPrefix(made, before)
	})
}

// TestWriteWithoutAnswer checks what is said of a write that is not answered in time, or whose
// client goes away, and that what was done before is undone.
func TestWriteWithoutAnswer(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		timeout := ", timeout=0.05"
		if cancelled {
			timeout = ""
		}
		w := newWorld(t, sandboxtest.Guest(t), library{})
		w.rng, w.hangs = rand.New(rand.NewPCG(1, 1)), 2
		code := "s.put(a=1)\nundo(s.drop, {'of': 1})\ns.put({'b': 2}" + timeout + ")\ns.put(c=3)"
		file, _, f := w.Make(t.Context(), plan.Subject{Code: code, Params: []byte(`{}`)}, route.Call{})
		if f != nil {
			t.Fatal(f.Text())
		}
		ctx, cancel := context.WithCancel(t.Context())
		if cancelled {
			w.hung = cancel
		}
		o, err := w.Apply(ctx, file, plan.ApplyOptions{}, route.Call{})
		cancel()
		if err != nil || o.Failure == nil || o.Differs {
			t.Fatalf("%v, %+v", err, o)
		}
		var states []plan.State
		for _, m := range o.Made {
			states = append(states, m.State)
		}
		if want := []plan.State{plan.WasMade, plan.IsUnknown, plan.NotMade}; !slices.Equal(states, want) {
			t.Errorf("cancelled %t: %q", cancelled, states)
		}
		if want := []string{`put {"a":1}`, `put {"b":2}`, `drop {"of":1}`}; !slices.Equal(w.made, want) {
			t.Errorf("cancelled %t: made %q", cancelled, w.made)
		}
	}
}

// TestLimitsWhilePlanning checks that there is no plan of a script that reaches a limit.
func TestLimitsWhilePlanning(t *testing.T) {
	w := newWorld(t, sandboxtest.Guest(t), library{})
	for _, code := range []string{"for i in range(2000):\n    s.put(i=i)", "x = [s.put(i=1)]\nwhile True:\n    x = x + x"} {
		file, _, f := w.Make(t.Context(), plan.Subject{Code: code, Params: []byte(`{}`)}, route.Call{})
		if file != nil && file.Plan.Open == nil || f != nil && f.Type != abi.ErrResource {
			t.Errorf("%s: %+v, %+v", code, file, f)
		}
		if len(w.made) > 0 {
			t.Errorf("%s: made %q", code, w.made)
		}
	}
}
