package health

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// probe makes the call of a probe and checks the result.
func (c Checker) probe(ctx context.Context, up Connection, p *config.Probe, permit wire.Permit) *ProbeReport {
	r := &ProbeReport{Tool: c.text(p.Call), Check: Failed}
	var params wire.Object
	params.Text("name", p.Call)
	params.Raw("arguments", p.Params)
	result, took, err := c.ask(ctx, up, wire.Call{Method: protocol.MethodToolsCall, Params: params.Bytes(), Permit: permit}, p.Timeout)
	if err != nil {
		r.Error = c.text(reason(err))
		return r
	}
	r.Latency = milliseconds(took)
	if r.Error = c.verdict(result, p.Expect); r.Error == "" {
		r.Check = OK
	}
	return r
}

// verdict returns the difference of a tools/call result from the expectation, or "".
func (c Checker) verdict(result []byte, want *config.Expectation) string {
	if !wire.IsObject(result) {
		return "answered without a result"
	}
	text := textOf(result)
	if flag, _ := wire.Get(result, "isError"); string(flag) == "true" {
		return "failed: " + c.excerpt(text)
	}
	if want == nil {
		return ""
	}
	switch {
	case want.Value != nil:
		if got := valueOf(result, text); !contains(got, want.Value) {
			return fmt.Sprintf("answered %s, which does not contain %s", c.excerpt(string(got)), c.excerpt(string(want.Value)))
		}
	case want.Pattern != "":
		pattern, err := regexp.Compile(want.Pattern)
		if err != nil { // the configuration should have refused the pattern
			return c.text(err.Error())
		}
		if !pattern.MatchString(text) {
			return fmt.Sprintf("answered %q, which does not match %s", c.excerpt(text), c.excerpt("/"+want.Pattern+"/"))
		}
	case !strings.Contains(text, want.Text):
		return fmt.Sprintf("answered %q, which does not contain %q", c.excerpt(text), c.excerpt(want.Text))
	}
	return ""
}

// textOf returns the text of a result: the text blocks, separated by newlines, or, without text
// blocks, the JSON of the structured content.
func textOf(result []byte) string {
	content, _ := wire.Get(result, "content")
	blocks, _ := wire.Elements(content) // none if content is not an array
	var texts []string
	for _, block := range blocks {
		if text, ok := wire.GetString(block, "text"); ok {
			texts = append(texts, text)
		}
	}
	if texts == nil {
		structured, _ := wire.Get(result, "structuredContent")
		return string(structured)
	}
	return strings.Join(texts, "\n")
}

// valueOf returns the JSON value of a result: the structured content, or text if text is JSON, or
// text as a JSON string.
func valueOf(result []byte, text string) []byte {
	if v, ok := wire.Get(result, "structuredContent"); ok && string(v) != "null" {
		return v
	}
	if raw := []byte(text); json.Valid(raw) {
		return raw
	}
	return wire.Quote(text)
}
