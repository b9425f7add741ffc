// Package builtin implements the built-in tools. With them agents save, list, show, delete and try
// composite tools, find the tools for scripts, check servers, and look into runs. Start with table
// in table.go: a new tool is a row there, with a definition and a handler in a file of the tool's
// own. Tests name the documents with lists of the tools.
//
// Arguments are raw bytes, so schemas from agents keep the order of their members and every digit
// of their numbers. Answers are a CallToolResult with structuredContent and the same JSON as text.
// Failures have the form of failed composite calls.
package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
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
	// Lint returns warnings about probable mistakes in a valid script.
	LintTool(ctx context.Context, def tools.Definition) ([]compose.Warning, error)
	// Permissions derives what a tool may call, and returns the bounds that are wrong.
	Permissions(ctx context.Context, def tools.Definition) (*tools.Permissions, []tools.Violation, error)
	// CheckLimits returns a tool's own limits above the configured ones.
	CheckLimits(l tools.Limits) []tools.Violation
	Eval(ctx context.Context, code string, params []byte, call route.Call) wire.Reply
	// Compute begins work for a client, within the memory of the client's runs.
	Compute(ctx context.Context, name string, call route.Call) *sandbox.Compute
}

// Catalog knows all tool names and their owners; see catalog.Catalog.
type Catalog interface {
	Owner(name string) (catalog.Entry, bool)
	Servers() []string
}

// Options configure a Handler.
type Options struct {
	Store    Store
	Composer Composer
	Catalog  Catalog
	// Switches says which tools are switched off.
	Switches config.Builtins
	// Directory has the tools for search_tools and describe_tool. A nil Directory switches both
	// off.
	Directory Directory
	// SavedInScripts allows scripts to call saved tools, as tools.name.
	SavedInScripts bool
	// Health checks servers for health_check. A nil Health switches the tool off.
	Health Health
	// Problems returns sentences on faults of other parts than servers; nil: unknown.
	Problems func() []string
	// DryRunner makes a Runner of scripts like Composer, but answers the scripts' calls with mocks,
	// over the catalog of real tools (cassette.Cassette.Over), and opens records with open. A nil
	// DryRunner switches test_tool off.
	DryRunner func(mocks *cassette.Cassette, open func(journal.Begin) (*journal.Run, error)) Runner
	// Planner makes and applies plans for plan_tool and apply_plan. A nil Planner switches both
	// off.
	Planner Planner
	// Gate decides whether plans may be applied; nil: all of them.
	Gate Gate
	// Runs are the runs for list_runs and show_run. A nil Runs switches both off.
	Runs Runs
	// Labels knows the labels of sessions; nil: nothing has labels.
	Labels Labels
	// Hides reports whether the subject of a target of permissions is hidden from clients; nil:
	// nothing is.
	Hides func(target string) bool
	// Settled, when set, waits until every upstream has started, until an agent has waited long
	// enough, or until ctx ends.
	Settled func(ctx context.Context)
	// Availability knows the unavailable servers; nil: unknown.
	Availability Availability
	// OnChange is called after a tool was saved or deleted and before the call is answered. On
	// return, the catalog must show the change.
	OnChange func()
	// Searching and Reading are the turns of tools that search the catalog, and of tools that read
	// the journal; nil: no limit.
	Searching, Reading *budget.Turns
	// Log gets a line for each change; nil is slog.Default().
	Log *slog.Logger
}

// Handler answers calls of the built-in tools. A Handler is safe for concurrent use.
type Handler struct {
	cfg       Options
	entries   []catalog.Entry
	tools     map[string]builtin // by name
	directory *directory         // nil for none
}

// builtin is an enabled tool.
type builtin struct {
	*builtinTool
	schema *tools.Schema // of the arguments
}

// New makes a Handler. Definitions list the script names of the servers, so the
// catalog must know all servers already; their tools may be added later.
func New(cfg Options) *Handler {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	h := &Handler{cfg: cfg, tools: map[string]builtin{}}
	if cfg.Directory != nil {
		h.directory = &directory{Directory: cfg.Directory, saved: cfg.SavedInScripts}
	}
	full, same := wire.Quote(codeDescription(cfg.Catalog.Servers())), wire.Quote(sameCode)
	for _, t := range table() {
		if !t.on(&cfg) {
			continue
		}
		code := same
		if t.name == compose.EvalName { // which is always on
			code = full
		}
		def := t.define(t.name, code)
		schema, err := tools.CompileInputSchema(def.RawInputSchema, "inputSchema")
		if err != nil { // a bug in our schema
			panic(fmt.Sprintf("built-in tool %q: %v", t.name, err))
		}
		h.tools[t.name] = builtin{&t, schema}
		// Every session pays for the list, and agents read answers without a schema.
		def.RawOutputSchema = nil
		h.entries = append(h.entries, catalog.Entry{
			Name: t.name, Kind: catalog.Builtin, Definition: wire.Marshal(def), Saves: t.saves, Gated: t.gated,
		})
	}
	return h
}

// Entries returns the enabled tools, for the catalog.
func (h *Handler) Entries() []catalog.Entry { return h.entries }

// maxArgumentsWork limits the work of checking arguments. Checks against the schemas of built-in
// tools take linear time, and jsonvalue.MaxValues limits the checked values, so no message reaches
// the limit.
const maxArgumentsWork = 4_000_000_000

// CallTool answers a call of a built-in tool.
func (h *Handler) CallTool(ctx context.Context, name string, call route.Call) wire.Reply {
	b, ok := h.tools[name]
	if !ok { // the catalog and this Handler disagree
		return wire.Reply{Error: wire.Errorf(wire.CodeInternal, "built-in tool %q does not exist", name).Raw()}
	}
	if b.saves && !route.MaySave(call.Origin) {
		return h.failed(name, noSave(name))
	}
	args, ok := wire.Get(call.Params, "arguments")
	if !ok || string(args) == "null" {
		args = []byte("{}")
	}
	args, err := h.checked(ctx, b, args, call)
	if err != nil {
		return h.failed(name, err)
	}
	if b.turns != nil {
		turn, done, err := b.turns(&h.cfg).Take(ctx, budgetKey(call))
		if err != nil {
			return h.failed(name, &compose.Failure{Type: abi.ErrCancelled, Message: err.Error()})
		}
		defer done()
		ctx = turn
	}
	reply, err := b.call(h, ctx, args, call)
	var late *budget.TurnError
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return h.failed(name, &compose.Failure{Type: abi.ErrTimeout, Message: name + ": " + late.Error()})
	}
	if err != nil {
		return h.failed(name, err)
	}
	return reply
}

// checked returns the arguments of a call as the tool's schema wants them.
func (h *Handler) checked(ctx context.Context, b builtin, args []byte, call route.Call) ([]byte, error) {
	work := h.cfg.Composer.Compute(ctx, b.name, call)
	defer work.Close()
	args, err := b.schema.WithRoom(work).Coerce(args, tools.Until(ctx, maxArgumentsWork))
	var limit *sandbox.LimitError
	switch {
	case errors.As(err, &limit):
		return nil, &compose.Failure{Type: abi.ErrResource, Message: limits.Explain(limit), Limit: string(limit.Limit), Value: float64(limit.Value), Used: float64(limit.Used)}
	case err != nil:
		return nil, invalid(fmt.Sprintf("arguments of %q do not match its inputSchema", b.name), err)
	}
	return args, nil
}

// budgetKey returns the owner of the memory and the turns of a call.
func budgetKey(call route.Call) any {
	if call.Origin == nil {
		return nil
	}
	return route.BudgetKey(call.Origin.Session())
}

// noSave returns the failure for a client without the right to change saved tools.
func noSave(name string) *compose.Failure {
	return &compose.Failure{Type: abi.ErrPermission, Message: name + ": the token of this client may not save or delete tools (save = false in the configuration of the server)"}
}

// invalid returns the failure for arguments that do not match a schema.
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

// failed returns the answer to a failed call. An error other than a Failure comes from the store,
// for example because a disk is full or a folder cannot be written.
func (h *Handler) failed(tool string, err error) wire.Reply {
	var f *compose.Failure
	if !errors.As(err, &f) {
		h.cfg.Log.Error("built-in tool failed", "tool", tool, "err", err)
		f = &compose.Failure{Type: abi.ErrInternal, Message: err.Error()}
	}
	return wire.Reply{Result: f.Result()}
}

// answer returns a result with the raw JSON object structured, also as text.
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

// changed makes a change of the saved tools visible to agents.
func (h *Handler) changed() {
	if h.cfg.OnChange != nil {
		h.cfg.OnChange()
	}
}

// Labels remembers the labels (package flow) of the answers that sessions were given. Both methods
// take and return names, such as "private".
type Labels interface {
	// Of returns the labels of the session of an origin.
	Of(o route.Origin) []string
	// Give notes that the client of a session is given something with labels.
	Give(o route.Origin, names []string)
}

// labelled adds labels to a result. Without labels, reply is returned unchanged.
func (h *Handler) labelled(reply wire.Reply, call route.Call, names []string) wire.Reply {
	if len(names) == 0 {
		return reply
	}
	if h.cfg.Labels != nil {
		h.cfg.Labels.Give(call.Origin, names)
	}
	reply.Result = compose.Labelled(reply.Result, names)
	return reply
}

// addLabels adds the labels of the answers of a run to labels.
func addLabels(labels []string, rec *journal.Record) []string {
	for _, name := range rec.FlowLabels() {
		if !slices.Contains(labels, name) {
			labels = append(labels, name)
		}
	}
	return labels
}

// isWithheld reports whether the content of a run is hidden from clients, because information flow
// ended the run.
func isWithheld(r *journal.Record) bool { return r.Flows(journal.FlowDeny) }

// withheldRun returns the visible part of a withheld run, the same as in the run's reply.
func withheldRun(r *journal.Record) shownRun {
	f := compose.WithheldFailure(r)
	return shownRun{
		Run: r.ID, Tool: r.Definition.Name, Started: stamp(r.Start), Outcome: string(abi.ErrPermission), Calls: []shownCall{}, Logs: []string{},
		Error: f.Error(), Hint: "What the run did is withheld. The user of mcp-metatool can see it: mcp-metatool runs show " + r.ID,
	}
}
