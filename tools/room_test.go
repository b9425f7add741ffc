package tools

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fixedRoom is a Room of so many bytes.
type fixedRoom struct {
	mu         sync.Mutex
	used, most int
}

func (r *fixedRoom) Add(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.most {
		return errors.New("there is no more room")
	}
	r.used += n
	return nil
}

func (r *fixedRoom) Sub(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
}

func (r *fixedRoom) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most - r.used
}

// fill leaves no room.
func (r *fixedRoom) fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = r.used
}

// large returns a tool whose schema has a description of n bytes.
func large(name string, n int) Definition {
	d := tool(name)
	d.InputSchema = fmt.Appendf(nil, `{"type":"object","description":%q}`, strings.Repeat("d", n))
	return d
}

// TestRoom saves tools until there is no room, and checks that the next one is refused and leaves
// nothing, that what is smaller or gone gives its room back, and that Close returns all.
func TestRoom(t *testing.T) {
	t.Parallel()
	const size = 100_000
	r := &fixedRoom{most: 5*copiesOfTool*size + 8*roomOfTool}
	s := openStore(t, t.TempDir(), StoreOptions{Room: r})
	for i := range 5 {
		mustSave(t, s, large(fmt.Sprint("t", i), size-1000))
	}
	before := r.left()
	refused := func(d Definition) {
		t.Helper()
		var full *RoomError
		if _, _, err := s.Save(d); !errors.As(err, &full) || full.Name != d.Name || !strings.Contains(err.Error(), "no more room") {
			t.Errorf("saved beyond the room: %v", err)
		}
		if r.left() != before {
			t.Errorf("a refused tool has %d bytes", before-r.left())
		}
	}
	refused(large("more", size))
	if _, err := os.Stat(filepath.Join(s.Dir(), "more.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused tool has a file: %v", err)
	}
	refused(large("t0", 2*size))
	if d, err := s.Get("t0"); err != nil || len(d.InputSchema) > size {
		t.Errorf("a refused form: %d bytes, %v", len(d.InputSchema), err)
	}
	if kept, err := s.History("t0"); err != nil || len(kept) != 0 {
		t.Errorf("a refused form has made versions: %v, %v", kept, err)
	}
	mustSave(t, s, large("t0", 10)) // smaller
	mustSave(t, s, large("more", size-1000))
	if err := s.Delete("t1"); err != nil {
		t.Fatal(err)
	}
	mustSave(t, s, large("again", size-1000))
	for range 10 { // executions are counted though there is no room
		r.fill()
		s.RecordExecution("t2", mtime)
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(s.List()); got != "again more t0 t2 t3 t4" {
		t.Errorf("tools: %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r.used != 0 {
		t.Errorf("a closed store has %d bytes", r.used)
	}
}

// TestLeftOut opens a folder with more than there is room for. What fits is used, whatever way
// the rest came; the rest is reported once, can be replaced and deleted, and is used when there
// is room.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	const size = 50_000
	dir := t.TempDir()
	all := openStore(t, dir, StoreOptions{})
	for i := range 6 {
		mustSave(t, all, large(fmt.Sprint("t", i), size-1000))
	}
	var log bytes.Buffer
	r := &fixedRoom{most: 3*copiesOfTool*size + 4*roomOfTool}
	s := openStore(t, dir, StoreOptions{Room: r, Log: slog.New(slog.NewTextHandler(&log, nil))})
	check := func(loaded, left string) {
		t.Helper()
		if got := names(s.List()); got != loaded {
			t.Errorf("loaded: %s, want %s", got, loaded)
		}
		var problems []string
		for _, p := range s.Problems() {
			if !errors.As(p.Err, new(*RoomError)) {
				t.Error(p)
			}
			problems = append(problems, p.Name)
		}
		if got := strings.Join(problems, " "); got != left {
			t.Errorf("left out: %s, want %s", got, left)
		}
	}
	for range 3 {
		check("t0 t1 t2", "t3 t4 t5")
	}
	if n := strings.Count(log.String(), "saved tool is skipped"); n != 3 {
		t.Errorf("%d warnings\n%s", n, log.String())
	}
	if _, err := s.Get("t4"); !errors.As(err, new(*RoomError)) {
		t.Errorf("Get: %v", err)
	}
	mustSave(t, s, large("t4", 10)) // replaced by one that fits
	check("t0 t1 t2 t4", "t3 t5")
	if kept, err := s.History("t4"); err != nil || len(kept) != 1 || len(kept[0].Definition.InputSchema) < size-1000 {
		t.Errorf("the form that was left out is no version: %v, %v", kept, err)
	}
	if err := s.Delete("t5"); err != nil {
		t.Errorf("what is left out cannot be deleted: %v", err)
	}
	check("t0 t1 t2 t4", "t3")
	if err := all.Delete("t0"); err != nil { // by another process
		t.Fatal(err)
	}
	check("t1 t2 t3 t4", "")
	mustSave(t, all, large("t1", 3*size)) // by another process
	check("t2 t3 t4", "t1")
}

// TestOpeningCompilesNothing checks that schemas are compiled when they are needed first.
func TestOpeningCompilesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := openStore(t, dir, StoreOptions{})
	for i := range 3 {
		mustSave(t, first, tool(fmt.Sprint("t", i)))
	}
	kept := NewSchemas(DefaultSchemas)
	s := openStore(t, dir, StoreOptions{Schemas: kept})
	all := s.List()
	if len(all) != 3 || len(kept.byText) != 0 {
		t.Fatalf("%d tools, %d schemas compiled", len(all), len(kept.byText))
	}
	turns := 0
	for range 2 {
		if _, err := all[0].Input(func(uint64) func() { turns++; return func() {} }); err != nil {
			t.Fatal(err)
		}
	}
	if turns != 1 || len(kept.byText) != 1 {
		t.Errorf("%d turns, %d schemas", turns, len(kept.byText))
	}
}
