// Package builtin is the built-in tools: agents save, list, show, delete and
// try composite tools with them, and find the tools that scripts can call.
//
//	builtin.go      Handler: dispatch, arguments, answers
//	definitions.go  the tool definitions that agents see
//	dialect.go      what agents are told about the script language
//	save.go         save_tool and its checks; eval_starlark
//	read.go         list_saved_tools, show_saved_tool, delete_saved_tool
//	directory.go    the tools there are, read once for each state of the catalog
//	search.go       search_tools
//	describe.go     describe_tool
//	absent.go       servers that are not there, for both
//	instructions.go what models are told of the product
//	health.go       health_check
//	testtool.go     test_tool
//	runs.go         list_runs, show_run; runs_text.go: how runs are shown
//
// Arguments are taken as raw bytes, so schemas that agents save keep the order
// of their members and every digit of their numbers. Answers are a
// CallToolResult with structuredContent and the same JSON as text; failures
// have the shape of failed composite calls.
package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Store keeps saved tools; see tools.Store.
type Store interface {
	List() []tools.Definition
	Get(name string) (tools.Definition, error)
	Save(def tools.Definition) (saved tools.Definition, created bool, err error)
	Delete(name string) error
	Problems() []tools.Problem
}

// Composer checks and runs scripts; see compose.Composer.
type Composer interface {
	Check(ctx context.Context, name, code string) error
	// Lint says what an acceptable script probably does not mean.
	Lint(ctx context.Context, name, code string) ([]compose.Warning, error)
	// CheckLimits says which of a tool's own limits are above the
	// configuration's.
	CheckLimits(l tools.Limits) []tools.Violation
	Eval(ctx context.Context, code string, params []byte, call route.Call) wire.Reply
}

// Catalog knows who has which tool name; see catalog.Catalog.
type Catalog interface {
	Owner(name string) (catalog.Entry, bool)
	Servers() []string
}

// Options are what a Handler works with.
type Options struct {
	Store    Store
	Composer Composer
	Catalog  Catalog
	// Directory is what search_tools and describe_tool look into; nil: there are
	// no such tools.
	Directory Directory
	// SavedInScripts says that scripts can call saved tools, as tools.name.
	SavedInScripts bool
	// Health is what health_check asks; nil: there is no such tool.
	Health Health
	// Stage makes what runs scripts as Composer does, but with their calls answered
	// by mocks, over the catalog of real tools (cassette.Cassette.Over), and with
	// records that open makes; nil: there is no test_tool.
	Stage func(mocks *cassette.Cassette, open func(journal.Begin) (*journal.Run, error)) Stage
	// Runs are what list_runs and show_run look into; nil: there are no such
	// tools.
	Runs Runs
	// Settled, when set, waits until no upstream is starting any more, or for as
	// long as an agent shall wait for that, or for ctx.
	Settled func(ctx context.Context)
	// Absences tells of servers that are not there; nil: nobody knows.
	Absences Absences
	// OnChange is called after a tool was saved or deleted and before the
	// agent is told so: when it returns, the catalog must show the change.
	OnChange func()
	// Log gets a line for each change; nil is slog.Default().
	Log *slog.Logger
}

// Handler answers calls of the built-in tools. It is safe for concurrent use.
type Handler struct {
	cfg       Options
	entries   []catalog.Entry
	tools     map[string]*builtin
	directory *directory // nil for none
}

type builtin struct {
	schema *tools.Schema // of the arguments
	saves  bool          // it changes the saved tools
	// call gets arguments that match the schema. The error is a
	// *compose.Failure, or a fault of ours.
	call func(h *Handler, ctx context.Context, args []byte, call route.Call) (wire.Reply, error)
}

// New makes a Handler. The script names of the servers are told to agents, so
// the catalog must know all servers by now; their tools may come later.
func New(cfg Options) *Handler {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	h := &Handler{cfg: cfg, tools: map[string]*builtin{}}
	defined := definitions(cfg.Catalog.Servers())
	if cfg.Directory != nil {
		h.directory = &directory{Directory: cfg.Directory, saved: cfg.SavedInScripts}
		defined = append(defined, directoryDefinitions()...)
	}
	if cfg.Health != nil {
		defined = append(defined, healthDefinitions()...)
	}
	if cfg.Stage != nil {
		defined = append(defined, rehearsalDefinitions()...)
	}
	if cfg.Runs != nil {
		defined = append(defined, runsDefinitions()...)
	}
	for _, d := range defined {
		schema, err := tools.CompileInputSchema(d.tool.RawInputSchema, "inputSchema")
		if err != nil { // our own text
			panic(fmt.Sprintf("built-in tool %q: %v", d.tool.Name, err))
		}
		h.tools[d.tool.Name] = &builtin{schema: schema, saves: d.saves, call: d.call}
		h.entries = append(h.entries, catalog.Entry{
			Name: d.tool.Name, Kind: catalog.Builtin, Definition: wire.Marshal(d.tool), Saves: d.saves,
		})
	}
	return h
}

// Reserved is the built-in tool, be it switched on or not, that has that name or
// one that differs in case only, by Unicode's folding; "" for none. People and
// models would take the one for the other.
func Reserved(name string) string {
	for _, list := range [][]definition{
		definitions(nil), directoryDefinitions(), healthDefinitions(), rehearsalDefinitions(), runsDefinitions(),
	} {
		i := slices.IndexFunc(list, func(d definition) bool { return strings.EqualFold(d.tool.Name, name) })
		if i >= 0 {
			return list[i].tool.Name
		}
	}
	return ""
}

// Entries are the built-in tools for the catalog.
func (h *Handler) Entries() []catalog.Entry { return h.entries }

// maxArgumentsWork bounds the checking of arguments, which are within the limit
// on messages: our own schemas take linear time.
const maxArgumentsWork = 10_000_000_000

// CallTool answers a call of a built-in tool.
func (h *Handler) CallTool(ctx context.Context, name string, call route.Call) wire.Reply {
	b, ok := h.tools[name]
	if !ok { // the catalog and this handler disagree
		return wire.Reply{Error: wire.Errorf(wire.CodeInternal, "built-in tool %q does not exist", name).Raw()}
	}
	if b.saves && !route.MaySave(call.Origin) {
		return h.failed(name, noSave(name))
	}
	args, ok := wire.Get(call.Params, "arguments")
	if !ok || string(args) == "null" {
		args = []byte("{}")
	}
	args, err := b.schema.Coerce(args, tools.Until(ctx, maxArgumentsWork))
	if err != nil {
		return h.failed(name, invalid(fmt.Sprintf("arguments of %q do not match its inputSchema", name), err))
	}
	reply, err := b.call(h, ctx, args, call)
	if err != nil {
		return h.failed(name, err)
	}
	return reply
}

// noSave is the failure of a client that may not change the saved tools.
func noSave(name string) *compose.Failure {
	return &compose.Failure{Type: abi.ErrPermission, Message: name + ": the token of this client may not save or delete tools (save = false in the configuration of the server)"}
}

// invalid is the failure for arguments that a schema refuses.
func invalid(message string, err error) *compose.Failure {
	f := &compose.Failure{Type: abi.ErrValidation, Message: message}
	var v *tools.ValidationError
	if errors.As(err, &v) {
		f.Violations = v.Violations
	} else {
		f.Message += ": " + err.Error()
	}
	return f
}

// failed is the answer to a call that failed. An error that is no Failure is
// one of the store, worded for people: a disk that is full, a folder that may
// not be written.
func (h *Handler) failed(tool string, err error) wire.Reply {
	var f *compose.Failure
	if !errors.As(err, &f) {
		h.cfg.Log.Error("built-in tool failed", "tool", tool, "err", err)
		f = &compose.Failure{Type: abi.ErrInternal, Message: err.Error()}
	}
	return wire.Reply{Result: f.Result()}
}

// answer is a result with structured, a raw JSON object, also as text.
func answer(structured []byte) (wire.Reply, error) {
	var text, compact bytes.Buffer
	if err := json.Compact(&compact, structured); err != nil {
		return wire.Reply{}, fmt.Errorf("answer: %w", err)
	}
	if err := json.Indent(&text, structured, "", "  "); err != nil {
		return wire.Reply{}, fmt.Errorf("answer: %w", err)
	}
	return wire.Reply{Result: compose.TextResult(text.String(), compact.Bytes())}, nil
}

// changed makes a change visible to agents.
func (h *Handler) changed() {
	if h.cfg.OnChange != nil {
		h.cfg.OnChange()
	}
}
