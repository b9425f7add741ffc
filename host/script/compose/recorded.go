package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// FindRun returns the outcome of a run of a client, and of the runs that continue it, from their
// records on disk. The error is route.ErrNoRun for an unknown run. If this process makes the run,
// the end may not be on disk yet. A durable run without a record here, since another replica has
// begun the run, is found by the log of the run.
func (c *Composer) FindRun(id string) (route.RecordedRun, error) {
	if c.cfg.Chain == nil {
		return route.RecordedRun{}, route.ErrNoRun
	}
	chain, open, err := c.chain(id)
	rec := &chain.Last
	switch {
	case errors.Is(err, durable.ErrLogGone):
		return c.withoutLog(id, chain, err), nil
	case errors.Is(err, journal.ErrNotFound), err == nil && rec.Parent != nil:
		return route.RecordedRun{}, route.ErrNoRun
	case err != nil:
		return route.RecordedRun{}, err
	}
	found := route.RecordedRun{
		ID: rec.ID, Runs: chain.Runs, Start: chain.Start, Changed: rec.Start, Status: protocol.TaskWorking,
		Kind: catalog.Builtin, Name: rec.Definition.Name, Params: callParams(rec),
	}
	if rec.Saved {
		found.Kind = catalog.Composite
	}
	switch {
	case !rec.Done && chain.Abandoned && !open:
		found.Status = protocol.TaskFailed
		found.Reply.Error = wire.Errorf(wire.CodeInternal, "%s did not end: the process that ran it has ended (run %s)", rec.Definition.Name, rec.ID).Raw()
	case !rec.Done:
	case rec.Outcome.Asks:
		found.Status, found.Reply = protocol.TaskInputRequired, inputRequired(rec.ID, openQuestions(rec))
	default:
		found.Status, found.Reply.Result = protocol.TaskCompleted, c.recordedResult(rec)
		if rec.Outcome.Error == abi.ErrCancelled {
			found.Status = protocol.TaskCancelled
		}
	}
	if rec.Done {
		found.Changed = rec.Start.Add(rec.Duration)
	}
	if rec.Any(func(r *journal.Record) bool { return r.Redacted }) {
		found.Note = "this is from the journal, where secrets are masked"
	}
	return found, nil
}

// withoutLog returns a durable run without a future end, since the log is gone for the reason why.
// A run begun by another replica has no record here.
func (c *Composer) withoutLog(id string, chain journal.Chain, why error) route.RecordedRun {
	start, _ := journal.TimeOf(id)
	found := route.RecordedRun{ID: id, Runs: 1, Start: start, Changed: start, Status: protocol.TaskFailed, Kind: catalog.Composite}
	if rec := &chain.Last; rec.ID != "" {
		found.ID, found.Runs, found.Start, found.Changed = rec.ID, chain.Runs, chain.Start, rec.Start
		found.Name, found.Params = rec.Definition.Name, callParams(rec)
	}
	found.Reply.Error = wire.Errorf(wire.CodeInternal, "%v", why).Raw()
	return found
}

// openTime bounds how long the store is asked whether a run is open.
const openTime = 5 * time.Second

// chain returns the records of a run, and whether the run is a durable run that goes on. The end is
// written before the log is removed: without end and log, the end has been written meanwhile, or
// will never be written.
func (c *Composer) chain(id string) (chain journal.Chain, open bool, err error) {
	// This program asks for the outcome of a run.
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	for range 2 {
		chain, err = c.cfg.Chain(id)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			log, failed := c.cfg.Durable.Look(ctx, id)
			if failed == nil && log.State != nil {
				chain = journal.Chain{Last: log.State.Record, Runs: log.State.Owners, Start: log.State.Record.Start}
				return chain, true, nil
			}
			if failed = cmp.Or(failed, log.Fate(), log.Err); !errors.Is(failed, durable.ErrNotFound) {
				return chain, false, failed
			}
		case err != nil || chain.Last.Done || !chain.Abandoned:
			return chain, false, err
		default:
			if _, open, err = c.cfg.Durable.OpenAs(ctx, id, chain.Last.ID); open || err != nil {
				return chain, open, err
			}
		}
	}
	return chain, false, err
}

// callParams returns the params of a request to the tool of a run.
func callParams(rec *journal.Record) []byte {
	arguments := rec.Params
	if !rec.Saved {
		var code wire.Object
		code.Text("code", rec.Definition.Code)
		code.Raw("params", rec.Params)
		arguments = code.Bytes()
	}
	var params wire.Object
	params.Text("name", rec.Definition.Name)
	params.Raw("arguments", arguments)
	if rec.Meta != nil {
		params.Raw("_meta", rec.Meta)
	}
	return params.Bytes()
}

// openQuestions returns the last questions of a run, or of its saved tools, to the client.
func openQuestions(rec *journal.Record) (all []*question) {
	for _, in := range rec.Inputs {
		if in.Answer != nil || in.Name == "" || in.Call < 1 || in.Call > len(rec.Calls) {
			continue
		}
		if !in.Unsure && stack.AnsweredBefore(&rec.Calls[in.Call-1]) {
			continue // the server did not need the answer
		}
		params, err := questionParams(wire.Call{Method: in.Method, Params: in.Params})
		if err == nil {
			all = append(all, &question{name: in.Name, method: in.Method, params: params})
		}
	}
	for i := range rec.Calls {
		if below := rec.Calls[i].Answer.Run; below != nil {
			all = append(all, openQuestions(below)...)
		}
	}
	slices.SortStableFunc(all, func(a, b *question) int { return cmp.Compare(a.number(), b.number()) })
	return all
}

// number returns the number in the name of a question.
func (q *question) number() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(q.name, questionName))
	return n
}

// recordedResult returns the CallToolResult of a run for a client of the stateless era.
func (c *Composer) recordedResult(rec *journal.Record) []byte {
	if rec.Flows(journal.FlowDeny) {
		return recordedDenial(rec).reply().Result
	}
	to := audience{
		revision: protocol.Stateless.Newest(), detail: c.cfg.Calls,
		structured: c.cfg.Structured || rec.Definition.OutputSchema != nil, labels: recordedLabels(rec),
	}
	return runResult(*rec, recordedFailure(rec.Outcome.Failure), to)
}

// recordedFailure reads the failure of a run from the record; nil for none.
func recordedFailure(raw []byte) *Failure {
	if raw == nil {
		return nil
	}
	f := readFailure(raw)
	f.recorded = raw
	f.Stack, _ = wire.GetString(raw, "stack")
	details, _ := wire.Get(raw, "details")
	figure := func(name string) int { v, _ := number(details, name); return int(v) }
	if file, ok := wire.GetString(details, "file"); ok {
		source, _ := wire.GetString(details, "source")
		f.Position = &abi.Position{File: file, Line: figure("line"), Column: figure("column"), Source: source}
	}
	if list, ok := wire.Get(details, "violations"); ok && details != nil {
		items, _ := wire.Elements(list)
		for _, item := range items {
			pointer, _ := wire.GetString(item, "pointer")
			message, _ := wire.GetString(item, "message")
			f.Violations = append(f.Violations, tools.Violation{Pointer: pointer, Message: message})
		}
	}
	list, _ := wire.Get(details, "compensation")
	items, _ := wire.Elements(list)
	for _, item := range items {
		f.Compensation = append(f.Compensation, recordedUndo(item))
	}
	return f
}

// recordedUndo reads an item of compensationList.
func recordedUndo(raw []byte) (u undoOutcome) {
	u.server, _ = wire.GetString(raw, "server")
	u.tool, _ = wire.GetString(raw, "tool")
	u.arguments, _ = wire.Get(raw, "params")
	if undone, _ := wire.Get(raw, "undone"); string(undone) != "true" {
		class, _ := wire.GetString(raw, "error", "type")
		message, _ := wire.GetString(raw, "error", "message")
		u.err = &abi.CallError{Type: abi.ErrorType(class), Message: message}
	}
	return u
}

// AbandonRun records that a run with questions for the client will not go on: AbandonRun begins a
// run that continues the asking run, and ends the new run at once.
func (c *Composer) AbandonRun(id string) error {
	rec, err := c.asked.find(id)
	if errors.Is(err, errForgotten) && c.cfg.Recorded != nil {
		rec, err = c.cfg.Recorded(id)
	}
	if err == nil {
		err = c.claim(id)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	begin := rec.Begin
	begin.Continues, begin.ContinuesHead = rec.ID, rec.Head
	begin.Elapsed, begin.First = newResumed(&rec, nil).elapsed(), firstOf(&rec)
	run, err := c.cfg.Journal(begin)
	if err != nil {
		return err
	}
	f := &Failure{Type: abi.ErrCancelled, Message: "cancelled by the client before it answered"}
	run.Close(journal.Outcome{Error: f.Type, Message: f.Message, Failure: f.body()})
	return nil
}
