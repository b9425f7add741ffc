package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// upstreamSchema returns the compiled schema of the arguments of an upstream's tool. The result is
// nil without a schema or if the schema does not compile; then only the server checks the
// arguments.
func (c *Composer) upstreamSchema(server, tool string, raw []byte, turn tools.Turn) *tools.Schema {
	if len(raw) == 0 {
		return nil
	}
	first := false
	schema, err := c.cfg.Schemas.Any(raw, "inputSchema", func(units uint64) (end func()) {
		if first = true; turn == nil {
			return func() {}
		}
		return turn(units)
	})
	if err != nil && first {
		c.cfg.Log.Debug("arguments of a tool are not checked: its schema cannot be used", "upstream", server, "tool", tool, "err", err)
	}
	return schema
}

// turn returns a function that waits for a slot to compute, if the work is long, and returns the
// function to release the slot. The work costs no fuel, because the work is done once for many
// runs. After ctx the function does not wait.
func (c *Composer) turn(ctx context.Context, tool string) tools.Turn {
	return func(units uint64) (end func()) {
		work := c.cfg.Sandbox.Compute(ctx, tool, nil)
		_ = work.Spend(units)
		return work.Close
	}
}

// checkMetaOf returns the mistake in the script's _meta.
func checkMetaOf(t *stack.Request) *abi.CallError {
	if t.Meta == nil {
		return nil
	}
	if len(t.Meta) > maxMeta {
		return t.Fail(abi.ErrValidation, fmt.Sprintf("meta of %d bytes, more than %d", len(t.Meta), maxMeta))
	}
	if err := wire.MetaShape.Check(t.Meta); err != nil {
		return t.Fail(abi.ErrValidation, display.ClipSize("meta: "+err.Error(), maxCallMessage))
	}
	return nil
}

// limitReached returns the error for a call whose work has reached a limit of the run.
func limitReached(t *stack.Request, limit *sandbox.LimitError) *abi.CallError {
	failed := t.Fail(abi.ErrResource, limits.Explain(limit))
	failed.Limit = string(limit.Limit)
	return failed
}

// schemaRow refuses calls whose arguments do not match the tool's inputSchema. The row stands above
// the plan, which lists only possible calls.
type schemaRow struct {
	stack.Pass
	r *run
}

// Call implements stack.Handler. A compensation was checked at the registration.
func (s *schemaRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if !t.Undoes {
		if failed := s.r.checkCall(ctx, t); failed != nil {
			return stack.Answer{Err: failed}
		}
	}
	return s.Pass.Call(ctx, t)
}

// Undo implements stack.Handler. The script of a continued run gets the same answer as before.
func (s *schemaRow) Undo(ctx context.Context, t *stack.Request) *abi.CallError {
	if undoOf(t) == nil {
		if failed := s.r.checkCall(ctx, t); failed != nil {
			return failed
		}
	}
	return s.Pass.Undo(ctx, t)
}

// checkCall checks the arguments of a call against the tool's inputSchema, and the _meta. The error
// is for the script.
func (r *run) checkCall(ctx context.Context, t *stack.Request) *abi.CallError {
	if failed := checkMetaOf(t); failed != nil {
		return failed
	}
	schema := r.upstreamSchema(t.Server, t.Tool, r.cfg.Catalog.InputSchema(t.Server, t.Tool), r.turn(ctx, r.tool))
	if schema == nil {
		return nil
	}
	fuel, err := r.check(ctx, schema, func(schema *tools.Schema, spend tools.Spend) error {
		return schema.ValidateArguments(t.Arguments, spend)
	})
	r.tree.checked.Add(fuel)
	var limit *sandbox.LimitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ended(ctx, t, NotMade)
	case errors.As(err, &limit):
		return limitReached(t, limit)
	}
	failed := t.Fail(abi.ErrValidation, display.ClipSize("the arguments do not match the tool's inputSchema: "+err.Error(), maxCallMessage))
	var v *tools.ValidationError
	if errors.As(err, &v) {
		var details wire.Object
		details.Raw("violations", wire.Marshal(v.Violations[:min(len(v.Violations), maxShownViolations)]))
		failed.Details = validOrNil(details.Bytes())
	}
	return failed
}
