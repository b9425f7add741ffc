package compose

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// sink records the messages to a client.
type sink struct {
	mu     sync.Mutex
	params []string
}

func (s *sink) send(params []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.params = append(s.params, string(params))
}

// rising checks that the sequence increases, and returns the values.
func (s *sink) rising(t *testing.T) []float64 {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	last, values := 0.0, []float64{}
	for i, p := range s.params {
		raw, _ := wire.Get([]byte(p), "progress")
		v, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || v <= last {
			t.Fatalf("notification %d: %s does not rise above %v (%v)", i, p, last, err)
		}
		last = v
		values = append(values, v)
	}
	return values
}

func TestProgressSequence(t *testing.T) {
	record := journal.Open(journal.Begin{}).OpenCall(abi.ToolCall{}, "s", "t")
	var s sink
	p := &progress{send: s.send}
	one := p.begin("calc.one", 0)
	report := one.reporter(record)
	for _, params := range []string{
		`{"progressToken":1,"progress":1,"total":4,"message":"a"}`,
		`{"progress":2,"total":4}`,
		`{"progress":2,"total":4,"message":"same"}`,
		`{"progress":1,"total":4,"message":"back"}`,
		`{"progress":9,"total":4,"message":"beyond"}`,
		`{"progress":1e400,"total":4}`, // not a usable number: the notification is counted
		`{}`,
	} {
		report([]byte(params))
	}
	one.finish()
	one.finish()
	report([]byte(`{"progress":1,"message":"late"}`))
	two, three := p.begin("calc.two", 0), p.begin("calc.three", 0)
	two.reporter(record)([]byte(`{"progress":50,"total":100}`))
	three.reporter(record)([]byte(`{"progress":7,"message":"no total"}`))
	three.finish()
	two.finish()
	p.close()
	three.reporter(record)([]byte(`{"progress":7,"message":"late"}`))

	values := s.rising(t)
	want := []string{
		`{"progress":0.25,"message":"calc.one: a"}`,
		`{"progress":0.5,"message":"calc.one"}`,
		`{"progress":0.5000000000000001,"message":"calc.one: same"}`,
		`{"progress":0.5000000000000002,"message":"calc.one: back"}`,
		`{"progress":0.9999990463256836,"message":"calc.one: beyond"}`,
		`{"progress":0.9999990463256837,"message":"calc.one"}`,
		`{"progress":0.9999990463256838,"message":"calc.one"}`,
		`{"progress":1,"message":"calc.one"}`,
		`{"progress":1.5,"message":"calc.two"}`,
		`{"progress":2,"message":"calc.three: no total"}`,
		`{"progress":2.5,"message":"calc.three"}`,
		`{"progress":3,"message":"calc.two"}`,
	}
	if got := strings.Join(s.params, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("%d values; got\n%s\nwant\n%s", len(values), got, strings.Join(want, "\n"))
	}
}

func TestProgressOfScriptRules(t *testing.T) {
	record := journal.Open(journal.Begin{}).OpenCall(abi.ToolCall{}, "s", "t")
	total := 10.0
	var s sink
	p := &progress{send: s.send}
	part := p.begin("s.t", 0)
	part.reporter(record)([]byte(`{"progress":1,"total":2}`))
	p.script(abi.Progress{Progress: 3, Total: &total, Message: "mine <&>"})
	part.reporter(record)([]byte(`{"progress":2,"total":2}`))
	part.finish()
	p.script(abi.Progress{Progress: 3})
	p.script(abi.Progress{Progress: -1, Message: "back"})
	p.script(abi.Progress{Progress: math.MaxFloat64})
	p.script(abi.Progress{Progress: math.MaxFloat64}) // no value is greater
	s.rising(t)
	want := `{"progress":0.5,"message":"s.t"}
{"progress":3,"total":10,"message":"mine <&>"}
{"progress":3.0000000000000004}
{"progress":3.000000000000001,"message":"back"}
{"progress":1.7976931348623157e+308}`
	if got := strings.Join(s.params, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestProgressNotRequested(t *testing.T) {
	var p *progress
	part := p.begin("s.t", 0)
	if part.reporter(nil) != nil {
		t.Error("an upstream is asked for progress that nobody wants")
	}
	part.finish()
	p.script(abi.Progress{Progress: 1})
	p.close()
}

// TestProgressFlood checks tools with thousands of notifications, alone and at once: all arrive, in
// order, before the result.
func TestProgressFlood(t *testing.T) {
	const each, batch = 5000, 4
	var u upstreams
	u.add("s.flood", func(_ context.Context, _ []byte, progress func([]byte)) wire.Reply {
		for i := range each {
			progress(fmt.Appendf(nil, `{"progress":%d,"message":"%d"}`, i+1, i))
		}
		return wire.Reply{Result: []byte(`{"content":[]}`)}
	})
	script := fakeSandbox(func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
		flood := toolCall("s", "flood", `{}`)
		r.Caller.CallTools(ctx, []abi.ToolCall{flood})
		r.Caller.CallTools(ctx, []abi.ToolCall{flood, flood, flood, flood})
		return ok(`1`)
	})
	var s sink
	reply := composer(script, &u).CallSaved(t.Context(), saved(""), route.Call{Params: params(`{}`), Progress: s.send})
	got := len(s.params) // nothing may be sent later
	if get(t, reply, "structuredContent", "result") != "1" {
		t.Fatalf("reply = %s", reply.Result)
	}
	if want := (each + 1) * (batch + 1); got != want || len(s.rising(t)) != want {
		t.Errorf("%d notifications, want %d", got, want)
	}
	for i := range each {
		if text, _ := wire.GetString([]byte(s.params[i]), "message"); text != fmt.Sprintf("s.flood: %d", i) {
			t.Fatalf("notification %d says %q", i, text)
		}
	}
	if last := s.rising(t)[got-1]; last != batch+1 {
		t.Errorf("the last value is %v, want %d", last, batch+1)
	}
}
