package replay

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// TestAgentTools checks that a script that mentions built-in tools is told the same
// names in a replay as in its run, whatever built-in tools there are by then.
func TestAgentTools(t *testing.T) {
	told := []byte("undefined: search_tools (only agents can call it")
	fails := func(t *testing.T, rec journal.Record, want bool) {
		t.Helper()
		if got := bytes.Contains(rec.Outcome.Failure, told); got != want {
			t.Fatalf("the run failed with %s", rec.Outcome.Failure)
		}
	}
	failing := record(t, job{name: "named", def: definition("job", "search_tools(query='x')")})
	fails(t, failing, true)
	if !slices.Equal(failing.AgentTools, []string{"search_tools"}) {
		t.Errorf("the record has %q", failing.AgentTools)
	}
	var written bytes.Buffer
	if err := journal.Encode(&written, failing); err != nil {
		t.Fatal(err)
	}
	read, err := journal.Decode(&written)
	if err != nil {
		t.Fatal(err)
	}
	mentioning := record(t, job{name: "mentioned", def: definition("job", "print('show_run has more')\nreturn demo.echo({'n': 1}).n")})

	older := failing // of a guest that had the names built in
	older.Guest, older.AgentTools = strings.Repeat("0", 64), nil
	other := mentioning // of a program without show_run, but with this guest
	other.AgentTools = nil
	for name, tt := range map[string]struct {
		rec    journal.Record
		differ bool // in fuel, because the request differs
	}{
		"the same":       {rec: failing},
		"read":           {rec: read},
		"an older guest": {rec: older},
		"only mentioned": {rec: mentioning},
		"a tool less":    {rec: other, differ: true},
	} {
		r := replayed(t, tt.rec, Options{})
		onlyFuel := r.Verdict == Diverged && len(r.Differences) == 1 && r.Differences[0].What == "fuel"
		if tt.differ && !onlyFuel || !tt.differ && r.Verdict != Identical {
			t.Errorf("%s: %s", name, r.Text())
		}
	}

	plain := record(t, job{name: "plain", def: definition("job", "return demo.echo({'n': 1}).n")})
	if plain.AgentTools != nil {
		t.Errorf("a script that mentions no built-in tool is told of %q", plain.AgentTools)
	}
	code := "return list_runs()"
	if r := replayed(t, plain, Options{Code: &code}); !strings.Contains(r.Text(), "undefined: list_runs (only agents can call it") {
		t.Errorf("with other code: %s", r.Text())
	}
}
