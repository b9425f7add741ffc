package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// toolResult is a CallToolResult decoded for people.
type toolResult struct {
	isError bool
	text    string   // the text blocks
	others  []string // descriptions of the other blocks
	value   []byte   // structured: what a script returned, or structuredContent; nil if there is none

	// Of composite calls only:
	logs    []string
	calls   []toolCall
	receipt receipt
}

// toolCall is one entry of structuredContent.toolCalls.
type toolCall struct {
	Server string
	Tool   string
	Params json.RawMessage
	Result json.RawMessage // nil when it failed
}

// receipt holds what the sandbox measured.
type receipt struct {
	Run    string
	Memory uint64 // bytes
	Calls  int
	Time   float64 // milliseconds
}

func readResult(raw []byte) toolResult {
	var r toolResult
	flag, _ := wire.Get(raw, "isError")
	r.isError = string(flag) == "true"
	content, _ := wire.Get(raw, "content")
	blocks, _ := wire.Elements(content)
	var texts []string
	for _, b := range blocks {
		kind, _ := wire.GetString(b, "type")
		if text, ok := wire.GetString(b, "text"); ok && kind == "text" {
			texts = append(texts, text)
			continue
		}
		if mime, ok := wire.GetString(b, "mimeType"); ok {
			kind += " " + mime
		}
		r.others = append(r.others, kind)
	}
	r.text = strings.Join(texts, "\n")
	structured, _ := wire.Get(raw, "structuredContent")
	r.value = structured
	if meta, ok := wire.Get(raw, "_meta", compose.ReceiptKey); ok {
		r.readRun(meta, structured)
	}
	return r
}

// readRun reads what a composite call reports of its run. A missing member stays
// empty.
func (r *toolResult) readRun(meta, structured []byte) {
	r.receipt.Run, _ = wire.GetString(meta, "run")
	number(meta, "memory", &r.receipt.Memory)
	number(meta, "calls", &r.receipt.Calls)
	number(structured, "executionTime", &r.receipt.Time)
	r.value, _ = wire.Get(structured, "result")
	if raw, ok := wire.Get(structured, "logs"); ok {
		_ = jsonvalue.Unmarshal(raw, &r.logs)
	}
	raw, _ := wire.Get(structured, "toolCalls")
	calls, _ := wire.Elements(raw)
	for _, c := range calls {
		var call toolCall
		call.Server, _ = wire.GetString(c, "server")
		call.Tool, _ = wire.GetString(c, "tool")
		call.Params, _ = wire.Get(c, "params")
		call.Result, _ = wire.Get(c, "result")
		r.calls = append(r.calls, call)
	}
}

func number[T any](obj []byte, name string, dst *T) {
	if raw, ok := wire.Get(obj, name); ok {
		_ = jsonvalue.Unmarshal(raw, dst)
	}
}

// output returns the result for standard output.
func (r *toolResult) output() string {
	switch {
	case r.value == nil:
		return strings.TrimSuffix(r.text, "\n") + "\n"
	case r.value[0] == '"':
		var s string
		if json.Unmarshal(r.value, &s) == nil {
			return strings.TrimSuffix(s, "\n") + "\n"
		}
	}
	return fmt.Sprintf("%s\n", indentJSON(r.value))
}
