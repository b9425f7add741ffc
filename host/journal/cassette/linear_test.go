package cassette

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv/linear"
)

// answers makes an interaction for each match, and calls its tool.
func answers(params, arguments []byte) {
	for _, match := range []Match{Exact, Subset} {
		c, err := New(Interaction{Server: "s", Tool: "t", Params: params, Match: match, Returns: []byte(`1`), Times: 1})
		if err != nil {
			continue
		}
		for range 2 {
			c.CallUpstream(context.Background(), nil, route.ScriptCall{Server: "s", Tool: "t", Params: fmt.Appendf(nil, `{"arguments":%s}`, arguments)})
		}
	}
}

// entryPoints are the functions that read bytes of others.
var entryPoints = map[string]func(raw []byte){
	"Parse": func(raw []byte) {
		_, _ = Parse("x", fmt.Appendf(nil, "[[interaction]]\ntool = \"s.t\"\nreturns_json = '''%s'''\n", raw))
		_, _ = Parse("x", raw)
	},
	"parsing many": func(raw []byte) {
		_, _ = Parse("x", []byte(strings.Repeat("[[interaction]]\ntool = \"s.t\"\nparams = {a = 1}\nnone = 1\n", len(raw)/64)))
	},
	"arguments": func(raw []byte) { answers([]byte(`{"name":{"name":[1,2]}}`), raw) },
	"params":    func(raw []byte) { answers(raw, []byte(`{"name":{"name":[1,2]}}`)) },
	"both": func(raw []byte) {
		answers(raw, raw)
		answers(fmt.Appendf(nil, `{"x":%s}`, raw), fmt.Appendf(nil, `{"y":1,"x":%s}`, raw))
	},
	"many interactions": func(raw []byte) {
		var all []Interaction
		for i := range len(raw) / 64 {
			all = append(all, Interaction{Server: "s", Tool: "t", Params: fmt.Appendf(nil, `{"name":%d}`, i), Match: Subset, Returns: []byte(`1`)})
		}
		c, err := New(all...)
		if err == nil {
			c.CallUpstream(context.Background(), nil, route.ScriptCall{Server: "s", Tool: "t", Params: fmt.Appendf(nil, `{"arguments":{"a":%s}}`, raw)})
		}
	},
	"many tools": func(raw []byte) {
		var all []Interaction
		for i := range len(raw) / 64 {
			all = append(all, Interaction{Server: fmt.Sprintf("s%d", i%10), Tool: fmt.Sprint(i), Returns: []byte(`1`)})
		}
		c, err := New(all...)
		if err == nil {
			c.Servers()
			_, _, _ = c.Resolve("s1", "x", false)
			c.CallUpstream(context.Background(), nil, route.ScriptCall{Server: "s", Tool: "t"})
		}
	},
	"answers": func(raw []byte) {
		c, err := New(Interaction{Server: "s", Tool: "t", Returns: raw}, Interaction{Server: "s", Tool: "u", Raises: &Raise{Message: string(raw), Details: raw}})
		for _, tool := range []string{"t", "u"} {
			if err == nil {
				c.CallUpstream(context.Background(), nil, route.ScriptCall{Server: "s", Tool: tool})
			}
		}
	},
	"NewRecorder": func(raw []byte) {
		r := NewRecorder(replying(raw), func(b []byte) []byte { return b })
		r.CallUpstream(context.Background(), nil, route.ScriptCall{Params: fmt.Appendf(nil, `{"arguments":%s}`, raw)})
		r.Interactions()
	},
}

type replying []byte

func (r replying) Ready(context.Context, route.Origin, string) error { return nil }
func (r replying) CallUpstream(context.Context, route.Origin, route.ScriptCall) wire.Reply {
	return wire.Reply{Result: r}
}

// TestLinear checks that neither calls nor mocks make us work out of proportion to their size.
func TestLinear(t *testing.T) {
	for entry, do := range entryPoints {
		shapes := linear.Shapes
		if entry == "many tools" || entry == "parsing many" {
			shapes = shapes[:1] // only the size matters
		}
		for _, shape := range shapes {
			t.Run(entry+"/"+shape.Name, func(t *testing.T) {
				linear.Check(t, func(size int) []byte { return shape.Make(size, "name") }, do)
			})
		}
	}
	linear.CheckTable(t, ".", []string{"Parse"}, nil)
}

// TestMocksCostFuel checks that finding an answer is paid for, and stops when it is not, or when
// the call ends.
func TestMocksCostFuel(t *testing.T) {
	var all []Interaction
	for i := range 1000 {
		all = append(all, Interaction{Server: "s", Tool: "t", Params: fmt.Appendf(nil, `{"a":[%d]}`, i), Match: Subset, Returns: []byte(`1`)})
	}
	c := made(t, all...)
	arguments := `{"a":[` + strings.Repeat("1,", 10_000) + `1]}`
	var spent uint64
	compute := func(spend tools.Spend) func(func(tools.Spend) error) error {
		return func(work func(tools.Spend) error) error {
			return work(func(units uint64) error { spent += units; return spend(units) })
		}
	}
	params := fmt.Appendf(nil, `{"arguments":%s}`, arguments)
	call := func(ctx context.Context, spend tools.Spend) string {
		spent = 0
		reply := c.CallUpstream(ctx, nil, route.ScriptCall{Server: "s", Tool: "t", Params: params, Compute: compute(spend)})
		return string(reply.Result) + string(reply.Error)
	}
	free := func(uint64) error { return nil }
	got := call(t.Context(), free)
	if want := `the nearest is mock 1 (s.t): params.a[0]: want 0, got 1`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if least, most := uint64(len(arguments)*decodeWork), uint64(len(arguments)*1000); spent < least || spent > most {
		t.Errorf("%d units, want %d to %d", spent, least, most)
	}
	whole := spent
	if got := call(t.Context(), tools.AtMost(whole/2)); !strings.Contains(got, "ended before its answer") || spent > whole {
		t.Errorf("%s, %d units", got, spent)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	times := 0
	got = call(ctx, func(uint64) error {
		if times++; times == 5 {
			cancel(errors.New("enough"))
		}
		return nil
	})
	if !strings.Contains(got, "ended before its answer: enough") || times != 5 {
		t.Errorf("%s after %d pieces of work", got, times)
	}
	if n := len(c.Unmatched()); n != 1 {
		t.Errorf("%d calls without an answer", n)
	}
}

// TestTooManyValues checks that what has too many values to be decoded matches only the same text.
func TestTooManyValues(t *testing.T) {
	many := `{"a":[` + strings.Repeat("1,", maxValues) + `1]}`
	long := `{"a":1` + strings.Repeat("0", maxNumber+1) + `}`
	c := made(t,
		Interaction{Server: "s", Tool: "t", Params: []byte(many), Returns: []byte(`"many"`)},
		Interaction{Server: "s", Tool: "t", Params: []byte(long), Match: Subset, Returns: []byte(`"long"`)},
		Interaction{Server: "s", Tool: "t", Params: []byte(`{"a":"` + strings.Repeat(",", maxValues) + `"}`), Returns: []byte(`"commas"`)},
	)
	for arguments, want := range map[string]string{
		many: "many", " " + many: "many", long: "long",
		strings.Replace(many, "1", "1.0", 1):                    "only the same text matches",
		`{"b":1, "a":"` + strings.Repeat(",", maxValues) + `"}`: "only the same text matches",
		`{"a":"` + strings.Repeat(",", maxValues) + `"}`:        "commas",
	} {
		if got := call(t.Context(), c, "s", "t", arguments); !strings.Contains(got, want) {
			t.Errorf("%.50s: %.300s, want %s", arguments, got, want)
		}
	}
	for _, m := range c.Unmatched() {
		if m.Params != nil {
			t.Errorf("%d bytes are kept", len(m.Params))
		}
	}
}
