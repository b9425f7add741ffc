package builtin

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// TestFailuresMatchTheOutputSchemas checks that each outputSchema accepts errors, and
// nothing that is neither an answer nor an error. The official TypeScript client
// validates all results, including errors.
func TestFailuresMatchTheOutputSchemas(t *testing.T) {
	failure := (&compose.Failure{Type: abi.ErrValidation, Message: "no", Violations: []tools.Violation{{Pointer: "/a", Message: "b"}}}).Result()
	structured, _ := wire.Get(failure, "structuredContent")
	schemas := 0
	for _, row := range table() {
		output := row.define(row.name, []byte(`""`)).RawOutputSchema
		if output == nil {
			continue
		}
		schemas++
		schema, err := tools.CompileSchema(output, "outputSchema")
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if err := schema.Validate(structured, nil); err != nil {
			t.Errorf("%s: a failure does not match: %v", row.name, err)
		}
		if err := schema.Validate([]byte("{}"), nil); err == nil {
			t.Errorf("%s: nothing at all matches", row.name)
		}
	}
	if schemas < 8 {
		t.Errorf("only %d tools have an outputSchema", schemas)
	}
}
