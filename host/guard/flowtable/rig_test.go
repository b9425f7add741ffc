package flowtable

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// A rig is a Host with fake servers. It makes one run at a time.
type rig struct {
	host  *host.Host
	fakes *fakes
	log   *mcptest.Buffer
	// remembers are the labels that servers have got in earlier runs.
	remembers *host.ServerLabels
	last      lastRun
}

// lastRun is the record of the run that was the last to end. It implements compose.Observer.
type lastRun struct {
	mu  sync.Mutex
	rec journal.Record
}

func (l *lastRun) BeginRun(ctx context.Context, _, _ string, _ route.Origin) (context.Context, func(journal.Record)) {
	return ctx, func(rec journal.Record) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rec = rec
	}
}

// noticed reports whether the run has flagged its session: a call was not made, or shadows would
// have made more. had are the labels of its answers.
func (l *lastRun) noticed() (had []string, noticed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.FlowLabels(), slices.ContainsFunc([]string{journal.FlowDeny, journal.FlowUndo, journal.FlowShort}, l.rec.Flows)
}

// newRig starts a Host with saved tools. settings is TOML: the configuration without servers.
func newRig(t testing.TB, settings string, saved map[string]string) *rig {
	t.Helper()
	r := &rig{fakes: newFakes(), log: &mcptest.Buffer{}}
	dir := t.TempDir()
	store, err := tools.OpenStore(filepath.Join(dir, "tools"), tools.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(saved)) {
		_, _, err := store.Save(tools.Definition{Name: name, Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`), Code: saved[name]})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	text := settings + "\n[store]\ndir = '" + filepath.Join(dir, "tools") + "'\n" + r.fakes.listen(t)
	cfg, _, err := config.Parse(config.LoadOptions{
		Getenv: func(string) (string, bool) { return "", false },
		Home:   func() (string, error) { return dir, nil },
	}, "config.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r.host, err = host.New(cfg, host.Options{
		Version: "test", Clients: host.NoClient, Log: slog.New(slog.NewTextHandler(r.log, nil)), Sandbox: sandboxtest.Guest(t), Runs: &r.last,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.host.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r.host.Settle(t.Context())
	docs := files.Open(files.Options{Dir: cfg.Store.Dir, Log: slog.New(slog.DiscardHandler)})
	r.remembers = host.NewServerLabels(docs, docs.Close)
	t.Cleanup(func() {
		if err := r.remembers.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// An outcome is what one run has done.
type outcome struct {
	events []event
	result string // as JSON; "" if it failed
	failed string // the type of the error
	denied bool   // because of information flow
	// had are labels of the answers, and noticed says that the session is flagged.
	had     []string
	noticed bool
	reply   string // the whole result of the call
}

// sinks returns what the sinks of a label have got, in order.
func (o *outcome) sinks(label int) (all []string) {
	for _, e := range o.events {
		if e.call != "" && e.sinks&(1<<label) != 0 {
			all = append(all, e.call)
		}
	}
	return all
}

// story is what the servers have seen, one call or answer a line.
func (o *outcome) story() string {
	var b strings.Builder
	for _, e := range o.events {
		if e.call != "" {
			b.WriteString("\n  " + e.call)
		} else {
			b.WriteString("\n    " + e.tool + " answers " + e.answer)
		}
	}
	return b.String()
}

// forget makes the Host forget what earlier runs have written where.
func (r *rig) forget(t testing.TB) {
	t.Helper()
	all, err := r.remembers.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for server := range all {
		if _, err := r.remembers.Remove(t.Context(), server); err != nil {
			t.Fatal(err)
		}
	}
}

// run evaluates a script in a world, in a session of its own, as if there had been no run before
// but that of another script, "" for none.
func (r *rig) run(t testing.TB, w world, before, code string, params map[string]any) (o outcome) {
	t.Helper()
	r.forget(t)
	if params == nil {
		params = map[string]any{}
	}
	r.fakes.start(w)
	if before != "" {
		r.call(t, "eval_starlark", map[string]any{"code": before})
	}
	o.reply = r.call(t, "eval_starlark", map[string]any{"code": code, "params": params})
	o.events = r.fakes.end()
	if raw, ok := wire.Get([]byte(o.reply), "structuredContent", "result"); ok {
		o.result = string(raw)
	}
	o.failed, _ = wire.GetString([]byte(o.reply), "structuredContent", "error", "type")
	reason, _ := wire.GetString([]byte(o.reply), "structuredContent", "error", "details", "reason")
	o.denied = reason == "flow"
	o.had, o.noticed = r.last.noticed()
	if o.failed == "" && o.result == "" { // content blocks
		content, _ := wire.Get([]byte(o.reply), "content")
		o.result = string(content)
	}
	return o
}

// call calls one of our tools in a session of its own, and returns the result.
func (r *rig) call(t testing.TB, tool string, args map[string]any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := r.host.Serve(ctx, inR, outW)
		inR.Close()
		outW.Close()
		served <- err
	}()
	c := mcptest.NewStdio(outR, inW, mcptest.ClientOptions{})
	defer func() {
		_ = c.Close(ctx)
		<-served // the error may be that the client has left
	}()
	if _, err := c.Initialize(ctx, `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"table","version":"1"}}`); err != nil {
		t.Fatal(err)
	}
	e, err := c.Request(ctx, "1", "tools/call", string(compact(map[string]any{"name": tool, "arguments": args})))
	if err != nil || e.Msg.Result == nil {
		t.Fatalf("%s: %v %s\n%s\n%s", tool, err, e.Raw, r.log, args["code"])
	}
	return string(e.Msg.Result)
}
