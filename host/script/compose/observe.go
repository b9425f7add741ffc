package compose

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Observer sees runs, for telemetry. An Observer is safe for concurrent use and must not block.
type Observer interface {
	// BeginRun is called when a run begins: of a saved tool (also when called by a script), or of
	// code. origin is the origin of the request; nil for none. The run and its calls get the
	// context returned by BeginRun. end is called once, with the record of the run when the run is
	// over.
	BeginRun(ctx context.Context, tool, id string, origin route.Origin) (inner context.Context, end func(journal.Record))
}

// observe tells the observer, if set, that the run begins. The run continues with the returned
// context.
func (r *run) observe(ctx context.Context) context.Context {
	if r.cfg.Observer == nil {
		return ctx
	}
	ctx, r.observed = r.cfg.Observer.BeginRun(ctx, r.tool, r.journal.ID(), r.origin)
	return ctx
}
