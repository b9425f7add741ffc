package smoke

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// answer is the outcome of a check.
type answer struct {
	// For a call:
	result   []byte         // raw CallToolResult; nil for none
	refused  *wire.RPCError // the JSON-RPC error, without a result
	progress [][]byte       // raw params of progress notifications, in order

	run *journal.Record // the record of a script's run; nil for none

	unmocked []*cassette.UnmatchedError // calls of the script that matched no mock

	// For a cancelled call:
	cancelled   bool
	stopped     time.Duration // from the cancellation until all work had ended
	afterCancel []string      // why the call seems to have gone on

	// For the check of a server:
	server    string
	handshake []byte // raw result of initialize
	lists     pins.Lists

	// decide returns the policy decision about the call by a client; "": the check's own client.
	// Nil for a call with mocks.
	decide func(client string) policy.Decision

	took   time.Duration
	redact func(json []byte) []byte // replaces secrets in JSON
}

// isError reports whether the tool returned an error.
func (a *answer) isError() bool {
	flag, _ := wire.Get(a.result, "isError")
	return string(flag) == "true"
}

// script returns the receipt of a composite tool; ok is false if another tool answered.
func (a *answer) script() (receipt []byte, ok bool) {
	return wire.Get(a.result, "_meta", compose.ReceiptKey)
}

// number returns a member of the receipt of a script.
func (a *answer) number(name string) (n uint64, ok bool) {
	receipt, _ := a.script()
	raw, ok := wire.Get(receipt, name)
	return n, ok && json.Unmarshal(raw, &n) == nil
}

// usage returns the resources that a script used; nil for an answer without a script.
func (a *answer) usage() *report.Usage {
	if _, ok := a.script(); !ok {
		return nil
	}
	var u report.Usage
	u.Fuel, _ = a.number("fuel")
	u.Memory, _ = a.number("memory")
	u.Calls, _ = a.number("calls")
	return &u
}

// value returns the answer as JSON: of a script, the result or the error; of other tools, the
// structured content, or else the text, which is decoded if JSON.
func (a *answer) value() []byte {
	structured, ok := wire.Get(a.result, "structuredContent")
	if _, script := a.script(); script {
		for _, name := range []string{"result", "error"} {
			if v, ok := wire.Get(structured, name); ok {
				return v
			}
		}
	}
	if ok && string(structured) != "null" {
		return structured
	}
	text := a.text()
	if json.Valid([]byte(text)) {
		return []byte(text)
	}
	return wire.Quote(text)
}

// texts returns the texts of the text blocks.
func (a *answer) texts() []string {
	content, _ := wire.Get(a.result, "content")
	blocks, _ := wire.Elements(content) // none if content is not an array
	var texts []string
	for _, block := range blocks {
		kind, _ := wire.GetString(block, "type")
		if text, ok := wire.GetString(block, "text"); ok && kind == "text" {
			texts = append(texts, text)
		}
	}
	return texts
}

func (a *answer) text() string { return strings.Join(a.texts(), "\n") }

// logs returns the log entries of a script.
func (a *answer) logs() []string {
	raw, _ := wire.Get(a.result, "structuredContent", "logs")
	var logs []string
	if jsonvalue.Unmarshal(raw, &logs) != nil {
		return nil
	}
	return logs
}

// calls returns the calls of a script as "server.tool". A name in wanted replaces a call with the
// same script name.
func (a *answer) calls(wanted []string) []string {
	spelt := map[string]string{}
	for _, w := range wanted {
		spelt[scriptName(w)] = w
	}
	raw, _ := wire.Get(a.result, "structuredContent", "toolCalls")
	list, _ := wire.Elements(raw)
	names := make([]string, 0, len(list))
	for _, call := range list {
		server, _ := wire.GetString(call, "server")
		tool, _ := wire.GetString(call, "tool")
		name := server + "." + tool
		if w, ok := spelt[scriptName(name)]; ok {
			name = w
		}
		names = append(names, name)
	}
	return names
}

func scriptName(name string) string {
	server, tool, _ := strings.Cut(name, ".")
	return abi.Ident(server) + "." + abi.Ident(tool)
}

// errorMessage returns the message of a failed tool or of a JSON-RPC error.
func (a *answer) errorMessage() (message string, failed bool) {
	if a.refused != nil {
		return a.refused.Message, true
	}
	_, message = a.failure()
	return message, a.isError()
}

// failure returns the class and the message of the error with which a script ended, "" for a
// success. Errors of other tools are of class tool.
func (a *answer) failure() (class, message string) {
	if !a.isError() {
		return "", ""
	}
	class, ok := wire.GetString(a.result, "structuredContent", "error", "type")
	if !ok {
		return string(abi.ErrTool), a.text()
	}
	message, _ = wire.GetString(a.result, "structuredContent", "error", "message")
	return class, message
}
