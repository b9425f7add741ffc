package compose

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
)

// TestCompilingTakesATurn checks that a schema is compiled in a turn of the first run with the
// schema, and then never again.
func TestCompilingTakesATurn(t *testing.T) {
	c := New(Options{Sandbox: new(sandbox.Sandbox), Log: slog.New(slog.DiscardHandler)})
	var said []string
	turn := func(units uint64) (end func()) {
		said = append(said, fmt.Sprint("turn of ", units))
		return func() { said = append(said, "end") }
	}
	raw := []byte(`{"type":"object"}`)
	for range 3 {
		if c.upstreamSchema("a", "b", raw, turn) == nil {
			t.Error("no schema")
		}
	}
	if want := []string{"turn of 17000", "end"}; !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r := &run{Composer: c}
	if c.upstreamSchema("a", "c", []byte(`{}`), r.turn(ended, r.tool)) == nil {
		t.Error("no schema after the end of the run that compiled it")
	}
}
