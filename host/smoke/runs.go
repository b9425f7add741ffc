package smoke

import (
	"context"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

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
