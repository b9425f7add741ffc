// Package replay runs recorded runs again, offline: package compose runs the script in the sandbox,
// and recorded answers replace upstreams. A run depends only on recorded data. So a differing
// replay means that the code, the guest, the host or the record has changed, and the report shows
// the place. Begin with Run and Report; Compare compares two records.
//
// Calls are matched by their sequence number. Called saved tools run again too, with the recorded
// definitions and answers. Neither a clock nor a network matters. Records can be hostile: a wrong
// record shows as a difference, and a replay is bounded by the options, by lower limits in the
// record, and by the context.
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
	// Code, if set, runs in place of the recorded script, with the same params. The same calls get
	// the same answers.
	Code *string
	// Saved, if set, is the currently saved tool. The report notes whether the tool has changed
	// since the run.
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

	select { // Elapsed then covers only the replay
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
