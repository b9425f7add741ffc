// Package replay runs recorded runs again, offline: in the sandbox, by package
// compose itself, with the record's answers in place of the world. A run is a pure
// function of what its record has; so a replay that comes to something else tells
// that the code, the guest, the host or the record is another one, and where.
//
//	replay.go   Run
//	report.go   what it finds, and that as text
//	reading.go  what a record says of how its run ended
//	strict.go   the tape of the recorded code: every step has to be the same
//	lenient.go  the tape of changed code: answers are found where they can be
//	differ.go   differences, readable
//	redacted.go comparing with what was redacted in a record
//	tighten.go  limits of records that are larger than ours
//
// Calls are matched by their sequence number. Saved tools that scripts have called
// are run again too, from the definitions in the record, with their own answers
// and the same account. Nothing depends on a clock or a network. Records can come
// from anywhere: what is wrong with one shows as a difference, and a replay is
// bounded by its options, by the limits in the record if they are lower, and by its
// context.
package replay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Options are what a replay can be asked for.
type Options struct {
	// Code, when set, runs in place of the recorded script: with the same params,
	// and the same answers where it makes the same calls.
	Code *string
	// Saved, when set, is the tool as it is saved now; the report says whether it
	// has changed.
	Saved *tools.Definition
	// Limits are the largest that the replay runs under; see [AtMost]. Those of the
	// record only tighten them. Zero values mean the defaults.
	Limits sandbox.Limits
	// Log is for faults of the sandbox; nil is none.
	Log *slog.Logger
}

// Run replays a run. The error is that of the context, or why the sandbox cannot
// run anything; all else is in the report.
func Run(ctx context.Context, box compose.Sandbox, rec journal.Record, opts Options) (Report, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &session{guest: sandbox.GuestDigest(), most: opts.Limits.WithDefaults()}
	s.introduce(&rec, opts)

	var changed *lenient
	var take *compose.Take
	if opts.Code != nil {
		changed = newLenient(s, &rec, "")
		take = &compose.Take{Begin: s.begin(rec.Begin), Tape: changed}
		take.Definition.Code, take.AgentTools = *opts.Code, builtin.Mentioned(*opts.Code)
	} else {
		take = s.takeOf(&rec, newStrict(s, &rec, ""))
	}

	select { // so that what is measured is the replay
	case <-box.Ready():
	case <-ctx.Done():
	}
	start := time.Now()
	c := compose.New(compose.Options{Sandbox: box, Log: opts.Log, Debug: debugged(&rec)})
	replayed, err := c.Replay(ctx, *take)
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("replay of run %s: %w", rec.ID, context.Cause(ctx))
	}
	if err != nil {
		return Report{}, fmt.Errorf("replay of run %s: %w", rec.ID, err)
	}
	report := s.report(&rec, &replayed)
	report.Elapsed = time.Since(start)
	if changed != nil {
		report.judge(changed, &rec, &replayed)
	}
	return report, nil
}
