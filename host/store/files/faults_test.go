package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
)

// childEnv is set in processes that write until they are killed: the folder, the log, and the
// fencing number.
const childEnv = "STORE_FILES_TEST_CHILD"

// counterKey is the document that they count in.
var counterKey = store.Key{Collection: "killed", Name: "counter"}

// child writes until it is killed, if this is such a process. It says before each event what it
// is going to write, and afterwards what has become of it.
func child() bool {
	var dir, log string
	var fence uint64
	if n, _ := fmt.Sscan(os.Getenv(childEnv), &dir, &log, &fence); n != 3 {
		return false
	}
	s := Open(Options{Dir: dir, Journal: journal.OpenLog(filepath.Join(dir, "journal"), journal.LogOptions{Log: quiet}), Log: quiet})
	ctx := context.Background()
	if _, err := s.Fence(ctx, log, fence); err != nil {
		fmt.Println("end", err)
		return true
	}
	var at store.Position
	for n := 0; ; n++ {
		e := store.Entry{After: at, Fence: fence, ID: store.NewID(), Data: bytes.Repeat([]byte("x"), 1+rand.IntN(60_000))}
		fmt.Println("try", e.ID, at.Number+1)
		next, err := s.Append(ctx, log, e)
		switch conflict := (*store.ConflictError)(nil); {
		case err == nil:
			fmt.Println("ok", e.ID)
			at = next
		case errors.As(err, &conflict):
			fmt.Println("no", e.ID)
			at, err = storetest.End(ctx, s, log, at)
		default:
			fmt.Println("no", e.ID)
		}
		if err != nil {
			fmt.Println("end", err)
			return true
		}
		if n%4 == 0 {
			fmt.Println("count")
			if err := storetest.Increment(ctx, s, counterKey, store.NewID().String()); err != nil {
				fmt.Println("end", err)
				return true
			}
			fmt.Println("counted")
		}
	}
}

// told is what a process has said before it was killed.
type told struct {
	attempts       map[store.ID]storetest.Attempt
	count, counted int
	end            string
}

// runChild starts a process that writes, and kills it after some of its events.
func runChild(t *testing.T, dir, log string, fence uint64, events int) told {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", childEnv, dir, log, fence))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return told{}
	}
	r := told{attempts: map[store.ID]storetest.Attempt{}}
	lines := bufio.NewScanner(out)
	for written := 0; lines.Scan(); {
		var verb, text string
		a := storetest.Attempt{Fence: fence, Unknown: true}
		fmt.Sscan(lines.Text(), &verb, &text, &a.Number)
		id, _ := store.ParseID(text)
		switch verb {
		case "try":
			a.ID = id
			r.attempts[id] = a
		case "ok", "no":
			a = r.attempts[id]
			a.Unknown, a.Written = false, verb == "ok"
			r.attempts[id] = a
			if written++; written == events {
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond) // anywhere in what follows
				_ = cmd.Process.Kill()
			}
		case "count":
			r.count++
		case "counted":
			r.counted++
		case "end":
			r.end = lines.Text()
		}
	}
	_ = cmd.Wait()
	return r
}

// TestKilled kills processes that write to the same log and count in the same document. Some of
// them are replaced by an owner with a larger fencing number while they write.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := store.NewID().String()
	rounds, together := storetest.Faults(4, 30), 3
	var all []storetest.Attempt
	var count, counted, killed int
	for round := range rounds {
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range together {
			fence := uint64(round)
			if i == 2 {
				fence++
			}
			group.Go(func() {
				r := runChild(t, dir, log, fence, 5+rand.IntN(15))
				mu.Lock()
				defer mu.Unlock()
				for _, a := range r.attempts {
					all = append(all, a)
				}
				count, counted = count+r.count, counted+r.counted
				if r.end == "" {
					killed++
				} else if !strings.Contains(r.end, "later owner") {
					t.Error(r.end)
				}
			})
		}
		group.Wait()
	}
	s := open(t, dir, journal.LogOptions{})
	at, err := s.Fence(t.Context(), log, uint64(rounds)+1)
	if err != nil {
		t.Fatal(err)
	}
	c := storetest.Check(t, s, log, all)
	if n := storetest.Count(t, s, counterKey); n < counted || n > count {
		t.Errorf("the document says %d: %d were confirmed, and %d begun", n, counted, count)
	}
	storetest.Write(t, s, log, at, at.Fence, "it goes on")
	t.Logf("%d processes were killed; %v; %d counted", killed, c, counted)
}

// TestHalfWritten cuts what a process has written last, at every byte of the line and of the
// record in the index: the event is not there, and the next one takes its place.
func TestHalfWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := store.NewID().String()
	s := open(t, dir, journal.LogOptions{})
	first := storetest.Write(t, s, log, store.Position{}, 0, "first")
	path := filepath.Join(dir, "journal", journalFile(t, dir))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Write(t, s, log, first, 0, "second")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(s.indexPath(log))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.opts.Journal.Close()
	for cut := range len(whole) - len(before) {
		for _, records := range []int{2*recordSize - 1, 2 * recordSize} {
			if records < 2*recordSize && cut > 0 {
				continue // the record is written first
			}
			if err := errors.Join(os.WriteFile(path, whole[:len(before)+cut], 0o600), os.WriteFile(s.indexPath(log), index[:records], 0o600)); err != nil {
				t.Fatal(err)
			}
			next := open(t, dir, journal.LogOptions{})
			if events := storetest.Events(t, next, log, store.Position{}); len(events) != 1 || string(events[0].Data) != "first" {
				t.Fatalf("cut at %d: %d events", cut, len(events))
			}
			storetest.Write(t, next, log, first, 0, "third")
			if events := storetest.Events(t, next, log, first); len(events) != 1 || string(events[0].Data) != "third" {
				t.Fatalf("cut at %d: %d events", cut, len(events))
			}
			next.Close()
			next.opts.Journal.Close()
		}
	}
}

func journalFile(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "journal", "journal-*.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q %v", found, err)
	}
	return filepath.Base(found[0])
}

// TestDamaged changes what is on disk: it is noticed, and nothing else is read in its place.
func TestDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, other := store.NewID().String(), store.NewID().String()
	s := open(t, dir, journal.LogOptions{})
	var at store.Position
	for _, text := range []string{"one", "two", "three"} {
		at = storetest.Write(t, s, log, at, 0, text)
	}
	storetest.Write(t, s, other, store.Position{}, 0, "other")
	path := filepath.Join(dir, "journal", journalFile(t, dir))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	readError := func() (last error) {
		for _, err := range s.Read(t.Context(), log, store.Position{}) {
			last = err
		}
		return last
	}
	damaged := bytes.Replace(whole, []byte(log), []byte(other), 1)
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if corrupt := (*store.CorruptError)(nil); !errors.As(readError(), &corrupt) {
		t.Errorf("a changed line: %v", readError())
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readError(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := readError(); !errors.Is(err, store.ErrGone) {
		t.Errorf("a removed file: %v", err)
	}
	digest, err := s.PutBlob(t.Context(), []byte("blob"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.blobPath(digest), []byte("bl0b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Blob(t.Context(), digest); !errors.As(err, new(*store.CorruptError)) {
		t.Errorf("a changed blob: %v", err)
	}
	if _, err := s.PutBlob(t.Context(), []byte("blob")); err != nil {
		t.Error(err)
	}
	if data, err := s.Blob(t.Context(), digest); err != nil || string(data) != "blob" {
		t.Errorf("a blob that was put again: %q %v", data, err)
	}
}

// TestJournalReads checks that a run whose events were appended here is one that readers of the
// journal know, and that they do not mind events with other bytes.
func TestJournalReads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := journal.Open(journal.Begin{Params: []byte(`{"a":1}`)})
	run.Close(journal.Outcome{Result: []byte(`"done"`)})
	var text bytes.Buffer
	if err := journal.Encode(&text, run.Record()); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, journal.LogOptions{})
	var at store.Position
	for line := range strings.Lines(text.String()) {
		at = storetest.Write(t, s, run.ID(), at, 0, strings.TrimSpace(line))
	}
	storetest.Write(t, s, run.ID(), at, 0, "\x00 other bytes")
	found, err := journal.Find(t.Context(), filepath.Join(dir, "journal"), run.ID())
	if err != nil || string(found.Outcome.Result) != `"done"` || string(found.Params) != `{"a":1}` {
		t.Fatalf("%+v %v", found, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "journal", journalFile(t, dir)))
	if err != nil || !strings.HasPrefix(string(raw), text.String()) {
		t.Fatalf("the journal has other lines: %v", err)
	}
}

// TestSavedTools checks that a collection is the folder that users know.
func TestSavedTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, journal.LogOptions{})
	for key, path := range map[store.Key]string{
		{Collection: Tools, Name: "Add_one"}:                                     "tools/Add_one.json",
		{Collection: History, Name: "Add_one/000001-20260131T120000.000Z-saved"}: "tools/.history/Add_one/000001-20260131T120000.000Z-saved.json",
		{Collection: Approvals, Name: "4kqzx"}:                                   "approvals/queue/4kqzx.json",
		{Collection: Remembered, Name: "4kqzx"}:                                  "approvals/remembered/4kqzx.json",
		{Collection: "other", Name: "Add/one"}:                                   "documents/other/%41dd%2fone.doc",
	} {
		if _, err := s.Put(t.Context(), key, "", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path))); err != nil || string(data) != "{}" {
			t.Errorf("%s: %q %v", path, data, err)
		}
		if found := storetest.Documents(t, s, key.Collection); len(found) != 1 || found[key.Name] != "{}" {
			t.Errorf("%s: %v", key, found)
		}
	}
	for _, key := range []store.Key{
		{Collection: Tools, Name: "../x"}, {Collection: Tools, Name: "con"}, {Collection: Tools, Name: ".lock"}, {Collection: History, Name: "x"},
		{Collection: History, Name: "../000001-20260131T120000.000Z-saved"}, {Collection: History, Name: "a/../../000001-1-saved"}, {Collection: Approvals, Name: "../x"},
	} {
		if _, err := s.Put(t.Context(), key, "", nil); !errors.As(err, new(*store.NameError)) {
			t.Errorf("%s: %v", key, err)
		}
	}
	// A person edits the file: it has another version.
	key := store.Key{Collection: Tools, Name: "Add_one"}
	d, err := s.Get(t.Context(), key)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tools", "Add_one.json"), []byte(`{"a": 1}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), key, d.Version, nil); !errors.As(err, new(*store.ConflictError)) {
		t.Errorf("an edited file: %v", err)
	}
}
