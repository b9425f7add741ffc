package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// newReplica is newTaskProcess for a replica of a fleet, which has a folder of its own.
func newReplica(t *testing.T, url, dir string, change func(*config.Config)) taskProcess {
	return taskProcess{newCrossing(t, func(cfg *config.Config) {
		setTaskProcess(cfg, dir)
		setFleet(cfg, url)
		if change != nil {
			change(cfg)
		}
	})}
}

// setFleet makes the process of a configuration a replica of a fleet.
func setFleet(cfg *config.Config, url string) {
	cfg.Store.NATS, cfg.Store.Prefix, cfg.Store.Replicas = []string{url}, "fleet", 1
	key := sealed.Key{ID: "a"}
	copy(key.Secret[:], strings.Repeat("k", sealed.KeySize))
	cfg.Store.Keys = []sealed.Key{key}
}

// sharedKeys returns two folders with the same key for what clients return.
func sharedKeys(t *testing.T) (a, b string) {
	t.Helper()
	a, b = t.TempDir(), t.TempDir()
	if _, err := requeststate.LoadKey(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(a, "request-state.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b, "request-state.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// TestTasksOfReplicas checks that the tasks of a replica are known to another one, on what could
// be another machine, when their runs have ended or asked something.
func TestTasksOfReplicas(t *testing.T) {
	t.Parallel()
	url := fleettest.New(t, *long).URL()
	a, b := sharedKeys(t)
	first, second := newReplica(t, url, a, nil), newReplica(t, url, b, nil)
	testTasksElsewhere(t, first, second, func() {
		_ = first.host.fleet.Close() // it leaves the fleet
		for second.host.fleet.Replica(first.host.fleet.ID()).State != fleet.Gone && t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
	})
	log := second.host.recorder.Journal()
	n := 0
	for rec, err := range log.Reader().Scan(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Error(err)
		}
		if rec.Definition.Name == "eval_starlark" {
			n++
		}
	}
	if n != 3 { // one has ended, and one continues one
		t.Errorf("%d runs", n)
	}
}

// TestRequiredJournal checks what [journal] required does in a fleet while the store is away.
func TestRequiredJournal(t *testing.T) {
	t.Parallel()
	place := fleettest.New(t, *long)
	p := newReplica(t, place.URL(), t.TempDir(), func(cfg *config.Config) {
		cfg.Journal.Required = true
		cfg.Execution.TaskAfter = time.Hour
	})
	call := func(code string) string {
		return p.read(p.open("one-token", "tools/call", "eval_starlark", fmt.Sprintf(`"name":"eval_starlark","arguments":{"code":%q}`, code)), `"id":1`)
	}
	if got := call("return 41 + 1"); !strings.Contains(got, `"text":"42"`) {
		t.Fatal(got)
	}
	// The store goes away in the middle of a run: its result waits for the record.
	done := p.call(t.Context(), "one-token", "eval_starlark", `{"code":"return up.t(n=1)"}`, "")
	up := p.next("tools/call")
	place.Cut(true)
	id, _ := wire.Get(up, "id")
	p.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"late"}]}}`, id)
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	defer cancel()
	for p.host.fleet.Away() == nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if got := call("return 1"); !strings.Contains(got, "as [journal] required demands: the store of the fleet has not answered for") || !strings.Contains(got, `"isError":true`) {
		t.Error(got)
	}
	// Of the task of another replica it is not known whether there is one.
	principal := bearerTokens("one-token")[0].Digest.Principal()
	task, err := p.host.router.Sealer.SealHere(requeststate.Task, route.TaskBinding(principal), append([]byte{0}, journal.NewID(time.Now())...), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.about("one-token", "tasks/get", task, ""); !strings.Contains(got, `"message":"tasks/get: the record of this task is in the store of the fleet, which is not available now (try again later)"`) {
		t.Error(got)
	}
	select {
	case got := <-done:
		t.Errorf("the result was given before: %s", got)
	default:
	}
	place.Cut(false)
	p.expect("the result", done, `"text":"late"`)
}
