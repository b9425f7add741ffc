package builtin

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// TestFailuresMatchTheOutputSchemas: a client that holds every result against the
// tool's outputSchema, as the official TypeScript client does, lets errors through,
// and nothing that is neither an answer nor an error.
func TestFailuresMatchTheOutputSchemas(t *testing.T) {
	failure := (&compose.Failure{Type: abi.ErrValidation, Message: "no", Violations: []tools.Violation{{Pointer: "/a", Message: "b"}}}).Result()
	structured, _ := wire.Get(failure, "structuredContent")
	var all []definition
	for _, list := range [][]definition{definitions(nil), directoryDefinitions(), healthDefinitions(), rehearsalDefinitions(), runsDefinitions()} {
		all = append(all, list...)
	}
	schemas := 0
	for _, d := range all {
		output := d.tool.RawOutputSchema
		if output == nil {
			continue
		}
		schemas++
		schema, err := tools.CompileSchema(output, "outputSchema")
		if err != nil {
			t.Errorf("%s: %v", d.tool.Name, err)
			continue
		}
		if err := schema.Validate(structured, nil); err != nil {
			t.Errorf("%s: a failure does not match: %v", d.tool.Name, err)
		}
		if err := schema.Validate([]byte("{}"), nil); err == nil {
			t.Errorf("%s: nothing at all matches", d.tool.Name)
		}
	}
	if schemas < 8 {
		t.Errorf("only %d tools have an outputSchema", schemas)
	}
}
