package flowtable

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPrefix is the theorem: what the sinks of a label get is a prefix of a sequence that
// answers without the label determine. So whatever the labelled answers are, of two runs one
// makes the first calls of the other. -long tries many more programs.
func TestPrefix(t *testing.T) {
	flow, err := os.ReadFile("testdata/flow.toml")
	if err != nil {
		t.Fatal(err)
	}
	programs := uint64(40)
	if *long {
		programs = 3000
	}
	with := newRig(t, common+string(flow), nil)
	without := newRig(t, common, nil)
	var seen struct{ leaks, denied, made, short int }
	for seed := range programs {
		label := int(seed % labels)
		p := generate(seed, label)
		if seed < 40 { // the programs must be such that something leaks
			a, b := without.twice(t, p, seed, label)
			if compare(a.sinks(label), b.sinks(label)) != blocked {
				seen.leaks++
			}
		}
		a, b := with.twice(t, p, seed, label)
		if why := violation(&a, &b, seed, label); why != "" {
			small := shrink(p, 200, func(p *program) bool {
				a, b := with.twice(t, p, seed, label)
				return violation(&a, &b, seed, label) != ""
			})
			a, b = with.twice(t, small, seed, label)
			t.Errorf("seed %d, %s: %s\nA %q\nB %q\n%s", seed, labelNames[label], violation(&a, &b, seed, label), a.sinks(label), b.sinks(label), show(small))
			return
		}
		if a.failed == "permission" {
			seen.denied++
		}
		seen.made += len(a.sinks(label))
		if compare(a.sinks(label), b.sinks(label)) == progress {
			seen.short++
		}
	}
	t.Logf("%d programs, of the first 40 leak %d; %d denied, %d calls to sinks made, %d times in one world only", programs, seen.leaks, seen.denied, seen.made, seen.short)
	if seen.leaks < 8 || seen.denied < 4 || seen.made < 20 {
		t.Error("the programs do too little to test anything")
	}
}

// violation says how two runs contradict the theorem, or what must hold besides; "" for not.
func violation(a, b *outcome, seed uint64, label int) string {
	if compare(a.sinks(label), b.sinks(label)) == through {
		return "the sinks got something else"
	}
	for secret, o := range []*outcome{a, b} {
		w := randomWorld{seed: seed, label: label, secret: uint64(secret)}
		if label == private && o.failed == "permission" && strings.Contains(o.reply, w.marker()) {
			return "the reply of a denied run has a secret: " + o.reply
		}
	}
	return ""
}

// twice runs a program with two secrets.
func (r *rig) twice(t *testing.T, p *program, seed uint64, label int) (a, b outcome) {
	t.Helper()
	for name, code := range p.saved() {
		r.save(t, name, code)
	}
	a = r.run(t, randomWorld{seed: seed, label: label, secret: 0}, p.code(), nil)
	b = r.run(t, randomWorld{seed: seed, label: label, secret: 1}, p.code(), nil)
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
	for _, name := range slices.Sorted(slices.Values([]string{"part0", "part1"})) {
		if strings.Contains(text, "tools."+name) || strings.Contains(saved["part0"], "tools."+name) {
			text += "--- tools." + name + "\n" + saved[name]
		}
	}
	return strings.ReplaceAll(text, prologue, "")
}
