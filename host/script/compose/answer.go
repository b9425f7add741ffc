package compose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// maxCallMessage limits the message of a failed call, in bytes. The details of the call are
// complete.
const maxCallMessage = 16 << 10

// answerOf turns an upstream's reply into the answer for the script. A script with a call for the
// raw result also gets a result with isError.
func answerOf(t *stack.Request, reply wire.Reply) journal.Answer {
	if reply.Denied != nil {
		return journal.Answer{Err: t.Fail(abi.ErrPermission, reply.Denied.Error())}
	}
	if reply.Error != nil {
		return rpcErrorOf(t, reply.Error)
	}
	result, ok := clean(reply.Result)
	a := journal.Answer{Result: result}
	if !ok {
		a.Err = t.Fail(abi.ErrTool, fmt.Sprintf("the server's answer is nested deeper than %d levels, a fixed limit", abi.MaxDepth))
		a.Err.Limit = abi.LimitDepth
		return a
	}
	if !wire.IsObject(result) {
		a.Err = t.Fail(abi.ErrTool, "the server's answer is not a JSON object")
		return a
	}
	a.Meta, _ = wire.Get(result, "_meta")
	if flag, _ := wire.Get(result, "isError"); string(flag) == "true" && !t.Raw {
		a.Err = t.Fail(abi.ErrTool, resultMessage(result))
		a.Err.Details = validOrNil(errorDetails(result))
		return a
	}
	if a.Value = result; !t.Raw {
		a.Value = resultValue(result)
	}
	return a
}

func rpcErrorOf(t *stack.Request, raw []byte) journal.Answer {
	raw, ok := clean(raw)
	a := journal.Answer{RPCError: raw, Err: t.Fail(abi.ErrTool, "the server answered with an error that cannot be read")}
	if !ok || !wire.IsObject(raw) {
		return a
	}
	var details wire.Object
	for _, name := range []string{"code", "data"} {
		if v, ok := wire.Get(raw, name); ok {
			details.Raw(name, v)
		}
	}
	a.Err.Details = validOrNil(details.Bytes())
	if msg, _ := wire.GetString(raw, "message"); msg != "" {
		a.Err.Message = display.ClipSize(msg, maxCallMessage)
	}
	return a
}

// resultValue returns the value of a CallToolResult for a script: structuredContent if present,
// else the JSON in a single text block, else the text of the block, else the content blocks.
func resultValue(result []byte) []byte {
	if v, ok := wire.Get(result, "structuredContent"); ok && string(v) != "null" {
		return v
	}
	content, ok := wire.Get(result, "content")
	if !ok {
		return []byte("null")
	}
	blocks, err := wire.Elements(content)
	if err != nil || len(blocks) != 1 {
		return content
	}
	if kind, _ := wire.GetString(blocks[0], "type"); kind != "text" {
		return content
	}
	text, ok := wire.GetString(blocks[0], "text")
	if !ok {
		return content
	}
	if v := textValue(text); v != nil {
		return v
	}
	return wire.Quote(text)
}

// textValue returns the JSON value in text, or nil. Objects, arrays and strings are
// used as they are. Numbers, booleans and null are only used if str(value) is the same
// text: "5" and "0.5" are numbers, but "1.10", "1e5", "007" and "5\n" (a version, an
// id, the content of a file) stay text.
func textValue(text string) []byte {
	trimmed := strings.Trim(text, " \t\r\n")
	if trimmed == "" || !json.Valid([]byte(trimmed)) {
		return nil
	}
	switch c := trimmed[0]; {
	case c == '{' || c == '[' || c == '"':
		if v, ok := clean([]byte(trimmed)); ok {
			return v
		}
		return nil
	case trimmed != text:
		return nil
	case c == '-' || c >= '0' && c <= '9':
		if !plainNumber(text) {
			return nil
		}
	}
	return []byte(text)
}

// plainNumber reports whether the JSON number text is an integer of any size, or a fraction in the
// shortest form of a float64.
func plainNumber(text string) bool {
	if !strings.ContainsAny(text, ".eE") {
		return text != "-0"
	}
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && strconv.FormatFloat(f, 'f', -1, 64) == text
}

// resultMessage returns the text of an isError result.
func resultMessage(result []byte) string {
	content, _ := wire.Get(result, "content")
	blocks, _ := wire.Elements(content)
	var lines []string
	for _, b := range blocks {
		if text, ok := wire.GetString(b, "text"); ok && text != "" {
			lines = append(lines, text)
		}
	}
	if len(lines) == 0 {
		return "the tool reported an error without a message"
	}
	return display.ClipSize(strings.Join(lines, "\n"), maxCallMessage)
}

func errorDetails(result []byte) []byte {
	if v, ok := wire.Get(result, "structuredContent"); ok && string(v) != "null" {
		return v
	}
	v, _ := wire.Get(result, "content")
	return v
}

// validOrNil returns raw if a guest can read and return raw: no duplicate names, and only escapes
// of valid text. Otherwise the function returns nil; the journal has the whole answer.
func validOrNil(raw []byte) []byte {
	if !jsontext.Value(raw).IsValid() {
		return nil
	}
	return raw
}

// clean makes raw JSON of an upstream safe for a guest and for results: invalid UTF-8, which can
// only be inside strings, becomes U+FFFD. If raw is nested deeper than abi.MaxDepth, clean returns
// nil and false.
func clean(raw []byte) (_ []byte, ok bool) {
	if depth(raw) > abi.MaxDepth {
		return nil, false
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	return raw, true
}

// depth returns the depth of the valid JSON raw.
func depth(raw []byte) int {
	deepest, level, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
