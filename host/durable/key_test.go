package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// TestKeys checks that idempotency keys are the same after another process has taken the run, and
// unlike those of all other calls, and that who knows the id of the run cannot compute them. The
// keys of a run that a version before began, whose log has no secret, stay as they were.
func TestKeys(t *testing.T) {
	for _, before := range []bool{false, true} {
		d := NewFolder(t.TempDir())
		first := newRuns(t, d, 1)
		var r *Run
		if before {
			r = begunBefore(t, first)
		} else {
			r = begun(t, first)
		}
		child := journal.NewID(time.Now())
		keys := map[string]string{}
		for _, run := range []string{r.ID(), child} {
			for seq := range 100 {
				call := fmt.Sprintf("mcp-metatool call 1\n%s\n%s\n%d\n", r.ID(), run, seq)
				key, sum := r.Key(run, seq), sha256.Sum256([]byte(call))
				if len(key) != 32 || keys[key] != "" || (key == hex.EncodeToString(sum[:16])) != before {
					t.Fatalf("before %t: call %d has the key %s", before, seq, key)
				}
				keys[key] = call
			}
		}
		if err := r.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			taken, _, err := newRuns(t, d, 1).Take(t.Context(), r.ID())
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range []string{r.ID(), child} {
				for seq := range 100 {
					if keys[taken.Key(run, seq)] != fmt.Sprintf("mcp-metatool call 1\n%s\n%s\n%d\n", r.ID(), run, seq) {
						t.Fatalf("before %t: call %d has another key in the next process", before, seq)
					}
				}
			}
			if err := taken.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		other := begun(t, first)
		for seq := range 100 {
			if keys[other.Key(other.ID(), seq)] != "" {
				t.Errorf("two runs have the key of call %d", seq)
			}
		}
	}
}

// begunBefore returns a run as a version before began it.
func begunBefore(t *testing.T, runs *Runs) *Run {
	t.Helper()
	start := time.Now()
	id := journal.NewID(start)
	l, err := runs.leases.Create(t.Context(), id, held{Record: id}.bytes())
	if err != nil {
		t.Fatal(err)
	}
	r := runs.newRun(id, l, held{Record: id})
	if r.at, err = runs.opts.Store.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r.lines.Begin(id, start, &journal.Begin{Params: []byte(`{}`)})
	if err := r.commit(t.Context(), event{Kind: kindAbout, Run: id, About: &About{}, Record: id}); err != nil {
		t.Fatal(err)
	}
	return r
}
