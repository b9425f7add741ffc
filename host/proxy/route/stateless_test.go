package route

import (
	"fmt"
	"sync"
	"testing"
)

// TestHeaderParamsOfOthers checks that nothing waits while a definition is read, except for calls
// of the same tool, and the definition is read once.
func TestHeaderParamsOfOthers(t *testing.T) {
	definition := func(header string) []byte {
		return fmt.Appendf(nil, `{"inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":%q}}}}`, header)
	}
	var c headerCache
	first, slow := definition("First"), definition("Slow")
	var callers sync.WaitGroup
	c.entry("slow", slow).once.Do(func() { // the read takes long
		if c.of("other", first).IsEmpty() {
			t.Error("another tool has no headers")
		}
		for range 2 {
			callers.Go(func() { c.of("slow", slow) })
		}
	})
	callers.Wait()
	if !c.of("slow", slow).IsEmpty() {
		t.Error("it was read twice")
	}
	if c.of("slow", definition("Slow")).IsEmpty() || len(c.byTool) != 2 {
		t.Error("another definition has not taken its place")
	}
}
