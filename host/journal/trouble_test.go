package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// troubleLog collects the calls of LogOptions.Trouble.
type troubleLog []error

func (t *troubleLog) add(err error) { *t = append(*t, err) }

// TestUnwritable checks that a journal without a directory is reported once, tried
// again after a while, and reported again when it works.
func TestUnwritable(t *testing.T) {
	place := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(place, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(place, "logs")
	now := newClock()
	var all troubleLog
	l := openLog(t, dir, LogOptions{Now: now.now, Trouble: all.add})
	lost := begin(t, l, Begin{Definition: tools.Definition{Name: "lost"}})
	record(t, l, "lost")
	var failed *WriteError
	if len(all) != 1 || !errors.As(all[0], &failed) || failed.Dir != dir {
		t.Fatalf("reported %v", all)
	}
	if msg := all[0].Error(); !strings.Contains(msg, dir) || !strings.Contains(msg, "journal.dir") {
		t.Errorf("message: %s", msg)
	}
	if lost.Record().Definition.Name != "lost" {
		t.Error("the record in memory is lost as well")
	}

	if err := os.Remove(place); err != nil {
		t.Fatal(err)
	}
	record(t, l, "too early")
	now.add(retryAfter)
	record(t, l, "again")
	if len(all) != 2 || all[1] != nil {
		t.Errorf("reported %v", all)
	}
	lost.Close(Outcome{})
	runs, faults := scan(dir, Filter{})
	if len(runs) != 1 || runs[0].Definition.Name != "again" || len(faults) > 0 {
		t.Errorf("%+v, %v", runs, faults)
	}
}

// TestRequired checks that runs that cannot be recorded are refused if the journal is
// required.
func TestRequired(t *testing.T) {
	place := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(place, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(place, "logs")
	now := newClock()
	var all troubleLog
	l := openLog(t, dir, LogOptions{Now: now.now, Required: true, Trouble: all.add})
	for range 2 {
		var failed *WriteError
		if r, err := l.Open(Begin{}); r != nil || !errors.As(err, &failed) || errors.Is(err, fs.ErrExist) {
			t.Errorf("%v, %v", r, err)
		}
	}
	if len(all) != 1 {
		t.Errorf("reported %v", all)
	}
	if err := os.Remove(place); err != nil {
		t.Fatal(err)
	}
	now.add(retryAfter)
	record(t, l, "again")
	l.Configure(LogOptions{Log: quiet()})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Open(Begin{}); r == nil || err != nil {
		t.Errorf("not required any more, and closed: %v", err)
	}
	l.Configure(LogOptions{Log: quiet(), Required: true})
	if _, err := l.Open(Begin{}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestSync checks that syncing reaches the last event. That concurrent syncs share one
// call does not show here.
func TestSync(t *testing.T) {
	for _, sync := range []Sync{SyncRun, SyncAlways} {
		dir := t.TempDir()
		l := openLog(t, dir, LogOptions{Sync: sync, MaxSize: 2000})
		done := make(chan string)
		for range 8 {
			go func() {
				r, err := l.Open(Begin{})
				if err != nil {
					t.Error(err)
				}
				r.OpenCall(abi.ToolCall{}, "s", "t").Close(Answer{Value: []byte("1")})
				r.Close(Outcome{})
				done <- r.ID()
			}()
		}
		for range 8 {
			if rec, err := Find(t.Context(), dir, <-done); err != nil || !rec.Done || rec.Incomplete {
				t.Errorf("%+v, %v", rec, err)
			}
		}
		l.mu.Lock()
		if end := l.files.position(); l.synced.before(end) {
			t.Errorf("%s: synced to %v of %v", sync, l.synced, end)
		}
		l.mu.Unlock()
	}
}
