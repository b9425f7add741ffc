// Package replay runs recorded runs again, offline: package compose runs the script in the
// sandbox, and recorded answers take the place of upstreams. A run depends only on what is
// recorded. So if a replay differs, then the code, the guest, the host or the record has
// changed, and the report says where.
//
//	replay.go   Run
//	report.go   the report, and its text
//	reading.go  how a recorded run ended
//	strict.go   answers for the recorded code: every step must be the same
//	lenient.go  answers for changed code: it finds them where it can
//	differ.go   readable differences
//	redacted.go comparing with redacted records
//	compare.go  Compare: two recorded runs
//	tighten.go  limits in records that are larger than ours
//
// Calls are matched by their sequence number. Saved tools that the script called run again
// too, from the definitions in the record, with their own answers and on the same account.
// Nothing depends on a clock or a network. Records can come from anywhere: a wrong record
// shows as a difference, and a replay is bounded by its options, by lower limits in the
// record, and by its context.
package replay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Options configure a replay.
type Options struct {
	// Code, if set, runs in place of the recorded script, with the same params. Where it
	// makes the same calls it gets the same answers.
	Code *string
	// Saved, if set, is the tool as it is saved now. The report notes whether it has
	// changed since the run.
	Saved *tools.Definition
	// Limits bound the replay; see [AtMost]. The limits in the record can only be
	// lower. Zero values mean the defaults.
	Limits sandbox.Limits
	// Log receives faults of the sandbox; nil discards them.
	Log *slog.Logger
}

// Run replays a run. The error is the cause of ctx, or says why the sandbox cannot
// run anything; everything else is in the report.
func Run(ctx context.Context, box compose.Sandbox, rec journal.Record, opts Options) (Report, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &session{guest: sandbox.GuestDigest(), most: opts.Limits.WithDefaults()}
	s.addFirstNotes(&rec, opts)

	var changed *lenient
	var run *compose.ReplayRun
	if opts.Code != nil {
		changed = newLenient(s, &rec, "")
		run = &compose.ReplayRun{Begin: s.begin(rec.Begin), Recording: changed}
		run.Definition.Code, run.AgentTools = *opts.Code, builtin.Mentioned(*opts.Code)
	} else {
		run = s.replayRun(&rec, newStrict(s, &rec, ""))
	}

	select { // so that Elapsed covers only the replay
	case <-box.Ready():
	case <-ctx.Done():
	}
	start := time.Now()
	c := compose.New(compose.Options{Sandbox: box, Log: opts.Log, Debug: debugged(&rec)})
	replayed, err := c.Replay(ctx, *run)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("replay of run %s: %w", rec.ID, context.Cause(ctx))
	}
	if err != nil {
		return Report{}, fmt.Errorf("replay of run %s: %w", rec.ID, err)
	}
	report := s.report(&rec, &replayed)
	report.Elapsed = time.Since(start)
	if changed != nil {
		before := newLenient(&session{guest: s.guest, most: s.most}, &rec, "")
		if registers(&rec) {
			// The record has no commit, so the recorded code is run, too.
			if _, err := c.Replay(ctx, *before.replayRun(&rec, before)); err != nil {
				return Report{}, fmt.Errorf("replay of run %s: %w", rec.ID, err)
			}
		}
		report.complete(changed, before, &rec, &replayed)
	}
	return report, nil
}

// registers reports whether a run has registered compensations.
func registers(rec *journal.Record) bool {
	return rec.Any(func(r *journal.Record) bool { return len(r.Undos) > 0 })
}
