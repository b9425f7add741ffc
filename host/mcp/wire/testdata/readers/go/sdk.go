package main

import (
	"bytes"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/segmentio/encoding/json"
)

// members returns the members that types of go-sdk have, by path.
var members = map[string]func(raw []byte) any{
	"params.name":                of(func(p *mcp.CallToolParamsRaw) any { return p.Name }),
	"params.requestState":        of(func(p *mcp.CallToolParamsRaw) any { return p.RequestState }),
	"params._meta.progressToken": of(func(p *mcp.CallToolParamsRaw) any { return text(p.GetProgressToken()) }),
	"params._meta." + related:    of(func(p *mcp.CallToolParamsRaw) any { return relatedTask(p.Meta) }),
	"params.uri":                 of(func(p *mcp.ReadResourceParams) any { return p.URI }),
	"params.cursor":              of(func(p *mcp.ListToolsParams) any { return p.Cursor }),
	"params.level":               of(func(p *mcp.SetLoggingLevelParams) any { return string(p.Level) }),
	"params.logger":              of(func(p *mcp.LoggingMessageParams) any { return p.Logger }),
	"params.mode":                of(func(p *mcp.ElicitParams) any { return p.Mode }),
	"params.elicitationId":       of(func(p *mcp.ElicitParams) any { return p.ElicitationID }),
	"params.protocolVersion":     of(func(p *mcp.InitializeParams) any { return p.ProtocolVersion }),
	"params.clientInfo.name":     of(clientName),
	"params.ref.type":            of(func(p *mcp.CompleteParams) any { return reference(p).Type }),
	"params.ref.name":            of(func(p *mcp.CompleteParams) any { return reference(p).Name }),
	"params.ref.uri":             of(func(p *mcp.CompleteParams) any { return reference(p).URI }),
	"result.nextCursor":          of(func(r *mcp.ListToolsResult) any { return r.NextCursor }),
	"result.protocolVersion":     of(func(r *mcp.InitializeResult) any { return r.ProtocolVersion }),
	"result.requestState":        of(func(r *mcp.CallToolResult) any { return r.RequestState }),
	"result._meta." + related:    of(func(r *mcp.CallToolResult) any { return relatedTask(r.Meta) }),
}

const related = "io.modelcontextprotocol/related-task.taskId"

// sdk reads a message with go-sdk, and its params or result with a type of go-sdk that
// has the member, regardless of the method.
func sdk(message []byte, path []string) any {
	m, err := jsonrpc.DecodeMessage(message)
	if err != nil {
		return true
	}
	var params, result []byte
	var method, failure string
	switch m := m.(type) {
	case *jsonrpc.Request:
		method, params = m.Method, m.Params
	case *jsonrpc.Response:
		result = m.Result
		if m.Error != nil {
			failure = m.Error.(*jsonrpc.Error).Message
		}
	}
	switch name := strings.Join(path, "."); name {
	case "method":
		return method
	case "error.message":
		return failure
	default:
		read, raw := members[name], params
		if path[0] == "result" {
			raw = result
		}
		if read == nil || len(raw) == 0 {
			return true
		}
		return read(raw)
	}
}

// of reads a T like go-sdk, which configures its decoder in internal/json.
func of[T any](member func(*T) any) func(raw []byte) any {
	return func(raw []byte) any {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DontMatchCaseInsensitiveStructFields()
		var into T
		if decoder.Decode(&into) != nil {
			return true
		}
		return member(&into)
	}
}

func clientName(p *mcp.InitializeParams) any {
	if p.ClientInfo == nil {
		return nil
	}
	return p.ClientInfo.Name
}

func reference(p *mcp.CompleteParams) *mcp.CompleteReference {
	if p.Ref == nil {
		return &mcp.CompleteReference{}
	}
	return p.Ref
}

// relatedTask returns the id of the task in a _meta.
func relatedTask(meta mcp.Meta) any {
	task, _ := meta["io.modelcontextprotocol/related-task"].(map[string]any)
	return text(task["taskId"])
}

// text returns v if it is a string, otherwise nil.
func text(v any) any {
	if s, ok := v.(string); ok {
		return s
	}
	return nil
}
