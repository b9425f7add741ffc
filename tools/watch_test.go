package tools

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// changes opens a store and returns a channel that signals its changes.
func changes(t *testing.T, dir string) (*Store, <-chan struct{}) {
	t.Helper()
	c := make(chan struct{}, 100)
	return openStore(t, dir, StoreOptions{OnChange: func() { c <- struct{}{} }}), c
}

// await fails the test if nothing arrives; the limit is for a broken program, not for a
// slow machine.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("no change is reported: %s", what)
	}
}

func TestOnChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine, seenByMe := changes(t, dir)
	other, seenByOther := changes(t, dir)
	both := func(what string) {
		t.Helper()
		await(t, seenByMe, "to the writer: "+what)
		await(t, seenByOther, "to the other: "+what)
	}
	mustSave(t, mine, tool("a"))
	both("save")
	d := tool("a")
	d.Description = "another"
	mustSave(t, mine, d)
	both("description")
	d.InputSchema = []byte(`{"type":"object","title":"x"}`)
	mustSave(t, mine, d)
	both("schema")
	put(t, other, "b.json", toolJSON("b", "1"))
	both("a file written by hand")

	// Changes that agents do not see are not reported: the next report is the deletion.
	mine.RecordExecution("a", mtime)
	if err := mine.flush(); err != nil {
		t.Fatal(err)
	}
	mustSave(t, mine, d)
	put(t, mine, "note.txt", "hello")
	if err := mine.Delete("a"); err != nil {
		t.Fatal(err)
	}
	both("delete")
	if got := names(other.List()); got != "b" {
		t.Errorf("List: %s", got)
	}
	if len(seenByMe) != 0 || len(seenByOther) != 0 {
		t.Errorf("%d and %d reports too many", len(seenByMe), len(seenByOther))
	}
}

// OnChange may use the store that calls it.
func TestOnChangeMayCallBack(t *testing.T) {
	lists := make(chan string, 100)
	ready := make(chan *Store, 1)
	s := openStore(t, t.TempDir(), StoreOptions{OnChange: func() {
		s := <-ready
		ready <- s
		if _, err := s.Get("b"); err != nil {
			if _, _, err := s.Save(tool("b")); err != nil {
				t.Error(err)
			}
		}
		lists <- names(s.List())
	}})
	ready <- s
	mustSave(t, s, tool("a"))
	if got := <-lists; got != "a b" {
		t.Errorf("List: %s", got)
	}
}

// TestWatchSurvivesNewDirectory checks that the watch follows a directory that is deleted
// and created again.
func TestWatchSurvivesNewDirectory(t *testing.T) {
	t.Parallel()
	s, seen := changes(t, t.TempDir())
	mustSave(t, s, tool("a"))
	await(t, seen, "save")
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	await(t, seen, "the directory is gone")
	mkdirAgain(t, s.Dir())
	put(t, s, "b.json", toolJSON("b", "1"))
	await(t, seen, "a file in the new directory")
	if got := names(s.List()); got != "b" {
		t.Errorf("List: %s", got)
	}
}

// mkdirAgain creates a directory that was just removed. On Windows its name becomes free
// only when everything that had it open has closed it. The watch does so when it notices
// that the directory is gone.
func mkdirAgain(t *testing.T, dir string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; runtime.Gosched() {
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return
		}
		if runtime.GOOS != "windows" || time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

// Without notifications from the system, changes are found by polling.
func TestPolling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := make(chan struct{}, 100)
		s := openStore(t, t.TempDir(), StoreOptions{})
		s.onChange = func() { c <- struct{}{} }
		w := &watcher{store: s, seen: s.visible()}
		if w.interval() != pollBlind {
			t.Errorf("interval %v", w.interval())
		}
		s.routines.Go(w.run)
		put(t, s, "a.json", toolJSON("a", "1"))
		await(t, c, "by polling")
	})
}

// What exists when the store is opened is not a change.
func TestNoChangeAtStart(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tools", "a.json"), []byte(toolJSON("a", "1")), 0o600); err != nil {
		t.Fatal(err)
	}
	s, seen := changes(t, dir)
	w := &watcher{store: s, seen: s.visible()}
	defer w.detach()
	w.check()
	if len(seen) != 0 {
		t.Error("the first check reports a change")
	}
}
