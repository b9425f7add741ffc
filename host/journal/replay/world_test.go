package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// world has two servers, demo and other, with tools of many kinds. It is used for one run.
type world struct {
	servers []string                // in addition to those two
	cancel  context.CancelCauseFunc // cancels the request
	count   sync.Map                // calls by tool
}

func (*world) Ready(context.Context, route.Origin, string) error { return nil }

func (w *world) Remembered(string) bool { return false }

func (w *world) Disabled() []string { return nil }

// Resolve knows every tool except nosuch, and hides secret.
func (w *world) Resolve(server, tool string, exact bool) (string, string, error) {
	switch {
	case !slices.Contains(w.Servers(), server):
		return "", "", &catalog.NotFoundError{Kind: "server", Name: server}
	case tool == "nosuch":
		return server, "", &catalog.NotFoundError{Kind: "tool", Server: server, Name: tool, Nearest: []string{"such"}}
	case tool == "secret":
		return server, tool, &catalog.HiddenError{Server: server, Tool: tool}
	}
	return server, strings.ReplaceAll(tool, "_", "-"), nil
}

func (w *world) Servers() []string { return append([]string{"demo", "other"}, w.servers...) }

func (*world) InputSchema(_, tool string) []byte {
	switch tool {
	case "slow": // a real delay
		return fmt.Appendf(nil, `{"type":"object","properties":{"x":{"pattern":"^%s$"}}}`, strings.Repeat("x?", 400))
	case "strict":
		return []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	}
	return nil
}

func (w *world) CallUpstream(ctx context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	server, tool, params := call.Server, call.Tool, call.Params
	args, _ := wire.Get(params, "arguments")
	result := func(format string, a ...any) wire.Reply { return wire.Reply{Result: fmt.Appendf(nil, format, a...)} }
	switch tool {
	case "broken":
		return result(`{"isError":true,"content":[{"type":"text","text":"not found: no such issue"}],"structuredContent":{"code": 404}}`)
	case "rpc":
		return wire.Reply{Error: []byte(`{"code":-32000,"message":"no <such> thing","data":[1.50, 9007199254740993]}`)}
	case "search":
		return result(`{"_meta":{"x/y":1},"structuredContent":{"items": [{"id": 9007199254740993, "title": "first", "user": {"login": "ann"}},
			{"id": 2, "title": "second & <third>", "user": {"login": "bob"}}], "total_count": 2}}`)
	case "text":
		return result(`{"content":[{"type":"text","text":" {\"a\" : 1.10, \"b\":\"\\u003c\"} "}]}`)
	case "version":
		return result(`{"content":[{"type":"text","text":"1.10"}]}`)
	case "image":
		return result(`{"content":[{"type":"text","text":"an image"},{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}]}`)
	case "bad":
		return wire.Reply{Result: []byte("{\"content\":[{\"type\":\"text\",\"text\":\"a\xffb\"}]}")}
	case "big":
		return result(`{"structuredContent":{"text":"%s"}}`, strings.Repeat("x", 100_000))
	case "flaky":
		n, _ := w.count.LoadOrStore(tool, new(int))
		if *n.(*int)++; *n.(*int) < 3 {
			return result(`{"isError":true,"content":[{"type":"text","text":"try again"}]}`)
		}
	case "wait":
		<-ctx.Done()
		return result(`{"content":[]}`)
	case "cancel": // the client cancels its request
		w.cancel(&wire.CancelledError{Params: []byte(`{"requestId":1,"reason":"enough"}`)})
		<-ctx.Done()
		return result(`{"content":[]}`)
	case "cancel-later": // the same, while the script computes
		w.cancel(&wire.CancelledError{})
		return result(`{"structuredContent":{"late":true}}`)
	case "echo":
		return result(`{"structuredContent": %s }`, args)
	}
	return result(`{"structuredContent":{"server":%q,"tool":%q,"arguments":%s}}`, server, tool, args)
}

// savedTools implements compose.Saved, by name.
type savedTools map[string]tools.Definition

func (s savedTools) Get(name string) (tools.Definition, error) {
	def, ok := s[name]
	if !ok {
		return tools.Definition{}, tools.ErrNotFound
	}
	return def, nil
}

func (s savedTools) List() (all []tools.Definition) {
	for _, def := range s {
		all = append(all, def)
	}
	return all
}

// definition returns a saved tool.
func definition(name, code string) tools.Definition {
	return tools.Definition{
		Name: name, Description: "does a job", Code: code,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
	}
}

// job is a run to record.
type job struct {
	name   string
	def    tools.Definition
	eval   bool
	params string // arguments
	meta   string // of the request
	saved  savedTools
	limits sandbox.Limits
	time   time.Duration
	debug  bool
	// servers are available in addition to demo and other.
	servers []string
	// upstreams, if set, replaces the world.
	upstreams compose.Upstreams
	catalog   compose.Catalog
	// open, if set, replaces journal.Open.
	open func(journal.Begin) (*journal.Run, error)
}

// record runs a job live and returns its record.
func record(t testing.TB, j job) journal.Record {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w := &world{cancel: cancel, servers: j.servers}
	open := j.open
	if open == nil {
		open = func(b journal.Begin) (*journal.Run, error) { return journal.Open(b), nil }
	}
	var root *journal.Run
	opts := compose.Options{
		Sandbox: sandboxtest.Guest(t), Catalog: w, Upstreams: w, Saved: j.saved, Log: quiet(), Timeout: j.time, Limits: j.limits, Debug: j.debug,
		UndoTimeout: 50 * time.Millisecond, AgentTools: builtin.Mentioned,
		Journal: func(b journal.Begin) (*journal.Run, error) {
			r, err := open(b)
			if b.Parent == nil {
				root = r
			}
			return r, err
		},
	}
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute
	}
	if j.upstreams != nil {
		opts.Upstreams, opts.Catalog = j.upstreams, j.catalog
	}
	c := compose.New(opts)
	if j.params == "" {
		j.params = "{}"
	}
	request := fmt.Appendf(nil, `{"name":"job","arguments":%s}`, j.params)
	if j.meta != "" {
		request = fmt.Appendf(nil, `{"name":"job","arguments":%s,"_meta":%s}`, j.params, j.meta)
	}
	call := route.Call{Params: request, Progress: func(params []byte) {
		if bytes.Contains(params, []byte("cancel now")) {
			cancel(&wire.CancelledError{})
		}
	}}
	if j.eval {
		c.Eval(ctx, j.def.Code, []byte(j.params), call)
	} else {
		c.CallSaved(ctx, j.def, call)
	}
	if root == nil {
		t.Fatalf("%s: no run", j.name)
	}
	return root.Record()
}

// replayed returns the report of a replay of rec.
func replayed(t testing.TB, rec journal.Record, opts Options) Report {
	t.Helper()
	report, err := Run(t.Context(), sandboxtest.Guest(t), rec, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func call(server, tool, arguments string) abi.ToolCall {
	return abi.ToolCall{Server: server, Tool: tool, Arguments: json.RawMessage(arguments)}
}
