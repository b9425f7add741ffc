package builtin

import (
	"context"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// Planner makes and applies plans; see plan.Planner.
type Planner interface {
	Make(ctx context.Context, of plan.Subject, call route.Call) (*plan.File, *compose.Failure)
	// Find returns a plan made for the same principal.
	Find(ctx context.Context, id string, origin route.Origin) (*plan.File, error)
	// Check returns why a plan cannot be applied, and the policy's decision about its writes.
	Check(ctx context.Context, file *plan.File, origin route.Origin) (policy.Decision, error)
	Apply(ctx context.Context, file *plan.File, opts plan.ApplyOptions, call route.Call) (*plan.Outcome, error)
}

// Gate decides about calls of built-in tools whose arguments stand for other calls; see
// route.Router.
type Gate interface {
	PassBuiltin(ctx context.Context, call route.Call, name string, definition, arguments []byte, about policy.Decision) (asked bool, err error)
}

func planTool(name string, _ []byte) mcp.Tool {
	return define(name, "Plan a script",
		"List the writes of a saved tool (name) or script (code) without making them. apply_plan makes exactly these.",
		`{
			"type": "object",
			"properties": {"name": {"type": "string"}, "code": {"type": "string"}, "params": {"type": "object"}},
			"additionalProperties": false
		}`,
		`{"type": "object", "required": ["id", "digest", "expires", "writes"]}`,
		hints{readOnly: true, openWorld: true})
}

func applyTool(name string, _ []byte) mcp.Tool {
	return define(name, "Apply a plan",
		"Make the writes of a plan, once.",
		`{
			"type": "object",
			"properties": {
				"plan": {"type": "string"},
				"digest": {"type": "string"},
				"fresh": {"type": "boolean"}
			},
			"required": ["plan"],
			"additionalProperties": false
		}`,
		`{"type": "object", "required": ["plan", "run", "applied", "writes"]}`,
		hints{destructive: true, openWorld: true})
}

// plan makes a plan.
func (h *Handler) plan(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	var of plan.Subject
	of.Tool, _ = wire.GetString(args, "name")
	of.Code, _ = wire.GetString(args, "code")
	of.Params = []byte("{}")
	if params, ok := wire.Get(args, "params"); ok {
		of.Params = params
	}
	switch {
	case (of.Tool == "") == (of.Code == ""):
		return wire.Reply{}, &compose.Failure{Type: abi.ErrValidation, Message: "plan_tool takes a name or code, and not both"}
	case len(of.Code) > MaxCode:
		return wire.Reply{}, &compose.Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("code is %d bytes long (at most %d)", len(of.Code), MaxCode)}
	}
	if of.Tool != "" {
		if _, err := h.cfg.Store.Get(of.Tool); err != nil {
			return wire.Reply{}, h.notFound(of.Tool, err)
		}
	}
	call.Began = nil // see apply
	file, f := h.cfg.Planner.Make(ctx, of, call)
	if f != nil {
		return wire.Reply{}, f
	}
	return wire.Reply{Result: compose.TextResult(file.Text(), file.Short())}, nil
}

// apply applies a plan.
func (h *Handler) apply(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	id, _ := wire.GetString(args, "plan")
	refuse := func(format string, args ...any) (wire.Reply, error) {
		return wire.Reply{}, &compose.Failure{Type: abi.ErrPermission, Message: fmt.Sprintf(format, args...) + " (nothing was done now)"}
	}
	file, err := h.cfg.Planner.Find(ctx, id, call.Origin)
	if err != nil {
		return refuse("%v", err)
	}
	if digest, ok := wire.GetString(args, "digest"); ok && digest != file.Digest {
		return refuse("plan %s has the digest %s", id, file.Digest)
	}
	decision, err := h.cfg.Planner.Check(ctx, file, call.Origin)
	if err != nil {
		return refuse("plan %s cannot be applied: %v", id, err)
	}
	fresh, _ := wire.Get(args, "fresh")
	asked, err := h.passApply(ctx, file, call, decision)
	if err != nil {
		var denied *wire.DeniedError
		if !errors.As(err, &denied) {
			return wire.Reply{}, &compose.Failure{Type: abi.ErrCancelled, Message: err.Error()}
		}
		return refuse("%v", err)
	}
	call.Began = nil // so the call does not become a task, which could not ask while running
	outcome, err := h.cfg.Planner.Apply(ctx, file, plan.ApplyOptions{Fresh: string(fresh) == "true", Approved: asked}, call)
	if outcome == nil {
		return refuse("plan %s cannot be applied: %v", id, err)
	}
	if err != nil {
		h.cfg.Log.Error("the next plan is not kept", "plan", id, "err", err)
	}
	return wire.Reply{Result: outcome.Result(file)}, nil
}

// passApply asks whether a plan may be applied. The person who is asked sees the plan's writes.
func (h *Handler) passApply(ctx context.Context, file *plan.File, call route.Call, about policy.Decision) (asked bool, err error) {
	if h.cfg.Gate == nil {
		return false, nil
	}
	const name = "apply_plan"
	var definition []byte
	for _, e := range h.entries {
		if e.Name == name {
			definition = e.Definition
		}
	}
	return h.cfg.Gate.PassBuiltin(ctx, call, name, definition, file.Asked(), about)
}
