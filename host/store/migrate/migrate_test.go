package migrate

import (
	"bytes"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// inFiles returns the store and the journal of a folder.
func inFiles(t *testing.T, dir string, now func() time.Time) (End, *journal.Log) {
	t.Helper()
	log := journal.OpenLog(filepath.Join(dir, "journal"), journal.LogOptions{Log: quiet, Now: now, MaxAge: 100 * 365 * 24 * time.Hour})
	s := files.Open(files.Options{Dir: dir, Journal: log, Log: quiet})
	t.Cleanup(func() {
		s.Close()
		log.Close()
	})
	return End{s, log.Dir()}, log
}

// runs returns the runs in a journal, as text.
func runs(t *testing.T, end End) []string {
	t.Helper()
	var all []string
	for r, err := range journal.Scan(t.Context(), end.Journal, journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := journal.Encode(&text, r); err != nil {
			t.Fatal(err)
		}
		all = append(all, text.String())
	}
	slices.Sort(all)
	return all
}

// TestThereAndBack copies tools, their history and the journal of a user into an encrypted store
// of a fleet, and from there into another folder. Nothing is lost or changed on the way, and
// nothing is copied twice.
func TestThereAndBack(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	first, log := inFiles(t, t.TempDir(), func() time.Time { return now })
	for day := range 3 {
		r, err := log.Open(journal.Begin{Params: []byte(`{"day":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		call := r.OpenCall(abi.ToolCall{Server: "s", Tool: "t"}, "s", "t")
		nested, err := log.Open(journal.Begin{Parent: &journal.Parent{Run: r.ID(), Call: call.Seq()}})
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Duration(day) * 13 * time.Hour) // it goes on the next day
		nested.Close(journal.Outcome{Result: []byte("1")})
		call.Close(journal.Answer{Result: []byte(`{"content":[]}`), Value: []byte("1")})
		r.Close(journal.Outcome{Result: []byte(`"done"`)})
		now = now.Add(24 * time.Hour)
	}
	collections := []string{files.Tools, files.History, "other"}
	for _, key := range []store.Key{
		{Collection: files.Tools, Name: "Add_one"}, {Collection: files.History, Name: "Add_one/000001-20260131T120000.000Z-saved"},
		{Collection: "other", Name: "a/b"},
	} {
		if _, err := first.Store.Put(t.Context(), key, "", []byte(key.String())); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 4 {
		log.Proxied(journal.Proxied{Start: now.Add(time.Duration(n) * 5 * time.Hour), Server: "s", Tool: "t", Outcome: journal.OK})
	}
	if _, err := log.Open(journal.Begin{}); err != nil { // it does not end
		t.Fatal(err)
	}
	ring, err := sealed.NewRing(sealed.Key{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	middle := End{Store: sealed.New(memorytest.New(t).MustOpen(t), ring, "fleet")}
	t.Cleanup(func() { middle.Store.Close() })
	second, _ := inFiles(t, t.TempDir(), func() time.Time { return now })
	options := Options{Collections: collections, Runs: true, Fleet: "fleet", Log: quiet}
	for _, way := range [][2]End{{first, middle}, {middle, second}} {
		for _, want := range []Report{{Count{Copied: 3}, Count{Copied: 3}, Count{Copied: 4}}, {Count{Same: 3}, Count{Same: 3}, Count{Same: 4}}} {
			for _, dry := range []bool{true, false} {
				options.DryRun = dry
				r, err := Copy(t.Context(), way[0], way[1], options)
				if err != nil || r.Documents.String() != want.Documents.String() || r.Runs.String() != want.Runs.String() || r.Calls.String() != want.Calls.String() {
					t.Fatalf("dry run %v: %v, error %v, want %v", dry, r, err, want)
				}
			}
		}
	}
	if a, b := runs(t, first)[:3], runs(t, second); len(b) != 3 || !slices.Equal(a, b) {
		t.Errorf("runs\n%s\nare\n%s", a, b)
	}
	for _, c := range collections {
		if a, b := storetest.Documents(t, first.Store, c), storetest.Documents(t, second.Store, c); len(a) != 1 || !maps.Equal(a, b) {
			t.Errorf("%s: %v are %v", c, a, b)
		}
	}
	// What is different is not replaced.
	key := store.Key{Collection: "other", Name: "a/b"}
	d, err := second.Store.Get(t.Context(), key)
	if err == nil {
		_, err = second.Store.Put(t.Context(), key, d.Version, []byte("changed"))
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(second.Journal, "journal-2026-05-01-*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err == nil {
		err = os.WriteFile(files[0], bytes.ReplaceAll(text, []byte(`"done"`), []byte(`"gone"`)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := Copy(t.Context(), middle, second, options)
	if err != nil || len(r.Documents.Different) != 1 || len(r.Runs.Different) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if d, err := second.Store.Get(t.Context(), key); err != nil || string(d.Data) != "changed" {
		t.Errorf("%s %v", d.Data, err)
	}
}
