package flowtable

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestPrefix is the theorem: what the sinks of a label get is a prefix of a sequence that
// answers without the label determine. So whatever the labelled answers are, of two runs one
// makes the first calls of the other. With the action "shadow", both make the same calls, as far
// as the script calls nothing but sources and sinks.
// It runs with -long; TestFlowProperty of package compose does the same with simpler programs.
func TestPrefix(t *testing.T) {
	if !*long {
		t.Skip("it runs with -long")
	}
	standard, err := os.ReadFile("testdata/flow.toml")
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(*programs)
	without := newRig(t, common, nil)
	for _, p := range []property{
		{name: "deny", flow: string(standard), programs: n},
		{name: "shadow", flow: withAction(string(standard), "shadow"), programs: n / 3},
		{name: "shadow alone", flow: withAction(string(standard), "shadow"), programs: n / 3, closed: true},
		{name: "both labels", flow: bothLabels(string(standard)), programs: n / 3},
	} {
		t.Run(p.name, func(t *testing.T) {
			p.without, p.with = without, newRig(t, common+p.flow, nil)
			p.check(t)
			t.Logf("seeds from %d; %+v", *first, p.seen)
			if s := p.seen; !t.Failed() && (s.Leak < s.Plain/5 || s.Denied+s.Made < int(p.programs)/2) {
				t.Error("the programs do too little to test anything")
			}
		})
	}
}

var (
	programs = flag.Int("programs", 600, "the number of random programs")
	first    = flag.Uint64("seed", 0, "the seed of the first random program")
)

// property is the theorem for a configuration. closed says that the sinks must get the same, not
// only a prefix of it.
type property struct {
	name, flow    string
	programs      uint64
	closed        bool
	with, without *rig // information flow
	seen          struct {
		Denied, Made, Progress int
		Plain, Leak            int // run without information flow, and how many of them leak
	}
}

// check tries programs.
func (p *property) check(t *testing.T) {
	for seed := *first; seed < *first+p.programs; seed++ {
		label := int(seed % labels)
		made := generate(seed, label, p.closed)
		if p.seen.Plain < 20 {
			p.seen.Plain++
			a, b := p.without.twice(t, made, seed, label)
			if compare(a.sinks(label), b.sinks(label)) != blocked {
				p.seen.Leak++
			}
		}
		a, b := p.with.twice(t, made, seed, label)
		if p.violation(&a, &b, seed, label) != "" {
			p.explain(t, made, seed, label)
			return
		}
		for _, o := range []*outcome{&a, &b} {
			p.seen.Made += len(o.sinks(label))
			if o.denied {
				p.seen.Denied++
			}
		}
		if compare(a.sinks(label), b.sinks(label)) == progress {
			p.seen.Progress++
		}
	}
}

// explain reports a program for which the theorem does not hold, as small as it can be made.
func (p *property) explain(t *testing.T, made *program, seed uint64, label int) {
	small := shrink(made, 300, func(made *program) bool {
		a, b := p.with.twice(t, made, seed, label)
		return p.violation(&a, &b, seed, label) != ""
	})
	a, b := p.with.twice(t, small, seed, label)
	t.Errorf("seed %d, %s: %s\nA %q\nB %q\n%s\nA %s\nB %s\nreplies:\n%s\n%s", seed, labelNames[label], p.violation(&a, &b, seed, label),
		a.sinks(label), b.sinks(label), show(small), a.story(), b.story(), a.reply, b.reply)
}

// violation says how two runs contradict the theorem, or what must hold besides; "" for not.
func (p *property) violation(a, b *outcome, seed uint64, label int) string {
	switch v := compare(a.sinks(label), b.sinks(label)); {
	case v == through:
		return "the sinks got something else"
	case v == progress && p.closed:
		return "the sinks got more"
	case strings.Contains(p.flow, `"deny"`) && unnoticed(label, a, b):
		return "nobody has noticed that the sinks could have got more"
	}
	for secret, o := range []*outcome{a, b} {
		w := randomWorld{seed: seed, label: label, secret: uint64(secret)}
		if o.denied && label == private && strings.Contains(o.reply, w.marker()) {
			return "the reply of a denied run has a secret"
		}
	}
	if !a.carries(label) && !b.carries(label) && a.failed == "" && b.failed == "" && a.result != b.result {
		return "the results differ, and neither has the label"
	}
	return ""
}

// carries reports whether the reply says that it has a label.
func (o *outcome) carries(label int) bool {
	key, value := "confidentiality", "private"
	if label == untrusted {
		key, value = "integrity", "untrusted"
	}
	got, _ := wire.GetString([]byte(o.reply), "_meta", "ifc", key)
	return got == value
}

// twice runs a program with two secrets.
func (r *rig) twice(t *testing.T, p *program, seed uint64, label int) (a, b outcome) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	saved := p.saved()
	uses := func(name string) bool { return strings.Contains(p.code(), "tools."+name) }
	for _, name := range []string{"part1", "part0"} { // what part0 may call includes what part1 may
		if uses(name) || name == "part1" && uses("part0") {
			r.save(t, name, saved[name])
		}
	}
	a = r.run(t, randomWorld{seed: seed, label: label, secret: 0}, "", p.code(), nil)
	b = r.run(t, randomWorld{seed: seed, label: label, secret: 1}, "", p.code(), nil)
	return a, b
}

// save saves a tool, in a session that has seen nothing.
func (r *rig) save(t *testing.T, name, code string) {
	t.Helper()
	reply := r.call(t, "save_tool", map[string]any{"name": name, "description": "d", "inputSchema": json.RawMessage(`{"type":"object"}`), "code": code})
	if !strings.Contains(reply, "created") && !strings.Contains(reply, "updated") && !strings.Contains(reply, "unchanged") {
		t.Fatalf("%s\n%s", reply, code)
	}
}

// show is a program with its saved tools.
func show(p *program) string {
	text := p.code()
	saved := p.saved()
	for _, name := range []string{"part0", "part1"} {
		if strings.Contains(text, "tools."+name) || strings.Contains(saved["part0"], "tools."+name) {
			text += "--- tools." + name + "\n" + saved[name]
		}
	}
	return strings.ReplaceAll(text, prologue, "")
}
