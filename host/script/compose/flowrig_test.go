package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// secret is in the answers of mail, and must be nowhere else.
const secret = "s3cr3t-of-mail"

// flowTools are the tools of the tests: their definitions, and their answers.
var flowTools = map[string]struct {
	definition string
	answer     func(r *flowRig, args []byte) string
}{
	"mail.list": {`{"outputSchema":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"subject":{"type":"string"},"body":{"type":"string"}}}},"annotations":{"readOnlyHint":true}}`,
		func(r *flowRig, _ []byte) string { return r.mails }},
	"web.fetch": {`{"outputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`, func(r *flowRig, _ []byte) string { return fmt.Sprintf(`{"text":%q}`, r.page) }},
	"chat.post": {`{"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`, func(r *flowRig, _ []byte) string {
		r.posts++
		return fmt.Sprintf(`{"n":%d,"draft":%q}`, r.posts, r.draft)
	}},
	"chat.count":    {`{"annotations":{"readOnlyHint":true}}`, func(r *flowRig, _ []byte) string { return fmt.Sprintf(`{"n":%d}`, r.posts) }},
	"chat.draft":    {`{}`, func(r *flowRig, args []byte) string { r.draft = string(args); return `{}` }},
	"chat.other":    {`{}`, func(*flowRig, []byte) string { return `{}` }},
	"bank.transfer": {`{}`, func(*flowRig, []byte) string { return `{"done":true}` }},
	"notes.set":     {`{}`, func(r *flowRig, args []byte) string { r.note = string(args); return `{}` }},
	"notes.get":     {`{"annotations":{"readOnlyHint":true}}`, func(r *flowRig, _ []byte) string { return fmt.Sprintf(`{"note":%q}`, r.note) }},
	"desk.lookup": {`{"annotations":{"readOnlyHint":true}}`, func(r *flowRig, args []byte) string {
		r.lookups++
		return fmt.Sprintf(`{"found":%s}`, args)
	}},
	"desk.quota": {`{"annotations":{"readOnlyHint":true}}`, func(r *flowRig, _ []byte) string { return fmt.Sprintf(`{"used":%d}`, r.lookups) }},
	"chat.peek": {`{"annotations":{"readOnlyHint":true}}`, func(r *flowRig, _ []byte) string {
		r.draft += "." // a post shows how often post was called
		return `{}`
	}},
}

// flowRig makes runs with followed labels, with a real sandbox.
type flowRig struct {
	composer *Composer
	settings flow.Settings
	slots    *shadow.Slots
	shadows  atomic.Int64      // so far
	meta     map[string]string // _meta of the answers of tools

	mails, page, note, draft string
	posts, lookups           int

	mu        sync.Mutex
	calls     []string // "server.tool arguments"
	inherited map[string]flow.Labels
	saved     map[string]tools.Definition
	asked     []string // reasons
	allow     bool
	session   flowSession
	call      route.Call
	told      *listener
	progress  []string
	records   []*journal.Run
	calling   func(name string) // before a tool is called; nil: nothing
}

type flowSession struct {
	labels  flow.Labels
	flagged bool
}

func (s *flowSession) Label(set flow.Labels) { s.labels |= set }
func (s *flowSession) Flag()                 { s.flagged = true }
func (s *flowSession) Flagged() bool         { return s.flagged }

func newFlowRig(t testing.TB, change ...func(*flowRig, *Options)) *flowRig {
	t.Helper()
	r := &flowRig{
		mails: fmt.Sprintf(`[{"id":7,"subject":"hello","body":%q}]`, secret), page: "page", inherited: map[string]flow.Labels{},
		saved: map[string]tools.Definition{}, slots: shadow.NewSlots(100),
		settings: flow.Settings{
			Private: []string{"mail.*"}, Untrusted: []string{"web.*"}, Public: []string{"chat.*"}, Critical: []string{"bank.transfer"},
			Trusted: []string{"*"}, Action: flow.Deny, Again: flow.CompareAgain, MaxSinkCalls: 20, MaxShadows: 100, Timeout: time.Minute,
		},
	}
	box := sandboxtest.Guest(t)
	cfg := Options{Sandbox: box, Log: quiet(), Timeout: time.Minute, Upstreams: r, Catalog: r.catalog(), Saved: r, Journal: func(b journal.Begin) (*journal.Run, error) {
		run := journal.Open(b)
		r.records = append(r.records, run)
		return run, nil
	}}
	cfg.Confirm = func(_ context.Context, _ route.Origin, _ route.ScriptCall, _, reason string) error {
		r.asked = append(r.asked, reason)
		if r.allow {
			return nil
		}
		return fmt.Errorf("no")
	}
	r.told = &listener{revision: "2025-11-25", least: "info"}
	r.call = route.Call{Origin: r.told, Progress: func(params []byte) { r.progress = append(r.progress, string(params)) }}
	cfg.Listeners = r.told
	for _, f := range change {
		f(r, &cfg)
	}
	cfg.Flow = &Flow{
		Settings: r.settings, Sandbox: func() (Sandbox, error) { r.shadows.Add(1); return box, nil }, Slots: r.slots,
		Definitions: func() func(server, tool string) []byte { return cfg.Catalog.(*catalog.Catalog).Definition },
		Inherited:   func(context.Context) (map[string]flow.Labels, error) { return r.inherited, nil },
		Keep: func(_ context.Context, server string, set flow.Labels) error {
			r.inherited = flow.WithInherited(r.inherited, server, set)
			return nil
		},
		Session: func(route.Origin) shadow.Session { return &r.session },
	}
	r.composer = New(cfg)
	r.composer.progressInterval = 0
	return r
}

func (r *flowRig) catalog() *catalog.Catalog {
	byServer := map[string][][]byte{}
	for name, tool := range flowTools {
		server, own, _ := strings.Cut(name, ".")
		def, err := wire.Set([]byte(tool.definition), wire.Quote(own), "name")
		if err != nil {
			panic(err)
		}
		byServer[server] = append(byServer[server], def)
	}
	var sources []catalog.Source
	for server := range byServer {
		sources = append(sources, catalog.Source{Server: server, Prefix: server + "__", Exposes: func(string) bool { return true }, Hides: func(string) bool { return false }})
	}
	c := catalog.New(sources, quiet(), func(*catalog.Scope, wire.Surface, []byte) {})
	for server, defs := range byServer {
		c.SetUpstream(server, wire.Tools, defs, nil)
	}
	return c
}

// Ready and CallUpstream implement Upstreams.
func (r *flowRig) Ready(context.Context, route.Origin, string) error { return nil }

func (r *flowRig) CallUpstream(_ context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	args, _ := wire.Get(call.Params, "arguments")
	name := call.Server + "." + call.Tool
	r.calls = append(r.calls, name+" "+string(args))
	if r.calling != nil {
		r.calling(name)
	}
	answer := flowTools[name].answer(r, args)
	if text, ok := strings.CutPrefix(answer, "!"); ok {
		return wire.Reply{Result: route.ErrorResult(text)}
	}
	meta := ""
	if m := r.meta[name]; m != "" {
		meta = `"_meta":` + m + ","
	}
	return wire.Reply{Result: []byte(`{` + meta + `"content":[],"structuredContent":` + answer + `}`)}
}

// Get and List implement Saved.
func (r *flowRig) Get(name string) (tools.Definition, error) {
	if d, ok := r.saved[name]; ok {
		return d, nil
	}
	return tools.Definition{}, tools.ErrNotFound
}

func (r *flowRig) List() (all []tools.Definition) {
	for _, d := range r.saved {
		all = append(all, d)
	}
	return all
}

func (r *flowRig) save(name, code string) {
	r.saved[name] = tools.Definition{Name: name, Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`), Code: code}
}

// run runs a script, and returns the outcome.
func (r *flowRig) run(t testing.TB, code string) flowRun {
	t.Helper()
	r.calls, r.records, r.told.told, r.progress, r.posts, r.lookups = nil, nil, nil, nil, 0, 0
	before := r.composer
	reply := before.Eval(t.Context(), code, nil, r.call)
	if n := r.slots.Taken(); n != 0 {
		t.Errorf("%d slots are still taken", n)
	}
	out := flowRun{t: t, reply: reply, calls: r.calls, record: r.records[0].Record()}
	out.class, _ = wire.GetString(reply.Result, "structuredContent", "error", "type")
	out.message, _ = wire.GetString(reply.Result, "structuredContent", "error", "message")
	meta, _ := wire.Get(reply.Result, "_meta")
	out.labels, _ = flow.FromMeta(meta)
	return out
}

type flowRun struct {
	t              testing.TB
	reply          wire.Reply
	calls          []string
	class, message string
	labels         flow.Labels
	record         journal.Record
}

// sent returns the calls of a tool.
func (r flowRun) sent(tool string) (all []string) {
	for _, c := range r.calls {
		if args, ok := strings.CutPrefix(c, tool+" "); ok {
			all = append(all, args)
		}
	}
	return all
}

// denied checks that the run was ended, and that the reply has nothing of the run.
func (r flowRun) denied() {
	r.t.Helper()
	if r.class != "permission" {
		r.t.Fatalf("got %s", r.reply.Result)
	}
	if strings.Contains(string(r.reply.Result), secret) {
		r.t.Errorf("the reply has the secret: %s", r.reply.Result)
	}
	if !r.record.Flows(journal.FlowDeny) {
		r.t.Error("the record has no denial")
	}
}

func (r flowRun) passed() {
	r.t.Helper()
	if r.class != "" {
		r.t.Fatalf("got %s", r.reply.Result)
	}
}

// labelled checks that the run failed with the given class of error, and that the reply is labelled
// as private.
func (r flowRun) labelled(class string) {
	r.t.Helper()
	if r.class != class || !r.labels.Has(flow.Private) {
		r.t.Fatalf("labels %s: %s", r.labels, r.reply.Result)
	}
}
