package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// toldOfTools waits until a client was told that the tools have changed, behind an entry of its
// log, and returns when.
func (s *replica) toldOfTools(from int) time.Time {
	s.m.t.Helper()
	_, _, err := s.Log.Find(mcptest.Bounded(s.m.t), "tools/list_changed", from, func(e mcptest.Entry) bool {
		return strings.Contains(string(e.Raw), "notifications/tools/list_changed")
	})
	if err != nil {
		s.m.t.Fatal(err)
	}
	return time.Now()
}

// listed returns the answer to tools/list.
func (s *replica) listed(id string) string {
	return s.result(s.Start(id, "tools/list", "{}"))
}

const ownTools = `
[http]
tokens = [{ name = "Alice", sha256 = "%064d", tools = "own" }]
`

func saving(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"},"code":"return '%s'"}`, name, description, description)
}

// TestFleetTools moves the saved tools of one machine to a fleet, saves, runs, deletes and restores
// them on two machines, one of which goes on without the store, and moves them back to files.
func TestFleetTools(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	place := fleettest.New(t, *long)
	tokens := fmt.Sprintf(ownTools, 1)
	a, b := newMachine(t, place.URL(), tokens), newMachine(t, place.URL(), tokens)
	// Before there is a fleet.
	a.write("files.toml", "[store]\ndir = \"store\"\n"+tokens)
	a.write("first.json", `{"version":"1.0","name":"first","description":"from files","inputSchema":{"type":"object"},"code":"return 1"}`)
	a.write("own.json", `{"version":"1.0","name":"own","description":"of Alice","inputSchema":{"type":"object"},"code":"return 1"}`)
	a.write("token.toml", "[store]\ndir = \"store/tokens/Alice\"\n")
	a.run(0, "tools", "import", "--yes", "--config", "files.toml", "first.json")
	a.run(0, "tools", "import", "--yes", "--config", "token.toml", "own.json")
	onA := a.serve()
	if list := onA.listed("0"); strings.Contains(list, "from files") {
		t.Error("a tool that is in files is in the fleet")
	}
	eventually(t, "the warning", func() bool { return strings.Contains(onA.stderr.String(), "store copy --from files --to nats") })
	at := onA.Log.Len()
	if out := a.run(0, "store", "copy", "--from", "files", "--to", "nats", "--yes"); !strings.Contains(out, "2 tools and versions copied") {
		t.Errorf("store copy says %q", out)
	}
	onA.toldOfTools(at)
	onB := b.serve()
	if list := onB.listed("0"); !strings.Contains(list, "from files") {
		t.Errorf("the other machine has %s", list)
	}
	if out := b.run(0, "tools", "list", "--token", "alice"); !strings.Contains(out, "of Alice") {
		t.Errorf("the tools of a token are %q", out)
	}
	// A change is seen by the clients of the other one.
	var slowest time.Duration
	for i, pair := range [][2]*replica{{onA, onB}, {onB, onA}, {onA, onB}} {
		at, begun := pair[1].Log.Len(), time.Now()
		text := fmt.Sprintf("form %d", i)
		answer := pair[0].tool(fmt.Sprint(10+i), "save_tool", saving("second", text))
		slowest = max(slowest, pair[1].toldOfTools(at).Sub(begun))
		if result := pair[0].result(answer); strings.Contains(result, `"isError":true`) {
			t.Errorf("save_tool: %s", result)
		}
		if list := pair[1].listed(fmt.Sprint(20 + i)); !strings.Contains(list, text) {
			t.Errorf("after it was told, the other machine has %s", list)
		}
	}
	t.Log("from a save on one machine to the notification on the other, at most", slowest)
	// Of two that save at the same time, one may be too late.
	var both sync.WaitGroup
	results := make([]string, 2)
	for i, s := range []*replica{onA, onB} {
		both.Go(func() { results[i] = s.result(s.tool("30", "save_tool", saving("second", fmt.Sprint("both ", i)))) })
	}
	both.Wait()
	for i, result := range results {
		if late := strings.Contains(result, `"isError":true`); late && (!strings.Contains(result, "changed on another machine") || strings.Contains(results[1-i], `"isError":true`)) {
			t.Errorf("%q", results)
		}
	}
	// A command on any machine; the store away.
	at = onA.Log.Len()
	b.run(0, "tools", "delete", "second")
	onA.toldOfTools(at)
	at = onB.Log.Len()
	a.run(0, "tools", "revert", "second", "1")
	onB.toldOfTools(at)
	place.Cut(true)
	if result := onB.result(onB.tool("31", "second", "{}")); !strings.Contains(result, "form 0") {
		t.Errorf("while the store is away, the tool returns %s", result)
	}
	if result := onB.result(onB.tool("32", "save_tool", saving("second", "away"))); !strings.Contains(result, "does not answer, so that saved tools can be read and called, but not changed") {
		t.Errorf("while the store is away, save_tool returns %s", result)
	}
	if out := a.run(0, "tools", "list"); !strings.Contains(out, "form 0") || !strings.Contains(out, "as this machine knew them last") {
		t.Errorf("while the store is away, tools list says %q", out)
	}
	if out := a.run(1, "tools", "delete", "second"); !strings.Contains(out, "not changed (try again later)") {
		t.Errorf("while the store is away, tools delete says %q", out)
	}
	place.Cut(false)
	eventually(t, "the store", func() bool {
		return !strings.Contains(onB.result(onB.tool(fmt.Sprint(time.Now().UnixNano()), "save_tool", saving("second", "back"))), `"isError":true`)
	})
	// And back, on a machine that had no files.
	b.write("files.toml", "[store]\ndir = \"store\"\n"+tokens)
	b.run(0, "store", "copy", "--from", "nats", "--to", "files", "--yes")
	if out := b.run(0, "tools", "list", "--config", "files.toml"); !strings.Contains(out, "from files") || !strings.Contains(out, "back") {
		t.Errorf("the files have %q", out)
	}
	if out := b.run(0, "tools", "list", "--config", "files.toml", "--token", "Alice"); !strings.Contains(out, "of Alice") {
		t.Errorf("the files of a token have %q", out)
	}
	if out := b.run(0, "tools", "history", "--config", "files.toml", "second"); !strings.Contains(out, "reverted") && !strings.Contains(out, "deleted") {
		t.Errorf("the history in files is %q", out)
	}
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("this does not happen: " + what)
		}
	}
}
