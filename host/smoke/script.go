package smoke

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// anyObject is the inputSchema of a script without a definition.
const anyObject = `{"type":"object"}`

// savedTools are the tools in the store of the file's configuration, read once. The store is
// neither created nor changed.
type savedTools struct {
	ctx      context.Context // of the run
	cfg      *config.Config
	disabled bool // do not read the store
	log      *slog.Logger

	once  sync.Once
	tools []tools.Definition
	err   error
}

// all returns the saved tools; none without a store.
func (s *savedTools) all() ([]tools.Definition, error) {
	s.once.Do(func() { s.tools, s.err = s.read() })
	return s.tools, s.err
}

func (s *savedTools) read() ([]tools.Definition, error) {
	if s.disabled {
		return nil, nil
	}
	return host.ListTools(s.ctx, s.cfg, s.log)
}

// List implements compose.Saved.
func (s *savedTools) List() []tools.Definition {
	list, _ := s.all() // after an error, no saved tool can be called
	return list
}

// Get implements compose.Saved.
func (s *savedTools) Get(name string) (tools.Definition, error) {
	list, err := s.all()
	if err != nil {
		return tools.Definition{}, err
	}
	for _, d := range list {
		if d.Name == name {
			return d, nil
		}
	}
	return tools.Definition{}, fmt.Errorf("tool %q: %w", name, tools.ErrNotFound)
}

// scripts are the tools that scripts of a file can call as tools.NAME: the scripts of its checks,
// and saved tools.
type scripts struct {
	*savedTools
	checks []*Check

	once    sync.Once
	defined map[string]tools.Definition
}

// own returns the tools of the checks, by name. A check with an unreadable script has none. Of two
// equal names, the first wins.
func (s *scripts) own() map[string]tools.Definition {
	s.once.Do(func() {
		s.defined = map[string]tools.Definition{}
		for _, c := range s.checks {
			if c.Code.none() {
				continue
			}
			def, err := c.definition(s.savedTools)
			if _, twice := s.defined[def.Name]; err == nil && !twice {
				s.defined[def.Name] = def
			}
		}
	})
	return s.defined
}

// List implements compose.Saved.
func (s *scripts) List() []tools.Definition {
	own := s.own()
	list := slices.Collect(maps.Values(own))
	for _, d := range s.savedTools.List() {
		if _, over := own[d.Name]; !over {
			list = append(list, d)
		}
	}
	return list
}

// Get implements compose.Saved.
func (s *scripts) Get(name string) (tools.Definition, error) {
	if def, ok := s.own()[name]; ok {
		return def, nil
	}
	return s.savedTools.Get(name)
}

// mentions reports whether the code of a script, or of a script within its reach, contains a name.
// An unknown script counts as containing every name.
func (s *scripts) mentions(script, name string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	waiting, seen := []string{script}, map[string]bool{script: true}
	for len(waiting) > 0 {
		def, err := s.Get(waiting[0])
		waiting = waiting[1:]
		if err != nil || word.MatchString(def.Code) {
			return true
		}
		for _, other := range s.List() {
			if !seen[other.Name] && strings.Contains(def.Code, abi.Ident(other.Name)) {
				seen[other.Name] = true
				waiting = append(waiting, other.Name)
			}
		}
	}
	return false
}

// definition returns the composite tool of a check: its script, or a saved tool. The error is a
// *BrokenError.
func (c *Check) definition(s *savedTools) (tools.Definition, error) {
	plain := tools.Definition{Name: c.toolName(), InputSchema: json.RawMessage(anyObject)}
	switch code := c.Code; {
	case code.Inline != "":
		plain.Code = code.Inline
		return plain, nil
	case code.File != "" && filepath.Ext(code.File) == ".json":
		return c.fromFile(s.ctx, c.place(code.File))
	case code.File != "":
		text, err := readFile(s.ctx, c.place(code.File))
		plain.Code = string(text)
		return plain, err
	}
	name := cmp.Or(c.Code.Saved, c.Call)
	def, err := s.Get(name)
	if s.disabled {
		return def, broken(err, "the saved tool %q is not read with --offline (give the check a script's file)", name)
	}
	if errors.Is(err, tools.ErrNotFound) {
		var names []string
		for _, d := range s.List() {
			names = append(names, d.Name)
		}
		return def, broken(err, "no saved tool is called %q in %s%s", name, filepath.Join(host.SavedTools(s.cfg, "").Folder(), "tools"), hint(name, names))
	}
	if err != nil {
		return def, broken(err, "%v", err)
	}
	def.Name = cmp.Or(c.Call, def.Name)
	return def, nil
}

// fromFile reads a definition in the format of `tools export`.
func (c *Check) fromFile(ctx context.Context, at regular.Place) (tools.Definition, error) {
	text, err := readFile(ctx, at)
	if err != nil {
		return tools.Definition{}, err
	}
	def, err := tools.ParseFile(text)
	if err != nil {
		return def, broken(err, "%s is not the definition of a tool: %v", at, err)
	}
	def.Name = cmp.Or(c.Call, def.Name)
	return def, nil
}

// writeTool writes a tool's file into a store.
func writeTool(dir, name string, text []byte) error {
	dir = filepath.Join(dir, "tools")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), text, 0o600)
}

// readFile reads a script or a definition. The size limit is the limit of a saved tool.
func readFile(ctx context.Context, at regular.Place) ([]byte, error) {
	text, err := at.Read(ctx, tools.MaxFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, broken(err, "there is no file %s", at)
	case err != nil:
		return nil, broken(err, "%s cannot be read: %v", at, reason(err))
	case len(text) == 0:
		return nil, broken(nil, "%s is empty", at)
	}
	return text, nil
}

// mocked runs scripts of checks with mocked answers, without upstreams.
type mocked struct {
	scripts *scripts
	sandbox func() *sandbox.Sandbox
	log     *slog.Logger
	cfg     *config.Config
}

// call runs the script of a check.
func (m *mocked) call(ctx context.Context, c *Check, f *File) (*answer, error) {
	def, err := c.definition(m.scripts.savedTools)
	if err != nil {
		return nil, err
	}
	answers, err := c.Mock.cassette(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.offline:
		return nil, broken(err, "there is no cassette %s (smoke --record writes it, without --offline)", c.Mock.File)
	case errors.Is(err, fs.ErrNotExist):
		return nil, broken(err, "there is no cassette %s (smoke --record calls the servers and writes it)", c.Mock.File)
	case err != nil:
		return nil, broken(err, "%v", err)
	}
	box := m.sandbox()
	select { // the time for compiling is not part of the check
	case <-box.Ready():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var made runs
	composer := compose.New(compose.Options{
		Sandbox: box, Catalog: answers, Upstreams: answers, Saved: m.scripts, Log: m.log, AgentTools: builtin.Mentioned,
		Timeout: m.cfg.Execution.Timeout, Limits: host.RunLimits(m.cfg.Execution), Debug: m.cfg.Debug,
		Parallel: m.cfg.Execution.MaxParallel, UndoTimeout: m.cfg.Execution.UndoTimeout, Whole: true, Mocked: true,
		Moment: compose.MockMoment, Observer: &made,
	})
	var run asked
	a, err := runScript(run.within(ctx), c, f, func(ctx context.Context, call route.Call) []byte {
		return composer.CallSaved(ctx, def, call).Result
	})
	a.run = run.record()
	if missing := answers.Unmatched(); err == nil && !a.cancelled && len(missing) > 0 {
		a.unmocked = missing
	}
	return a, err
}

// runScript calls a composite tool without a session.
func runScript(ctx context.Context, c *Check, f *File, call func(ctx context.Context, call route.Call) []byte) (*answer, error) {
	limited, cancel := withTimeout(ctx, c, f)
	defer cancel()
	limited, cancel = c.withCancelAfter(limited)
	defer cancel()
	a := &answer{}
	var mu sync.Mutex // parallel calls of a script report progress concurrently
	begun := time.Now()
	a.result = call(limited, route.Call{Method: protocol.MethodToolsCall, Params: c.request(c.toolName()), Progress: func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		a.progress = append(a.progress, p)
	}})
	a.took = time.Since(begun)
	if limited.Err() == nil {
		return a, nil
	}
	err := c.endError(limited, a, context.Cause(limited))
	if a.cancelled {
		a.stopped = a.took - c.CancelAfter
	}
	return a, err
}

// unmockedText lists the calls without a mock.
func unmockedText(missing []*cassette.UnmatchedError) string {
	lines := make([]string, len(missing))
	for i, m := range missing {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "; ")
}

// Mock answers the calls of a script.
type Mock struct {
	// File is the path of the cassette; "" if the answers are in the check.
	File string
	// Inline are the answers in the check.
	Inline []cassette.Interaction

	place func(path string) regular.Place // the place of File
}

// mock reads the mocks of a check; nil if the upstreams answer.
func (r *fileReader) mock(s *config.Section) *Mock {
	switch {
	case !s.Has("mock"):
		s.Know("mock")
		return nil
	case s.IsString("mock"):
		text, ok := s.String("mock")
		if ok && text == "" {
			s.Problem("mock", "is empty (name a cassette, or leave it out)")
		}
		return &Mock{File: r.path(s, "mock", text), place: r.file.place}
	case !s.IsArray("mock"):
		s.Know("mock")
		s.Problem("mock", "has to be the name of a cassette or tables [[check.mock]]")
		return nil
	}
	m := &Mock{Inline: []cassette.Interaction{}}
	for i, table := range s.Sections("mock") {
		interaction, err := cassette.FromTOML(table.Values(), cassette.Subset)
		var field *cassette.FieldError
		switch {
		case errors.As(err, &field):
			table.Problem(field.Key, "%s", field.Text)
		case err != nil:
			table.Problem("", "%v", err)
		default:
			line, _ := table.Place("")
			interaction.From = fmt.Sprintf("%s:%d", r.file.Path, line)
			if line == 0 {
				interaction.From = fmt.Sprintf("mock %d", i+1)
			}
			m.Inline = append(m.Inline, interaction)
		}
	}
	return m
}

// cassette returns a new cassette for a run.
func (m *Mock) cassette(ctx context.Context) (*cassette.Cassette, error) {
	if m.File == "" {
		return cassette.New(m.Inline...)
	}
	return cassette.Read(ctx, m.place(m.File))
}

// noVariables is an environment without variables.
func noVariables(string) (string, bool) { return "", false }

// explainOffline changes the messages about unset variables: offline, none is read.
func explainOffline(err error) error {
	each := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // LoadWithin returns several errors like this
		each = joined.Unwrap()
	}
	for _, e := range each {
		var problem *config.Problem
		if errors.As(e, &problem) {
			notRead(problem)
		}
	}
	return err
}

// notRead changes the message of a problem about an unset variable.
func notRead(problem *config.Problem) {
	var unset *config.UnsetError
	if errors.As(problem, &unset) {
		problem.Text = "the variable " + unset.Var + " is not read with --offline"
	}
}

// explain returns the problem with the reason for offline files.
func (f *File) explain(problem *config.Problem) *config.Problem {
	if f.offline {
		notRead(problem)
	}
	return problem
}

// offline returns the check as run without servers: with its mocks, or with no mocks.
func (c *Check) offline(f *File) (*Check, error) {
	switch {
	case c.Mock != nil:
		return c, nil
	case !c.Code.none():
		unmocked := *c
		unmocked.Mock = &Mock{}
		return &unmocked, nil
	}
	if f.extends != "" {
		return nil, broken(nil, "it needs a server; with --offline, none is started, and %s is not read (give it a script and mocks)", f.extends)
	}
	return nil, broken(nil, "it needs a server, and none is started with --offline (give it a script and mocks)")
}

// runs is a compose.Observer that passes the records of runs to the checks that have asked for
// them, and remembers the called tools of upstreams. Concurrent use is safe.
type runs struct {
	mu     sync.Mutex
	called map[toolName]bool
}

// asked gets the record of the run that a check has asked for, however the run ends. The record is
// complete when the session, or the call without a session, has ended.
type asked struct {
	mu  sync.Mutex
	rec *journal.Record // nil if no script has run
}

type askedKey struct{}

// within returns the context of the session, or of the call without a session.
func (a *asked) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, askedKey{}, a)
}

func (a *asked) record() *journal.Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rec
}

// toolName is a tool of an upstream, by the real names of both.
type toolName struct{ server, tool string }

// BeginRun implements compose.Observer.
func (r *runs) BeginRun(ctx context.Context, _, _ string, _ route.Origin) (context.Context, func(journal.Record)) {
	return ctx, func(rec journal.Record) {
		if rec.Parent != nil {
			return // part of the record of the calling run
		}
		if by, ok := ctx.Value(askedKey{}).(*asked); ok {
			by.mu.Lock()
			by.rec = &rec
			by.mu.Unlock()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.note(rec.Calls)
	}
}

// note remembers which tools were called. r.mu is held.
func (r *runs) note(calls []journal.CallRecord) {
	for i := range calls {
		if nested := calls[i].Answer.Run; nested != nil {
			r.note(nested.Calls)
		} else {
			r.add(toolName{calls[i].Server, calls[i].Tool})
		}
	}
}

// add remembers that a tool was called. r.mu is held.
func (r *runs) add(name toolName) {
	if r.called == nil {
		r.called = map[toolName]bool{}
	}
	r.called[name] = true
}

// calledDirectly remembers that a check has called a tool without a script.
func (r *runs) calledDirectly(server, tool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(toolName{server, tool})
}

// wasCalled reports whether a tool was called, by a check or by a script.
func (r *runs) wasCalled(server, tool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.called[toolName{server, tool}]
}

// The limits of a run in a report.
const (
	maxRunCalls  = 200
	maxRunValues = 64 << 10 // bytes of all arguments and answers
)

// viewOf returns a run for a report: the first calls, without secrets. Nil stays nil.
func viewOf(rec *journal.Record, redactor *config.Redactor) *timeline.View {
	if rec == nil {
		return nil
	}
	return timeline.NewShortView(redacted(rec, redactor), maxRunValues, maxRunCalls)
}

// redacted returns a record without secrets in the parts that a View shows.
func redacted(rec *journal.Record, redactor *config.Redactor) *journal.Record {
	text := func(s string) string { s, _ = redactor.Text(s); return s }
	raw := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		b, _ = redactor.JSON(b)
		return b
	}
	out := *rec
	out.Definition.Code = text(rec.Definition.Code)
	out.Params = raw(rec.Params)
	out.Outcome.Message, out.Outcome.Failure = text(rec.Outcome.Message), raw(rec.Outcome.Failure)
	out.Outcome.Result = raw(rec.Outcome.Result)
	out.Logs = make([]journal.Entry, len(rec.Logs))
	for i, e := range rec.Logs {
		e.Text = text(e.Text)
		out.Logs[i] = e
	}
	out.Calls = make([]journal.CallRecord, len(rec.Calls))
	for i, c := range rec.Calls {
		c.Server, c.Tool = text(c.Server), text(c.Tool)
		c.Request.Arguments = raw(c.Request.Arguments)
		c.Answer.Result, c.Answer.RPCError = raw(c.Answer.Result), raw(c.Answer.RPCError)
		c.Answer.Meta, c.Answer.Value = raw(c.Answer.Meta), raw(c.Answer.Value)
		if e := c.Answer.Err; e != nil {
			safe := *e
			safe.Server, safe.Tool, safe.Message, safe.Details = text(e.Server), text(e.Tool), text(e.Message), raw(e.Details)
			c.Answer.Err = &safe
		}
		if c.Answer.Run != nil {
			c.Answer.Run = redacted(c.Answer.Run, redactor)
		}
		out.Calls[i] = c
	}
	return &out
}
