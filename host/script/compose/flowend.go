package compose

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
)

// discarded is the log of shadows: a shadow's log equals the log of the run.
var discarded = slog.New(slog.DiscardHandler)

// conclude finds out which labels the result of the run has. end is the outcome of the run, f the
// failure; nil if the run succeeded.
func (r *run) conclude(ctx context.Context, end journal.Outcome, f *Failure) *shadow.Conclusion {
	t := r.tree.flow
	if t == nil || r.replay != nil {
		return nil
	}
	rec := journal.Record{Logs: r.journal.Record().Logs, Outcome: end}
	if f != nil {
		rec.Outcome.Error, rec.Outcome.Result = f.Type, nil
	}
	c := t.Finish(ctx, &rec, isOver(context.Cause(ctx)))
	if c.Read != 0 {
		r.journal.Flow(journal.FlowRecord{What: journal.FlowResult, Label: c.Carried.String()})
	}
	r.labelSession(c.Carried)
	return &c
}

// isOver reports whether a run whose context has ended with the given cause is over: the run does
// not go on with the answer to a question, in another process, or after a restart. At a shutdown,
// no time is left to find anything out.
func isOver(cause error) bool {
	for _, other := range []error{errAsks, durable.ErrLost, durable.ErrSuspended, wire.ErrClosed} {
		if errors.Is(cause, other) {
			return false
		}
	}
	return true
}

// labelled is the information about labels in a result.
type labelled struct {
	carried flow.Labels
	known   bool // the run had labelled answers: without, nothing is said
	// cut leaves out the figures without a comparison with a shadow: the calls of the run, the
	// fuel, the memory and the time.
	cut bool
}

func (r *run) labelsOfResult() labelled {
	if r.concluded == nil || r.concluded.Read == 0 {
		return labelled{}
	}
	c := r.concluded
	return labelled{carried: c.Carried, known: true, cut: c.Carried != c.Read}
}

// withheld returns the denial because of which nothing of the run is shown; nil for none.
func (r *run) withheld() *denied {
	if r.concluded == nil || r.concluded.Denied == nil {
		return nil
	}
	return &denied{run: r.journal.ID(), Denial: *r.concluded.Denied, carried: r.concluded.Carried}
}

// denied is the reply for a run ended by information flow: nothing of the run but the id.
type denied struct {
	shadow.Denial
	run     string
	carried flow.Labels
}

// WithheldFailure returns the failure for clients of a run ended by information flow.
func WithheldFailure(rec *journal.Record) *Failure {
	d := recordedDenial(rec)
	return d.failure()
}

// WithheldLabels returns the labels that a withheld result may have.
func WithheldLabels(rec *journal.Record) []string { return recordedDenial(rec).carried.Names() }

// recordedDenial returns the first denial in a record with a denial.
func recordedDenial(rec *journal.Record) *denied {
	d := &denied{run: rec.ID}
	for i := len(rec.Flow) - 1; i >= 0; i-- {
		switch e := &rec.Flow[i]; e.What {
		case journal.FlowDeny:
			d.Message = e.Text
		case journal.FlowResult:
			d.carried = flow.ParseLabels(strings.Split(e.Label, ", "))
		}
	}
	return d
}

// recordedLabels is labelsOfResult for a record.
func recordedLabels(rec *journal.Record) labelled {
	read := flow.ParseLabels(rec.FlowLabels())
	for _, e := range rec.Flow {
		if e.What == journal.FlowResult {
			carried := flow.ParseLabels(strings.Split(e.Label, ", "))
			return labelled{carried: carried, known: true, cut: carried != read}
		}
	}
	return labelled{carried: read, known: read != 0}
}

// Labelled returns a raw result with labels in its _meta.
func Labelled(result []byte, names []string) []byte {
	with, err := wire.Set(result, flow.ParseLabels(names).Meta(), "_meta", flow.MetaKey)
	if err != nil { // the result is the proxy's own
		return result
	}
	return with
}

// ReasonFlow is the reason in the details of the failure of a run ended by information flow.
const ReasonFlow = "flow"

func (d *denied) failure() *Failure {
	return &Failure{Type: abi.ErrPermission, Message: d.Message, Reason: ReasonFlow, Run: d.run}
}

func (d *denied) reply() wire.Reply {
	f := d.failure()
	var structured, receipt, meta wire.Object
	structured.Raw("error", f.body())
	structured.Raw("logs", []byte("[]"))
	structured.Raw("toolCalls", []byte("[]"))
	receipt.NonEmpty("run", d.run)
	meta.Raw(ReceiptKey, receipt.Bytes())
	meta.Raw(flow.MetaKey, d.carried.Meta())
	return wire.Reply{Result: toolResult([][]byte{textBlock(wire.Quote(f.Text()))}, structured.Bytes(), true, meta.Bytes())}
}
