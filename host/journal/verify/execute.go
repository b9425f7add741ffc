package verify

import (
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/replay"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// differsError is the error of a run that differs when executed again, or cannot be executed here.
type differsError struct{ text string }

func (e *differsError) Error() string { return e.text }

// execute executes a run again and compares.
func (o *Options) execute(ctx context.Context, rec *journal.Record, report *Report) error {
	report.Guest, report.Here = rec.Guest, sandbox.GuestDigest()
	if rec.Any(func(r *journal.Record) bool { return r.Guest != report.Here }) {
		return &differsError{fmt.Sprintf("the run was not executed again: the guest of the run is %s, and this program has %s (use the version of mcp-metatool with the guest of the run, as printed by mcp-metatool version --guest)", rec.Guest, report.Here)}
	}
	again, err := replay.Run(ctx, o.Sandbox, *rec, replay.Options{Limits: o.Limits, Log: o.Log})
	if err != nil {
		return err
	}
	report.Notes, report.Compared, report.Fuel = again.Notes, again.Compared, again.Recorded.Fuel
	report.Redacted = again.Verdict == replay.IdenticalRedacted
	switch {
	case again.Verdict != replay.Identical && again.Verdict != replay.IdenticalRedacted:
		return &differsError{"executed again, the run differs:\n" + strings.TrimRight(again.Text(), "\n")}
	case again.Cut || again.Short:
		return &differsError{"executed again, the run ends before the record"}
	}
	report.executed(&again)
	return nil
}
