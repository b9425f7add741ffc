package front

import (
	"context"
	"errors"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Revisions are the protocol revisions a session can be initialized with,
// newest first.
var Revisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// batchRevision is the only revision with JSON-RPC batches (2025-06-18,
// changelog).
const batchRevision = "2025-03-26"

// immediate answers what must never wait behind anything else.
func (s *Session) immediate(msg wire.Message) (wire.Reply, bool) {
	switch msg.Method {
	case string(mcp.MethodInitialize):
		return s.initialize(msg.Params), true
	case string(mcp.MethodPing):
		return wire.Reply{Result: []byte("{}")}, true
	}
	s.mu.Lock()
	early := s.client == connected
	s.mu.Unlock()
	if early {
		return fail(wire.CodeInvalidRequest, "invalid request: %s before initialize", msg.Method), true
	}
	return wire.Reply{}, false
}

// lookup finds the work of a method; nil with an error reply when there is none.
func (s *Session) lookup(msg wire.Message) (func(context.Context, wire.Message) wire.Reply, wire.Reply) {
	switch msg.Method {
	case string(mcp.MethodToolsList):
		return s.listTools, wire.Reply{}
	case string(mcp.MethodToolsCall):
		return s.callTool, wire.Reply{}
	}
	return nil, fail(wire.CodeMethodNotFound, "method not found: %s", msg.Method)
}

func fail(code int, format string, args ...any) wire.Reply {
	return wire.Reply{Error: wire.Errorf(code, format, args...).Raw()}
}

func (s *Session) notification(msg wire.Message) {
	switch msg.Method {
	case "notifications/initialized":
		s.mu.Lock()
		if s.client == initialized {
			s.client = operating
		}
		s.mu.Unlock()
	case "notifications/cancelled":
		s.cancelled(msg.Params)
	default:
		s.opts.Log.Debug("ignored a notification of the client", "method", msg.Method)
	}
}

type initializeResult struct {
	ProtocolVersion string           `json:"protocolVersion"`
	Capabilities    serverCapability `json:"capabilities"`
	ServerInfo      serverInfo       `json:"serverInfo"`
	Instructions    string           `json:"instructions,omitempty"`
}

type serverCapability struct {
	Tools struct {
		ListChanged bool `json:"listChanged"`
	} `json:"tools"`
}

type serverInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// initialize negotiates the revision (2025-11-25, basic/lifecycle): the
// client's if we know it, else our newest, which the client may refuse.
func (s *Session) initialize(params []byte) wire.Reply {
	version, ok := wire.GetString(params, "protocolVersion")
	if !ok {
		return fail(wire.CodeInvalidParams, "initialize: params.protocolVersion must be a string")
	}
	if !slices.Contains(Revisions, version) {
		version = Revisions[0]
	}
	s.mu.Lock()
	again := s.client != connected
	if !again {
		s.client = initialized
		s.batches = version == batchRevision
	}
	s.mu.Unlock()
	if again {
		return fail(wire.CodeInvalidRequest, "invalid request: the session is initialized already")
	}
	result := initializeResult{
		ProtocolVersion: version,
		ServerInfo:      serverInfo{s.opts.Name, s.opts.Version},
		Instructions:    s.opts.Instructions,
	}
	result.Capabilities.Tools.ListChanged = true
	return wire.Reply{Result: wire.Marshal(result)}
}

func (s *Session) listTools(ctx context.Context, msg wire.Message) wire.Reply {
	cursor := ""
	if raw, ok := wire.Get(msg.Params, "cursor"); ok {
		if cursor, ok = wire.GetString(msg.Params, "cursor"); !ok {
			return fail(wire.CodeInvalidParams, "tools/list: cursor must be a string, got %s", raw)
		}
	}
	tools, next, err := s.opts.Backend.ListTools(ctx, cursor)
	s.mu.Lock()
	s.listed = true
	s.mu.Unlock()
	var bad *wire.RPCError
	if errors.As(err, &bad) {
		return wire.Reply{Error: bad.Raw()}
	} else if err != nil {
		return fail(wire.CodeInternal, "tools/list: %v", err)
	}
	b := []byte(`{"tools":[`)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, t...)
	}
	b = append(b, ']')
	if next != "" {
		b = append(append(b, `,"nextCursor":`...), wire.Quote(next)...)
	}
	return wire.Reply{Result: append(b, '}')}
}

func (s *Session) callTool(ctx context.Context, msg wire.Message) wire.Reply {
	name, ok := wire.GetString(msg.Params, "name")
	if !ok {
		return fail(wire.CodeInvalidParams, "tools/call: params.name must be a string")
	}
	if args, ok := wire.Get(msg.Params, "arguments"); ok && !wire.Object(args) {
		return fail(wire.CodeInvalidParams, "tools/call: params.arguments must be an object")
	}
	if meta, ok := wire.Get(msg.Params, "_meta"); ok && !wire.Object(meta) {
		return fail(wire.CodeInvalidParams, "tools/call: params._meta must be an object")
	}
	return s.opts.Backend.CallTool(ctx, route.Call{Name: name, Params: msg.Params, Progress: s.progress(ctx, msg.Params)})
}
