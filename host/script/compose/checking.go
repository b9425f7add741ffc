package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// check checks values with the fuel and the time of the run, and with a slot if needed. The result
// is the fuel used. The memory of the values is the run's.
func (r *run) check(ctx context.Context, schema *tools.Schema, check func(*tools.Schema, tools.Spend) error) (fuel uint64, err error) {
	return r.compute(ctx, func(c *sandbox.Compute) error { return check(r.matching(schema).WithRoom(c), c.Spend) })
}

// compute does work with the fuel, the time and the memory of the run.
func (r *run) compute(ctx context.Context, work func(*sandbox.Compute) error) (fuel uint64, err error) {
	c := r.cfg.Sandbox.Compute(ctx, r.tool, r.tree.account)
	defer c.Close()
	err = work(c)
	return c.Spent(), err
}

// Compute begins work for a client outside of a run, for example checking the arguments of a
// built-in tool. The memory is taken from the account of the client's runs.
func (c *Composer) Compute(ctx context.Context, name string, call route.Call) *sandbox.Compute {
	return c.cfg.Sandbox.Compute(ctx, name, sandbox.NewAccount(c.cfg.Limits, ownerOf(call)))
}

// ownerOf returns the owner of the memory of a call.
func ownerOf(call route.Call) any {
	if call.Origin == nil {
		return nil
	}
	return route.BudgetKey(call.Origin.Session())
}

// checkFailure returns the failure for a value that could not be checked or does not match the
// schema. The parameter what describes the value; limited is the context of the script.
func (r *run) checkFailure(ctx, limited context.Context, what string, err error) *Failure {
	var limit *sandbox.LimitError
	switch {
	case ctx.Err() != nil:
		return contextFailure(ctx)
	case limited.Err() != nil:
		return r.budget.timeoutFailure("the script, with the checking of values, ran", sandbox.Outcome{})
	case errors.As(err, &limit): // of fuel, or of the memory of all runs
		return r.budget.failure(limit, sandbox.Outcome{Fuel: limit.Value})
	}
	return violation(what, err)
}

// arguments validates the arguments of a call, converts them to the types of the schema where the
// conversion loses nothing, and fills in defaults.
func (r *run) arguments(ctx, limited context.Context, def tools.Definition, args []byte) ([]byte, *Failure) {
	schema, err := def.Input(r.turn(limited, r.tool))
	if err != nil {
		return nil, &Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("saved tool %q: %v (save the tool again)", def.Name, err)}
	}
	if depth(args) > abi.MaxDepth {
		return nil, tooDeep(fmt.Sprintf("arguments of %q", def.Name))
	}
	var params []byte
	_, err = r.check(limited, schema, func(schema *tools.Schema, spend tools.Spend) (err error) {
		if params, err = schema.Coerce(args, spend); err == nil {
			params, err = schema.Fill(params, spend)
		}
		return err
	})
	if err != nil {
		return nil, r.checkFailure(ctx, limited, fmt.Sprintf("arguments of %q do not match its inputSchema", def.Name), err)
	}
	if depth(params) > abi.MaxDepth {
		return nil, tooDeep(fmt.Sprintf("arguments of %q, with defaults", def.Name))
	}
	return params, nil
}

func (r *run) checkResult(ctx, limited context.Context, def tools.Definition, result []byte) *Failure {
	schema, err := def.Output(r.turn(limited, r.tool))
	if err != nil {
		return &Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("saved tool %q: %v (save the tool again)", def.Name, err)}
	}
	if schema == nil {
		return nil
	}
	if _, err = r.check(limited, schema, func(schema *tools.Schema, spend tools.Spend) error { return schema.Validate(result, spend) }); err != nil {
		return r.checkFailure(ctx, limited, fmt.Sprintf("result of %q does not match its outputSchema", def.Name), err)
	}
	return nil
}
