package pins

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// TestDefinitionsThatAreTooLarge checks that a definition that could not be compared with another
// one cannot be pinned either: it would always seem to be the same.
func TestDefinitionsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	definition := func(objects int) *Definition {
		return NewDefinition([]byte(`{"name":"a","inputSchema":{"examples":[` + strings.Repeat(`{"":1},`, objects) + `1]}}`))
	}
	var many *jsonvalue.TooManyError
	for _, d := range []*Definition{definition(60_000), NewDefinition([]byte(strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)))} {
		if err := d.Ambiguous(); err == nil || d.canonical() != nil || len(d.raw) > 100_000 && !errors.As(err, &many) {
			t.Errorf("%.50s: %v", d.raw, err)
		}
	}
	if err := definition(40_000).Ambiguous(); err != nil {
		t.Error(err)
	}
}
