package compose

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools"

	"github.com/mcp-metatool/mcp-metatool/host/guard/permissions"
)

func TestToolDefinition(t *testing.T) {
	const wrapper = `"content":{"type":"array","items":{"type":"string"},"description":"Instead of result: descriptions of the content blocks that the script returned."},` +
		`"error":{"type":"object","description":"Instead of result: why the script failed."},` +
		`"logs":{"type":"array","items":{"type":"string"}},"executionTime":{"type":"number","description":"milliseconds"},` +
		`"toolCalls":{"type":"array","items":{"type":"object"}},"moreCalls":{"type":"object","description":"How many calls toolCalls does not list, by tool."}},` +
		`"anyOf":[{"required":["result"]},{"required":["content"]},{"required":["error"]}]}`
	tests := []struct{ name, output, want string }{
		{"none", ``, ``},
		{"plain", `{"type":"integer","maximum":12345678901234567890}`,
			`{"type":"object","properties":{"result":{"type":"integer","maximum":12345678901234567890},` + wrapper},
		{"dialect moves to the root", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"integer"}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"result":{"type":"integer"},` + wrapper},
		{"pointer", `{"$defs":{"x":{}},"properties":{"a":{"$ref":"#/$defs/x"}}}`, ``},
		{"root", `{"properties":{"a":{"$ref":"#"}}}`, ``},
		{"dynamic", `{"$dynamicRef":"#/$defs/x","$defs":{"x":{}}}`, ``},
		{"recursive", `{"items":[{"$recursiveRef":"#"}]}`, ``},
		{"anchor", `{"$defs":{"x":{"$anchor":"x"}},"$ref":"#x"}`,
			`{"type":"object","properties":{"result":{"$defs":{"x":{"$anchor":"x"}},"$ref":"#x"},` + wrapper},
		{"property of that name", `{"properties":{"$ref":{"type":"string"}},"enum":["$ref","#/a"]}`,
			`{"type":"object","properties":{"result":{"properties":{"$ref":{"type":"string"}},"enum":["$ref","#/a"]},` + wrapper},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			def := tools.Definition{Name: "sum", Description: "adds <a> & \"b\"", InputSchema: json.RawMessage(`{"type":"object","z":1.0}`)}
			want := `{"name":"sum","description":"adds <a> & \"b\"","inputSchema":{"type":"object","z":1.0}`
			if tt.output != "" {
				def.OutputSchema = json.RawMessage(tt.output)
			}
			if tt.want != "" {
				want += `,"outputSchema":` + tt.want
			}
			want += `,"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}`
			if got := string(ToolDefinition(def, permissions.Worst)); got != want+"}" {
				t.Errorf("got  %s\nwant %s}", got, want)
			}
		})
	}
}

// TestBrokenSavedSchema checks a definition saved without a check.
func TestBrokenSavedSchema(t *testing.T) {
	def := saved("x")
	def.InputSchema = json.RawMessage(`{"type":"object","properties":5}`)
	r := new(run)
	if _, f := r.arguments(t.Context(), t.Context(), def, []byte(`{}`)); f == nil || f.Type != "validation" {
		t.Errorf("input: %+v", f)
	}
	def.OutputSchema = json.RawMessage(`{"type":"no such"}`)
	if f := r.checkResult(t.Context(), t.Context(), def, []byte(`{}`)); f == nil || f.Type != "validation" {
		t.Errorf("output: %+v", f)
	}
}
