package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// clock is a clock that tests set. It advances by a microsecond whenever it is read,
// so that the ids of runs are in the order in which they began.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: noon} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(time.Microsecond)
	return c.t
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

func (c *clock) add(d time.Duration) { c.set(c.now().Add(d)) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// names returns the names of the journal files in dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	files, err := listFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, f := range files {
		all = append(all, f.String())
	}
	return all
}

// record records a run with a call, and returns its id.
func record(t testing.TB, l *Log, name string) string {
	t.Helper()
	r := begin(t, l, Begin{Definition: tools.Definition{Name: name}})
	r.OpenCall(abi.ToolCall{}, "s", "t").Close(Answer{Value: []byte("1")})
	r.Close(Outcome{Result: []byte("1")})
	return r.ID()
}

func TestFileNames(t *testing.T) {
	for _, name := range []string{"journal-2026-11-21.jsonl", "journal-2026-11-21.12.jsonl", "journal-2026-11-21-w2.jsonl", "journal-2026-11-21-w2.1.jsonl"} {
		n, ok := parseName(name)
		if !ok || n.String() != name {
			t.Errorf("%s: %+v, %v, %s", name, n, ok, n)
		}
	}
	for _, name := range []string{"journal-2026-11-21.jsonl.gz", "journal.jsonl", "journal-2026-11-21-.jsonl", "x-journal-2026-11-21.jsonl"} {
		if n, ok := parseName(name); ok {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// TestRotation checks that a new file is begun when one is full or its day is over, and
// that runs that span files are read whole.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	now := newClock()
	l := openLog(t, dir, LogOptions{MaxSize: 1500, Now: now.now})
	long := begin(t, l, Begin{Definition: tools.Definition{Name: "long"}})
	first := long.OpenCall(abi.ToolCall{}, "s", "first")
	for range 5 {
		record(t, l, "short")
	}
	now.set(noon.Add(24 * time.Hour))
	first.Close(Answer{Value: []byte("1")})
	now.set(noon.Add(48 * time.Hour))
	long.Close(Outcome{Result: []byte("2")})
	got := names(t, dir)
	want := []string{"journal-2026-11-21.jsonl", "journal-2026-11-21.1.jsonl", "journal-2026-11-22.jsonl", "journal-2026-11-23.jsonl"}
	if got[0] != want[0] || got[1] != want[1] || !slices.Equal(got[len(got)-2:], want[2:]) {
		t.Errorf("files %q", got)
	}
	for _, name := range got {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() > 1500 {
			t.Errorf("%s: %d bytes, %v", name, info.Size(), err)
		}
	}
	rec, err := Find(t.Context(), dir, long.ID())
	if err != nil || !rec.Done || !rec.Calls[0].Done || string(rec.Outcome.Result) != "2" {
		t.Errorf("%+v, %v", rec, err)
	}
	if runs, faults := scan(dir, Filter{}); len(runs) != 6 || len(faults) > 0 {
		t.Errorf("%d runs, %v", len(runs), faults)
	}
}

// TestAppendsToLastFile checks that another Log appends to the last file of the day.
func TestAppendsToLastFile(t *testing.T) {
	dir := t.TempDir()
	now := newClock()
	for range 4 {
		l := OpenLog(dir, LogOptions{MaxSize: 1700, Now: now.now, Log: quiet()})
		record(t, l, "a")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := names(t, dir)
	if len(got) < 2 || len(got) > 4 || got[1] != "journal-2026-11-21.1.jsonl" {
		t.Errorf("files %q", got)
	}
	if runs, faults := scan(dir, Filter{}); len(runs) != 4 || len(faults) > 0 {
		t.Errorf("%d runs, %v", len(runs), faults)
	}
}

// TestTornLine checks that an incomplete line does not affect the lines before and
// after it.
func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	now := newClock()
	path := filepath.Join(dir, "journal-2026-11-21.jsonl")
	l := OpenLog(dir, LogOptions{Now: now.now, Log: quiet()})
	record(t, l, "a")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := whole[:len(whole)-10]
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	var fault *LineError
	runs, faults := scan(dir, Filter{})
	if len(runs) != 1 || runs[0].Done || len(faults) != 1 || !errors.As(faults[0], &fault) || fault.File != path || fault.Offset == 0 {
		t.Errorf("torn: %+v, %v", runs, faults)
	}
	record(t, openLog(t, dir, LogOptions{Now: now.now}), "b")
	runs, faults = scan(dir, Filter{})
	if len(runs) != 2 || runs[0].Definition.Name != "b" || !runs[0].Done || len(faults) != 1 {
		t.Errorf("gone on: %+v, %v", runs, faults)
	}
}

// TestBadLines checks that lines that are not events are reported and skipped.
func TestBadLines(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{Now: newClock().now})
	id := record(t, l, "a")
	path := filepath.Join(dir, names(t, dir)[0])
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "rubbish\n\n{}\n{\"t\":\"later\",\"run\":\"%s\"}\n{\"t\":\"answer\",\"run\":\"%s\",\"seq\":true}\n{\"t\":\"log\",\"run\":\"%s\",\"entries\":[}\n", id, id, id)
	fmt.Fprintf(f, "{\"t\":\"begin\",\"run\":\"f0\",\"v\":99,\"time\":\"2026-11-21T12:00:00Z\"}\n{\"t\":\"answer\",\"run\":\"%s\",\"seq\":7}\n", id)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	record(t, l, "b")
	runs, faults := scan(dir, Filter{})
	if len(runs) != 2 || len(faults) != 5 {
		t.Errorf("%d runs, faults:\n%v", len(runs), errors.Join(faults...))
	}
	if !runs[1].Done || !runs[1].Incomplete {
		t.Errorf("%+v", runs[1])
	}
	if all := fmt.Sprint(faults); !strings.Contains(all, "later version") {
		t.Error(all)
	}
}

// TestRemoval checks that files that are too old are removed, and the oldest ones when
// all together are too large.
func TestRemoval(t *testing.T) {
	dir := t.TempDir()
	now := newClock()
	l := openLog(t, dir, LogOptions{Now: now.now, MaxAge: 72 * time.Hour, MaxTotal: 1 << 20})
	for range 6 {
		record(t, l, "a")
		now.add(24 * time.Hour)
	}
	want := []string{"journal-2026-11-23.jsonl", "journal-2026-11-24.jsonl", "journal-2026-11-25.jsonl", "journal-2026-11-26.jsonl"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("by age: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.Configure(LogOptions{Now: now.now, MaxTotal: 4000, MaxSize: 2000, Log: quiet()})
	for range 20 {
		record(t, l, "b")
	}
	var total int64
	for _, name := range names(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	// The newest file is not full.
	if got := names(t, dir); total > 4000+2000 || len(got) < 2 || got[0] == want[0] || strings.HasPrefix(got[0], "journal-2026-11-24") {
		t.Errorf("by size: %d bytes in %q", total, got)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Error(err)
	}
}

func TestFilter(t *testing.T) {
	dir := t.TempDir()
	now := newClock()
	l := openLog(t, dir, LogOptions{Now: now.now})
	run := func(name, session string, o *Outcome) *Run {
		r := begin(t, l, Begin{Definition: tools.Definition{Name: name}, Client: Client{Session: session}})
		if o != nil {
			r.Close(*o)
		}
		return r
	}
	run("a", "1", &Outcome{Result: []byte("1")})
	failed := run("b", "2", &Outcome{Error: abi.ErrTool})
	middle := failed.Record().Start
	run("a", "2", nil)
	inner := begin(t, l, Begin{Definition: tools.Definition{Name: "inner"}, Parent: &Parent{failed.ID(), 1}})
	inner.Close(Outcome{})
	for name, test := range map[string]struct {
		f    Filter
		want string
	}{
		"all":         {Filter{}, "a2 b2 a1"},
		"tool":        {Filter{Tool: "a"}, "a2 a1"},
		"session":     {Filter{Session: "2"}, "a2 b2"},
		"ok":          {Filter{Outcome: OK}, "a1"},
		"error":       {Filter{Outcome: string(abi.ErrTool)}, "b2"},
		"unfinished":  {Filter{Outcome: Unfinished}, "a2"},
		"limit":       {Filter{Limit: 2}, "a2 b2"},
		"limit, tool": {Filter{Tool: "a", Limit: 1}, "a2"},
		"since":       {Filter{Since: middle}, "a2 b2"},
		"until":       {Filter{Until: middle}, "a1"},
		"id":          {Filter{ID: failed.ID()}, "b2"},
		"none":        {Filter{ID: "zz"}, ""},
		"long ago":    {Filter{Until: noon.Add(-time.Hour)}, ""},
		"later":       {Filter{Since: noon.Add(time.Hour)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			runs, faults := scan(dir, test.f)
			var got []string
			for _, r := range runs {
				got = append(got, r.Definition.Name+r.Client.Session)
			}
			if s := strings.Join(got, " "); s != test.want || len(faults) > 0 {
				t.Errorf("got %s, %v", s, faults)
			}
		})
	}
}

// TestClockSetBack checks that a run is found if the clock was set back past midnight
// during it, so that its events are in the file of the day before.
func TestClockSetBack(t *testing.T) {
	dir := t.TempDir()
	now := newClock()
	midnight := noon.Add(12 * time.Hour)
	now.set(midnight)
	l := openLog(t, dir, LogOptions{Now: func() time.Time {
		at := now.now()
		now.set(midnight.Add(-time.Second)) // right after the start of the run was set
		return at
	}})
	id := record(t, l, "a")
	if got := names(t, dir); !slices.Equal(got, []string{"journal-2026-11-21.jsonl"}) {
		t.Fatalf("files %q", got)
	}
	rec, err := Find(t.Context(), dir, id)
	if err != nil || !rec.Done || !rec.Start.After(midnight) {
		t.Errorf("found %v, %v", rec.Start, err)
	}
	if runs, faults := scan(dir, Filter{Since: midnight}); len(runs) != 1 || len(faults) > 0 {
		t.Errorf("%d runs since midnight, %v", len(runs), faults)
	}
}
