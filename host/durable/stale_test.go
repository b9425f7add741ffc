//go:build unix

package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestStale stops a process with SIGSTOP in the middle of a call until its lease is over.
// Another process goes on with the run and ends it. When the first is continued, it gets its
// answer, and must not make the next call.
func TestStale(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	saveScripts(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Deadline(time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, self, dir, "steps", `{"of":"0"}`, "hold 2")
	cmd.Env = append(os.Environ(), roleEnv+"=proxy")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitLines(t, dir, 2)
	stopUnlocked(t, cmd.Process, filepath.Join(dir, "store", "durable"))
	stop, _ := goOn(t, dir, proxyTTL)
	defer stop()
	awaitEnd(t, configuration(dir, map[string]string{}))
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); !strings.Contains(stderr.String(), durable.ErrLost.Error()) {
		t.Errorf("the stale process: %v\n%s", err, &stderr)
	}
	compareKilled(t, dir, []killCase{
		{"steps", "stopped", true, "", "ok [1,2,3]", "add 1, put 2, put 2, add 3"},
	}, configuration(dir, map[string]string{}))
}

// stopUnlocked stops a process while it has no lock in a folder: nothing could take that from it.
func stopUnlocked(t *testing.T, p *os.Process, dir string) {
	for {
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("the process did not stop: %v, status %v", err, status)
		}
		locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
		if err != nil || len(locks) == 0 {
			t.Fatal("no locks", err)
		}
		held := false
		for _, path := range locks {
			lock := regular.NewLock(path)
			free, err := lock.TryLock()
			if err := errors.Join(err, lock.Close()); err != nil {
				t.Fatal(err)
			}
			held = held || !free
		}
		if !held {
			return
		}
		if err := p.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// onceAway is a Store that is not available when it is to be fenced for the first time.
type onceAway struct {
	durable.Store
	was atomic.Bool
}

func (s *onceAway) Fence(ctx context.Context, log string, number uint64) (store.Position, error) {
	if !s.was.Swap(true) {
		return store.Position{}, fmt.Errorf("log %s: %w", log, store.ErrUnavailable)
	}
	return s.Store.Fence(ctx, log, number)
}

// TestTakenAgain checks that a process takes a run which it could not take when the store was away.
func TestTakenAgain(t *testing.T) {
	dir := t.TempDir()
	saveScripts(t, dir)
	cases := []killCase{{"steps", "after 3", true, "", "ok [1,2,3]", "add 1, put 2, add 3"}}
	killAll(t, dir, cases)
	away := &onceAway{}
	stop, said := goOn(t, dir, proxyTTL, func(s durable.Store) durable.Store { away.Store = s; return away })
	defer stop()
	cfg := configuration(dir, map[string]string{})
	awaitEnd(t, cfg)
	compareKilled(t, dir, cases, cfg)
	if !strings.Contains(said.String(), "cannot be taken now") {
		t.Errorf("the store was not away; log:\n%s", said)
	}
}

// TestSecondKill kills a process that goes on with a run, too.
func TestSecondKill(t *testing.T) {
	dir := t.TempDir()
	saveScripts(t, dir)
	killAll(t, dir, []killCase{{"steps", "after 3", true, "", "", ""}}) // the answer of add 1 is in the log
	killAll(t, dir, []killCase{{"", "after 3", true, "", "", ""}})      // its own event: the answer of put 2
	stop, _ := goOn(t, dir, 0)
	defer stop()
	cfg := configuration(dir, map[string]string{})
	awaitEnd(t, cfg)
	compareKilled(t, dir, []killCase{{"steps", "twice", true, "", "ok [1,2,3]", "add 1, put 2, add 3"}}, cfg)
}

// TestOtherGuest checks that a run which needs another guest is left alone, and can be
// cancelled.
func TestOtherGuest(t *testing.T) {
	dir := t.TempDir()
	saveScripts(t, dir)
	cfg := configuration(dir, map[string]string{})
	folder := durable.NewFolder(filepath.Join(cfg.Store.Dir, "durable"))
	stop, said := goOn(t, dir, proxyTTL)
	defer stop()
	runs, err := host.OpenRuns(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Close(t.Context())
	id := journal.NewID(time.Now())
	begin := journal.Begin{Params: []byte(`{"of":"0"}`), Guest: "another", Saved: true}
	begin.Definition.Name, begin.Definition.Code = "steps", scripts["steps"]
	writer := withOwner(t, cfg, folder)
	r, err := writer.Begin(t.Context(), id, time.Now(), &begin, durable.About{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testenv.Deadline(time.Minute)); !strings.Contains(said.String(), "with guest another"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the proxy does not say that it leaves the run")
		}
	}
	open, err := runs.Look(t.Context(), id)
	if err != nil || open.Held || open.State.Owners != 1 {
		t.Fatalf("%+v, %v", open, err)
	}
	if err := runs.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, cfg)
	found := false
	for rec := range journal.Scan(t.Context(), cfg.JournalDir(), journal.Filter{}) {
		found = found || rec.Continues == id && strings.Contains(rec.Outcome.Message, "cancelled by its id")
	}
	if !found {
		t.Error("the journal does not say that the run was cancelled")
	}
}
