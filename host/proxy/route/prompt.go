package route

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// getPrompt asks the upstream with the prompt, using the upstream's own name.
func (r *Router) getPrompt(ctx context.Context, call Call) wire.Reply {
	name, bad := stringParam(call, "name")
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	to, own, bad := r.promptOwner(ctx, call, name)
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	params, err := wire.Set(call.Params, wire.Quote(own), "name")
	if err != nil {
		return fail(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	g := r.decide(call.Origin, policy.Request{Kind: policy.KindPrompt, Server: to.server, Name: own, Arguments: argumentsOf(params)}, nil)
	return r.forward(ctx, call, to, params, g)
}

// promptOwner finds the upstream with a prompt, and the upstream's own name for the prompt.
func (r *Router) promptOwner(ctx context.Context, call Call, name string) (to serverConn, own string, bad *wire.RPCError) {
	scope := r.scope(call.Origin.Session())
	server, own, ok := scope.Prompt(name)
	if !ok {
		r.awaitLists(ctx, call.Origin.Session(), wire.Prompts)
		server, own, ok = scope.Prompt(name)
	}
	if ok {
		to, ok = r.to(call.Origin.Session(), server)
	}
	if f := r.scope(call.Origin.Session()).Withheld(wire.Prompts, name); !ok && f != nil {
		return to, "", wire.Errorf(wire.CodeInvalidParams, "%s: %v", call.Method, f)
	}
	if !ok {
		why, _ := r.ownerUnavailable(call, name)
		return to, "", r.unknown(call, "prompt", name, wire.Prompts, why)
	}
	return to, own, nil
}

// complete asks the upstream with the prompt or resource for completions.
func (r *Router) complete(ctx context.Context, call Call) wire.Reply {
	if bad := checkMeta(call.Method, call.Params); bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	if !r.offered(call.Origin.Session(), "completions") {
		return notFound(call.Method)
	}
	kind, ok := wire.GetString(call.Params, "ref", "type")
	if !ok {
		return fail(wire.CodeInvalidParams, "%s: params.ref.type must be a string", call.Method)
	}
	switch kind {
	case "ref/prompt":
		return r.completePrompt(ctx, call)
	case "ref/resource":
		return r.completeResource(ctx, call)
	}
	if all := r.offering(call.Origin.Session(), "completions"); len(all) == 1 {
		return r.forward(ctx, call, all[0], call.Params, r.completion(call, all[0], ""))
	}
	return fail(wire.CodeInvalidParams, "%s: unknown params.ref.type %q", call.Method, kind)
}

func (r *Router) completePrompt(ctx context.Context, call Call) wire.Reply {
	name, ok := wire.GetString(call.Params, "ref", "name")
	if !ok {
		return fail(wire.CodeInvalidParams, "%s: params.ref.name must be a string", call.Method)
	}
	to, own, bad := r.promptOwner(ctx, call, name)
	if bad != nil {
		return wire.Reply{Error: bad.Raw()}
	}
	params, err := wire.Set(call.Params, wire.Quote(own), "ref", "name")
	if err != nil {
		return fail(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	return r.forward(ctx, call, to, params, r.completion(call, to, own))
}

// completion decides about completing an argument of a prompt or resource template.
func (r *Router) completion(call Call, to serverConn, name string) *gated {
	return r.decide(call.Origin, policy.Request{
		Kind: policy.KindCompletion, Server: to.server, Name: name, Arguments: CompletionArguments(call.Params),
	}, nil)
}

// CompletionArguments returns the arguments of a completion for policy: the members of the params
// that name the completed object and text, as a raw JSON object.
func CompletionArguments(params []byte) []byte {
	var args wire.Object
	for _, member := range []string{"ref", "argument", "context"} {
		if value, ok := wire.Get(params, member); ok {
			args.Raw(member, value)
		}
	}
	return args.Bytes()
}

func (r *Router) completeResource(ctx context.Context, call Call) wire.Reply {
	uri, ok := wire.GetString(call.Params, "ref", "uri")
	if !ok {
		return fail(wire.CodeInvalidParams, "%s: params.ref.uri must be a string", call.Method)
	}
	scope := r.scope(call.Origin.Session())
	if _, known := scope.Template(uri); !known {
		r.awaitLists(ctx, call.Origin.Session(), wire.Templates)
	}
	if server, ok := scope.Template(uri); ok {
		if to, ok := r.to(call.Origin.Session(), server); ok {
			return r.forward(ctx, call, to, call.Params, r.completion(call, to, uri))
		}
	}
	return r.askForURI(ctx, call, uri, func(c serverConn) wire.Reply {
		return r.forward(ctx, call, c, call.Params, r.completion(call, c, uri))
	}, "completions")
}
