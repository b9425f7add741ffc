package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Runner runs scripts; see compose.Composer.
type Runner interface {
	CallSaved(ctx context.Context, def tools.Definition, call route.Call) wire.Reply
	Eval(ctx context.Context, code string, params []byte, call route.Call) wire.Reply
}

func testTool(name string, _ []byte) mcp.Tool {
	return define(name, "Test composite tool",
		"Run a script with mocks that answer its tool calls; no real tool is called. A call without a mock fails. Saved tools that it calls run too, with the same mocks.",
		fmt.Sprintf(`{
			"type": "object",
			"properties": {
				"name": {"type": "string", "description": "A saved tool."},
				"code": {"type": "string", "minLength": 1, "maxLength": %d, "description": "A script, or new code for the tool with that name."},
				"params": {"type": "object", "default": {}},
				"mocks": {"type": "array", "maxItems": %d, "description": "The first that matches a call answers it.", "items": {
					"type": "object",
					"properties": {
						"tool": {"type": "string", "pattern": "^[^.]+\\..+$", "description": "server.tool"},
						"params": {"type": "object", "description": "Arguments that the call has; without: any."},
						"match": {"enum": ["subset", "exact"], "default": "subset"},
						"returns": {"description": "What the script gets."},
						"text": {"type": "string", "description": "Instead: text, parsed if it is JSON."},
						"raises": {"type": "string", "description": "Instead: the message of a ToolError."},
						"result": {"type": "object", "description": "Instead: the whole MCP result."},
						"error": {"type": "object", "description": "Instead: a JSON-RPC error, {code, message}."},
						"denied": {"type": "string", "minLength": 1, "description": "Instead: why the call is not permitted; scripts cannot catch that."},
						"delay": {"type": ["string", "integer"], "description": "\"1s\", or milliseconds."},
						"times": {"type": "integer", "minimum": 1, "maximum": 1000000, "description": "Without: any number of times."}
					},
					"required": ["tool"],
					"additionalProperties": false
				}}
			},
			"anyOf": [{"required": ["name"]}, {"required": ["code"]}],
			"additionalProperties": false
		}`, MaxCode, maxMocks),
		`{
			"type": "object",
			"properties": {
				"result": {"description": "What the script returned."},
				"error": {"type": "object"},
				"logs": {"type": "array", "items": {"type": "string"}},
				"executionTime": {"type": "number", "description": "milliseconds"},
				"content": {"type": "array", "items": {"type": "string"}, "description": "Instead of result: descriptions of the content blocks that it returned."},
				"toolCalls": {"type": "array", "items": {"type": "object"}},
				"moreCalls": {"type": "object", "description": "How many calls toolCalls does not list, by tool."},
				"unusedMocks": {"type": "array", "items": {"type": "string"}},
				"unmatchedCalls": {"type": "array", "items": {"type": "string"}, "description": "Calls without a mock."}
			},
			"required": ["unusedMocks", "unmatchedCalls"]
		}`,
		hints{readOnly: true, idempotent: true})
}

// maxMocks is how many mocks a dry run may have.
const maxMocks = 1000

// test makes a dry run.
func (h *Handler) test(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	mocks, err := mocksOf(args)
	if err != nil {
		return wire.Reply{}, err
	}
	params, ok := wire.Get(args, "params")
	if !ok {
		params = []byte("{}")
	}
	code, hasCode := wire.GetString(args, "code")
	var first rootRun
	stage := h.cfg.DryRunner(mocks, first.open)
	name, hasName := wire.GetString(args, "name")
	var reply wire.Reply
	if hasName {
		def, err := h.cfg.Store.Get(name)
		if err != nil {
			return wire.Reply{}, h.notFound(name, err)
		}
		if hasCode {
			def.Code = code
		}
		request, err := wire.Set(request(call.Params, name), params, "arguments")
		if err != nil {
			return wire.Reply{}, err
		}
		call.Params = request
		reply = stage.CallSaved(ctx, def, call)
	} else {
		reply = stage.Eval(ctx, code, params, call)
	}
	return dryRunReply(reply, first.run, mocks)
}

// request returns the params object of a tools/call of the saved tool, with the _meta
// of the call of test_tool.
func request(params []byte, name string) []byte {
	var o wire.Object
	o.Text("name", name)
	meta, _ := wire.Get(params, "_meta")
	o.Raw("_meta", meta)
	return o.Bytes()
}

// rootRun keeps the first of several nested runs.
type rootRun struct {
	mu  sync.Mutex
	run *journal.Run
}

// open is for compose.Options.Journal. Runs are recorded only in memory, because a dry run has no
// effects.
func (r *rootRun) open(b journal.Begin) (*journal.Run, error) {
	run := journal.Open(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Parent == nil && r.run == nil {
		r.run = run
	}
	return run, nil
}

// mocksOf reads the mocks of a dry run.
func mocksOf(args []byte) (*cassette.Cassette, error) {
	raw, ok := wire.Get(args, "mocks")
	if !ok {
		raw = []byte("[]")
	}
	items, err := wire.Elements(raw)
	if err != nil {
		return nil, err
	}
	f := &compose.Failure{Type: abi.ErrValidation, Message: "the mocks are not right"}
	all := make([]cassette.Interaction, len(items))
	for n, item := range items {
		var field *cassette.FieldError
		if all[n], err = mockOf(item); errors.As(err, &field) {
			pointer := fmt.Sprintf("/mocks/%d", n)
			if field.Key != "" {
				pointer += "/" + field.Key
			}
			f.Violations = append(f.Violations, tools.Violation{Pointer: pointer, Message: field.Text})
		}
		all[n].From = fmt.Sprintf("mocks[%d]", n)
	}
	if f.Violations != nil {
		return nil, f
	}
	return cassette.New(all...)
}

// mockOf reads one mock. The error is a *cassette.FieldError.
func mockOf(raw []byte) (cassette.Interaction, error) {
	var i cassette.Interaction
	var values [11][]byte
	wire.Pick(raw, mockMembers, values[:]) // checked by the schema
	text := func(n int) string { text, _ := wire.Text(values[n]); return text }
	i.Server, i.Tool, _ = strings.Cut(text(0), ".")
	i.Params, i.Match = values[1], cassette.Subset
	if values[2] != nil {
		i.Match = cassette.Match(text(2))
	}
	i.Returns, i.Result, i.RPCError = values[3], values[4], values[5]
	if values[6] != nil {
		if i.Result != nil {
			return i, &cassette.FieldError{Key: "text", Text: "and result are both there"}
		}
		i.Result = cassette.TextResult(text(6))
	}
	if values[7] != nil {
		i.Raises = &cassette.Raise{Message: text(7)}
	}
	i.Denied = text(8)
	if values[9] != nil {
		i.Times = wholeNumber(values[9])
	}
	if delay := values[10]; delay != nil {
		text, isText := wire.Text(delay)
		if !isText {
			text = string(delay) + "ms"
		}
		var err error
		if i.Delay, err = units.ParseDuration(text); err != nil {
			return i, &cassette.FieldError{Key: "delay", Text: fmt.Sprintf("%q %v", text, err)}
		}
		i.Delay = min(i.Delay, maxDelay)
	}
	return i, i.Check()
}

// mockMembers are the members of a mock, in the order in which mockOf reads them.
var mockMembers = []string{"tool", "params", "match", "returns", "result", "error", "text", "raises", "denied", "times", "delay"}

// maxDelay is longer than any run.
const maxDelay = 48 * time.Hour

// dryRunReply returns the answer of a dry run: the run's answer, with the unused mocks and the
// calls without a matching mock.
func dryRunReply(reply wire.Reply, run *journal.Run, mocks *cassette.Cassette) (wire.Reply, error) {
	if run == nil { // no script was run
		return reply, nil
	}
	unused, unmatched := []string{}, []string{}
	for _, i := range mocks.Unused() {
		unused = append(unused, fmt.Sprintf("%s (%s.%s)", i.From, i.Server, i.Tool))
	}
	for _, m := range mocks.Unmatched() {
		unmatched = append(unmatched, m.Error())
	}
	result, err := wire.Delete(reply.Result, "_meta", compose.ReceiptKey, "run") // the journal does not have the run
	if err != nil {
		return wire.Reply{}, fmt.Errorf("answer: %w", err)
	}
	rec := run.Record()
	text := wire.Marshal([]struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{{"text", dryRunText(&rec, unused, unmatched)}})
	for _, member := range []struct {
		value []byte
		path  []string
	}{
		{text, []string{"content"}},
		{wire.Marshal(unused), []string{"structuredContent", "unusedMocks"}},
		{wire.Marshal(unmatched), []string{"structuredContent", "unmatchedCalls"}},
	} {
		if result, err = wire.Set(result, member.value, member.path...); err != nil {
			return wire.Reply{}, fmt.Errorf("answer: %w", err)
		}
	}
	return wire.Reply{Result: result}, nil
}

// dryRunText returns a dry run for readers.
func dryRunText(rec *journal.Record, unused, unmatched []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dry run of %s: %s\n", rec.Definition.Name, rec.OutcomeName())
	shown := show(rec, timeline.Of(rec), many)
	shown.Hint = "" // hints are about real tools, not mocks
	shown.body(&b)
	for _, list := range []struct {
		title string
		items []string
	}{{"calls without a mock:", unmatched}, {"mocks that were not used:", unused}} {
		if len(list.items) > 0 {
			b.WriteString(list.title + "\n  " + strings.Join(list.items, "\n  ") + "\n")
		}
	}
	return b.String()
}
