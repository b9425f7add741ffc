package cassette

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

func marshal(v any) []byte { return wire.Marshal(v) }

// counter is an upstream that answers each call with the next number.
type counter struct{ n int }

func (*counter) Ready(context.Context, route.Origin, string) error { return nil }

func (c *counter) CallUpstream(_ context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	tool, params := call.Tool, call.Params
	c.n++
	if tool == "fail" {
		return wire.Reply{Error: []byte(`{"code":-1,"message":"failed with hunter2secret"}`)}
	}
	return wire.Reply{Result: fmt.Appendf(nil, `{"content":[], "structuredContent":{"n":%d,"got":%s}}`, c.n, argumentsOf(params))}
}

const recordedScript = `
def caught(f):
    try:
        return f()
    except ToolError as e:
        return e.message
return [s.t(a=1), s.t(a=1), s.t(), caught(lambda: s.fail()), s.u(key=params.get("k", "v"))]`

// TestRecorder checks that a script does the same when it runs on a recording of its own
// calls, read back from a file.
func TestRecorder(t *testing.T) {
	cat := made(t, anything("t"), anything("u"), anything("fail"))
	r := NewRecorder(&counter{}, nil)
	live, _ := wire.Get(run(t, cat, r, recordedScript), "result")
	c := made(t, r.Interactions()...)
	read, err := Parse("r", c.Format())
	if err != nil {
		t.Fatal(err)
	}
	replayed, _ := wire.Get(run(t, read, read, recordedScript), "result")
	if !bytes.Equal(live, replayed) || live == nil {
		t.Errorf("live   %s\nreplay %s", live, replayed)
	}
	if len(read.Unused()) != 0 || len(read.Unmatched()) != 0 {
		t.Errorf("unused %v, unmatched %v", read.Unused(), read.Unmatched())
	}
	if !strings.Contains(string(c.Format()), "\ntimes = 1\n\n[[interaction]]\ntool = \"s.t\"\nparams_json = '{\"a\":1}'\n") {
		t.Errorf("file:\n%s", c.Format())
	}
}

func TestRecorderRedacts(t *testing.T) {
	const secret = "hunter2secret"
	redact := func(text []byte) []byte {
		text = bytes.ReplaceAll(text, []byte(secret), []byte("****"))
		return bytes.ReplaceAll(text, []byte("31337"), []byte("****"))
	}
	r := NewRecorder(&counter{}, redact)
	args := `{"a":"` + secret + `","n":31337,"m":313370,"hunter2\u0073ecret":["x` + secret + `",1.50,null],"t":"{\"k\":\"` + secret + `\"}","u":true}`
	if reply := call(t.Context(), r, "s", "t", args); !strings.Contains(reply, secret) {
		t.Errorf("the caller got %s", reply)
	}
	call(t.Context(), r, "s", "fail", `{}`)
	all := r.Interactions()
	if len(all) != 2 {
		t.Fatalf("%d interactions", len(all))
	}
	want := `{"a":"****","n":"****","m":"****0","****":["x****",1.50,null],"t":"{\"k\":\"****\"}","u":true}`
	if string(all[0].Params) != want {
		t.Errorf("params = %s\nwant     %s", all[0].Params, want)
	}
	if file := made(t, all...).Format(); bytes.Contains(file, []byte("hunter2")) {
		t.Errorf("secret in\n%s", file)
	}
}

// canceller is an upstream that cancels the run during a call.
type canceller struct {
	counter
	cancel context.CancelFunc
}

func (e *canceller) CallUpstream(ctx context.Context, o route.Origin, call route.ScriptCall) wire.Reply {
	if call.Tool == "last" {
		e.cancel()
	}
	return e.counter.CallUpstream(ctx, o, call)
}

// TestRecorderKeepsAnswers checks that a cancelled call is not recorded.
func TestRecorderKeepsAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := NewRecorder(&canceller{cancel: cancel}, nil)
	call(ctx, r, "s", "first", `{}`)
	call(ctx, r, "s", "last", `{}`)
	var names []string
	for _, i := range r.Interactions() {
		names = append(names, i.Tool)
	}
	if !slices.Equal(names, []string{"first"}) {
		t.Errorf("kept %q", names)
	}
}

func TestRedactJSON(t *testing.T) {
	upper := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("x"), []byte("\"\xff")) }
	for _, tt := range []struct{ raw, want string }{
		{`{}`, `{}`},
		{` { "a" : [ 1 , "b" ] , "c" : { } } `, `{"a":[1,"b"],"c":{}}`},
		{`{"x":["x",{"x":1}],"y":"x"}`, `{"\"\ufffd":["\"\ufffd",{"\"\ufffd":1}],"y":"\"\ufffd"}`},
		{`{"a":1,"a":"x"}`, `{"a":1,"a":"\"\ufffd"}`},
		{"{\"a\":\"\xff\"}", `{"a":"�"}`},
		{`{"a":"\ud800"}`, `{"a":"\ud800"}`},
	} {
		if got := redactJSON([]byte(tt.raw), upper); string(got) != tt.want {
			t.Errorf("%s: %s, want %s", tt.raw, got, tt.want)
		}
	}
}

func anything(tool string) Interaction {
	return Interaction{Server: "s", Tool: tool, Returns: []byte(`1`)}
}
