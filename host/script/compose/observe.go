package compose

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Observer sees runs, for telemetry. It is safe for concurrent use and must not block.
type Observer interface {
	// BeginRun is called when a run begins: of a saved tool (also one that a script
	// calls), or of code. origin is that of the request; nil for none. The run and its
	// calls get the context that BeginRun returns. end is called once, with the record of
	// the run when it is over.
	BeginRun(ctx context.Context, tool, id string, origin route.Origin) (inner context.Context, end func(journal.Record))
}

// observe tells the observer, if there is one, that the run begins. The run continues
// with the context that it returns.
func (r *run) observe(ctx context.Context) context.Context {
	if r.cfg.Observer == nil {
		return ctx
	}
	ctx, r.observed = r.cfg.Observer.BeginRun(ctx, r.tool, r.journal.ID(), r.origin)
	return ctx
}
