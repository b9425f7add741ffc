package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// SourceError describes an error in the source of a script, and the place of the error.
type SourceError struct {
	Message  string
	Position *abi.Position // nil when unknown
}

func (e *SourceError) Error() string {
	if e.Position == nil {
		return e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Position.File, e.Position.Line, e.Position.Column, e.Message)
}

// Check parses and resolves a script in the sandbox, with the limits of a run:
// untrusted source is never parsed by the host. The error is a *SourceError if the
// script is wrong, otherwise a *Failure.
func (c *Composer) Check(ctx context.Context, name, code string) error {
	out, err := c.inspectWith(ctx, abi.OpCheck, name, code, c.names(code), c.budget(tools.Limits{}), nil)
	if err == nil && out.Err != nil {
		return &SourceError{Message: out.Err.Message, Position: out.Err.Position}
	}
	return err
}

// inspectWith runs OpCheck or OpLint in the sandbox with these script names of servers, these
// limits, and the fuel of an account, nil for none. The error is a *Failure.
func (c *Composer) inspectWith(ctx context.Context, op abi.Op, name, code string, servers []string, b budget, account *sandbox.Account) (sandbox.Outcome, error) {
	if f := c.ready(ctx); f != nil {
		return sandbox.Outcome{}, f
	}
	limited, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	out, err := c.cfg.Sandbox.Run(limited, sandbox.Run{
		Request: abi.Request{Op: op, Name: name, Code: code, Servers: servers, AgentTools: c.agentTools(code)},
		Limits:  b.Limits,
		Account: account,
		Caller:  noCalls{},
	})
	var limit *sandbox.LimitError
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil:
		return out, contextFailure(ctx)
	case limited.Err() != nil:
		return out, b.timeoutFailure("checking the script took", out)
	case errors.As(err, &limit):
		f := b.failure(limit, out)
		f.Message = "checking the script: " + f.Message
		return out, f
	}
	c.cfg.Log.Error("checking a script failed inside the sandbox", "tool", name, "err", err)
	return out, &Failure{Type: abi.ErrInternal, Message: "the sandbox failed while checking the script (the server's log says why)"}
}

// noCalls is the sandbox.Caller of a script that is only checked. No call reaches a server.
type noCalls struct{}

func (noCalls) CallTools(_ context.Context, calls []abi.ToolCall) []abi.Answer {
	answers := make([]abi.Answer, len(calls))
	for i, c := range calls {
		answers[i].Err = &abi.CallError{
			Type: abi.ErrPermission, Server: c.Server, Tool: c.Tool, Message: "a script that is checked makes no calls",
		}
	}
	return answers
}
func (noCalls) Undo(_ context.Context, c abi.ToolCall) *abi.CallError {
	return &abi.CallError{Type: abi.ErrPermission, Server: c.Server, Tool: c.Tool, Message: "a script that is checked makes no calls"}
}
func (noCalls) Commit()                         {}
func (noCalls) Log(abi.LogLevel, string) func() { return nil }
func (noCalls) Progress(abi.Progress)           {}
