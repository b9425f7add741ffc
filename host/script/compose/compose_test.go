package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // parallel tests wait for the disk
	sandboxtest.Main(m)
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// fakeSandbox runs a Go function instead of a script.
type fakeSandbox func(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error)

// Run finds that a script can call everything.
func (f fakeSandbox) Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
	if r.Request.Op != abi.OpLint {
		return f(ctx, r)
	}
	found := abi.Lint{Derived: true}
	for _, server := range append(slices.Clone(r.Request.Servers), abi.Composites) {
		found.Reach = append(found.Reach, abi.Reached{Server: server})
	}
	result, err := json.Marshal(found)
	return sandbox.Outcome{Result: result}, err
}

func (f fakeSandbox) Compute(ctx context.Context, name string, account *sandbox.Account) *sandbox.Compute {
	return new(sandbox.Sandbox).Compute(ctx, name, account)
}

func (f fakeSandbox) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

// upstreams answers calls by "server.tool" and records their params.
type upstreams struct {
	tools map[string]func(ctx context.Context, params []byte, progress func([]byte)) wire.Reply

	mu   sync.Mutex
	seen []string
}

func (u *upstreams) Ready(context.Context, route.Origin, string) error { return nil }

func (u *upstreams) CallUpstream(ctx context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	server, tool, params, progress := call.Server, call.Tool, call.Params, call.Progress
	u.mu.Lock()
	u.seen = append(u.seen, server+" "+string(params))
	u.mu.Unlock()
	return u.tools[server+"."+tool](ctx, params, progress)
}

func (u *upstreams) calls() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen
}

func (u *upstreams) add(name string, f func(ctx context.Context, params []byte, progress func([]byte)) wire.Reply) {
	if u.tools == nil {
		u.tools = map[string]func(context.Context, []byte, func([]byte)) wire.Reply{}
	}
	u.tools[name] = f
}

func (u *upstreams) result(name, result string) {
	u.add(name, func(context.Context, []byte, func([]byte)) wire.Reply { return wire.Reply{Result: []byte(result)} })
}

func (u *upstreams) failure(name, rpcError string) {
	u.add(name, func(context.Context, []byte, func([]byte)) wire.Reply { return wire.Reply{Error: []byte(rpcError)} })
}

// block adds a tool to report each call and then wait for the call's context.
func (u *upstreams) block(name string) (called chan struct{}) {
	called = make(chan struct{}, 100)
	u.add(name, func(ctx context.Context, _ []byte, _ func([]byte)) wire.Reply {
		called <- struct{}{}
		<-ctx.Done()
		return wire.Reply{Result: route.ErrorResult("stopped")}
	})
	return called
}

// catalog lists all tools of u, and the hidden tool "secret" of each server.
func (u *upstreams) catalog() *catalog.Catalog {
	names := map[string][][]byte{}
	for _, full := range slices.Sorted(maps.Keys(u.tools)) {
		server, tool, _ := bytes.Cut([]byte(full), []byte("."))
		names[string(server)] = append(names[string(server)], fmt.Appendf(nil, `{"name":%q}`, tool))
	}
	var sources []catalog.Source
	for _, server := range slices.Sorted(maps.Keys(names)) {
		sources = append(sources, catalog.Source{Server: server, Prefix: server + "__",
			Exposes: func(string) bool { return true }, Hides: func(tool string) bool { return tool == "secret" }})
	}
	c := catalog.New(sources, quiet(), func(*catalog.Scope, wire.Surface, []byte) {})
	for server, tools := range names {
		c.SetUpstream(server, wire.Tools, append(tools, []byte(`{"name":"secret"}`)), nil)
	}
	return c
}

func composer(s Sandbox, u *upstreams, change ...func(*Options)) *Composer {
	cfg := Options{Sandbox: s, Upstreams: u, Catalog: u.catalog(), Log: quiet(), Timeout: time.Minute}
	for _, f := range change {
		f(&cfg)
	}
	c := New(cfg)
	c.progressInterval = 0 // every notification is sent
	return c
}

func saved(code string) tools.Definition {
	return tools.Definition{Name: "job", Description: "does a job", InputSchema: json.RawMessage(`{"type":"object"}`), Code: code}
}

func params(arguments string) []byte {
	return fmt.Appendf(nil, `{"name":"job","arguments":%s}`, arguments)
}

// get returns the raw value at path in a reply's result.
func get(t testing.TB, r wire.Reply, path ...string) string {
	t.Helper()
	if r.Error != nil || !json.Valid(r.Result) {
		t.Fatalf("no good result: %s%s", r.Result, r.Error)
	}
	v, _ := wire.Get(r.Result, path...)
	return string(v)
}

func ok(result string) (sandbox.Outcome, error) {
	return sandbox.Outcome{Result: []byte(result), Memory: 9 << 20}, nil
}

func toolCall(server, tool, arguments string) abi.ToolCall {
	return abi.ToolCall{Server: server, Tool: tool, Arguments: json.RawMessage(arguments)}
}
