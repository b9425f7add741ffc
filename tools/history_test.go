package tools

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// past returns the history of a tool in short: "2 deleted code-b, 1 saved code-a".
func past(t testing.TB, s *Store, name string) string {
	t.Helper()
	versions, err := s.History(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range versions {
		what := v.Definition.Code
		if v.Problem != nil {
			what = "unreadable"
		}
		out = append(out, fmt.Sprintf("%d %s %s", v.Number, v.EndedBy, what))
	}
	return strings.Join(out, ", ")
}

func coded(name, code string) Definition {
	d := tool(name)
	d.Code = code
	return d
}

func mustRevert(t testing.TB, s *Store, name string, number int) Version {
	t.Helper()
	to, changed, err := s.Revert(name, number)
	if err != nil || !changed {
		t.Fatalf("revert to %d: changed %v, %v", number, changed, err)
	}
	return to
}

func TestHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, StoreOptions{})
	other := openStore(t, dir, StoreOptions{}) // like another process
	expect := func(want string) {
		t.Helper()
		if got := past(t, s, "a"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, err := s.History("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
	first := mustSave(t, s, coded("a", "A"))
	mustSave(t, s, coded("a", "A")) // no change
	before := time.Now()
	s.RecordExecution("a", before)
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	expect("")
	mustSave(t, other, coded("a", "B"))
	expect("1 saved A")
	versions, _ := s.History("a")
	if v := versions[0]; v.Ended.Before(before.Add(-time.Second)) || v.Definition.Hash() != first.Hash() || v.Size < 50 ||
		v.Definition.Metadata.ExecutionCount != 1 || !v.Definition.Metadata.Created.Equal(first.Metadata.Created) {
		t.Errorf("version %+v", v)
	}
	if _, _, err := s.Import(coded("a", "C")); err != nil {
		t.Fatal(err)
	}
	expect("2 imported B, 1 saved A")
	mustRevert(t, s, "a", 1)
	expect("3 reverted C, 2 imported B, 1 saved A")
	mustRevert(t, s, "a", 0)
	expect("4 reverted A, 3 reverted C, 2 imported B, 1 saved A")
	if d, _ := s.Get("a"); d.Code != "C" || d.Metadata.ExecutionCount != 1 {
		t.Errorf("now %+v", d)
	}
	if _, changed, err := s.Revert("a", 3); changed || err != nil {
		t.Errorf("to what is there: %v, %v", changed, err)
	}
	if err := other.Delete("a"); err != nil {
		t.Fatal(err)
	}
	expect("5 deleted C, 4 reverted A, 3 reverted C, 2 imported B, 1 saved A")
	if _, _, err := s.Revert("a", 9); !errors.Is(err, ErrNoVersion) {
		t.Errorf("to nothing: %v", err)
	}
	mustRevert(t, s, "a", 0)
	if d, err := s.Get("a"); err != nil || d.Code != "C" || d.Metadata.ExecutionCount != 1 || !d.Metadata.Created.Equal(first.Metadata.Created) {
		t.Errorf("back again %+v, %v", d, err)
	}
	expect("5 deleted C, 4 reverted A, 3 reverted C, 2 imported B, 1 saved A")
	if got, err := s.Histories(); err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("histories %v, %v", got, err)
	}
	if got := names(s.List()); got != "a" || s.Problems() != nil {
		t.Errorf("tools %s, problems %v", got, s.Problems())
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	a, b := tool("a"), tool("a")
	b.Code, b.OutputSchema, b.Limits, b.Description = "", []byte(`{}`), Limits{Calls: 1}, "x"
	if got := strings.Join(a.Changes(&b), " "); got != "description outputSchema limits code" {
		t.Errorf("got %s", got)
	}
	b = tool("b")
	b.InputSchema, b.Description, b.Metadata.ExecutionCount = []byte(`{"type":"object" }`), a.Description, 7
	if got := strings.Join(a.Changes(&b), " "); got != "name inputSchema" {
		t.Errorf("got %s", got)
	}
}

// TestRevertRestoresUnknownMembers checks that unknown members belong to a version.
func TestRevertRestoresUnknownMembers(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, coded("a", "A"))
	next := coded("a", "B")
	next.Extra = []Member{{"later", []byte("true")}}
	mustSave(t, s, next)
	mustRevert(t, s, "a", 1)
	if d, _ := s.Get("a"); d.Extra != nil {
		t.Errorf("extra %v", d.Extra)
	}
	mustRevert(t, s, "a", 2)
	if d, _ := s.Get("a"); len(d.Extra) != 1 {
		t.Errorf("extra %v", d.Extra)
	}
}

// TestHistoryWhileReplaced reads a history while one of its files gets another name, as when a later
// change keeps the same form again: no version is missing.
func TestHistoryWhileReplaced(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	for _, code := range []string{"1", "2", "3", "4"} {
		mustSave(t, s, coded("a", code))
	}
	want := past(t, s, "a")
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	kept, err := versionFiles(root, "a")
	if err != nil || len(kept) != 3 {
		t.Fatalf("%v, %v", kept, err)
	}
	file := func(k versionFile) string { return path.Join(historyDir, "a", k.name()) }
	now := kept[1]
	for i := range 1000 {
		next := now
		next.ended = now.ended.Add(time.Millisecond)
		renamed := make(chan error)
		go func() { renamed <- regular.Rename(root, file(now), file(next)) }()
		got := past(t, s, "a")
		if err := <-renamed; err != nil {
			t.Fatal(err)
		}
		if now = next; got != want {
			t.Fatalf("read %d is %q, want %q", i, got, want)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	for i := range MaxVersions + 3 {
		mustSave(t, s, coded("a", fmt.Sprint(i)))
	}
	versions, err := s.History("a")
	if err != nil || len(versions) != MaxVersions {
		t.Fatalf("%d versions, %v", len(versions), err)
	}
	if v := versions[0]; v.Number != MaxVersions+2 || v.Definition.Code != fmt.Sprint(MaxVersions+1) {
		t.Errorf("newest %+v", v)
	}
}

func TestDeletedToolsAreBounded(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, coded("stays", "A"))
	mustSave(t, s, coded("stays", "B"))
	for i := range MaxDeleted + 1 { // long ago, in the order of the numbers
		k := versionFile{number: 1, ended: mtime.Add(time.Duration(i) * time.Hour), endedBy: Deleted}
		folder := filepath.Join(s.Dir(), historyDir, fmt.Sprint("t", i))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, k.name()), []byte(toolJSON(fmt.Sprint("t", i), "x")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustSave(t, s, coded("z", "A"))
	if err := s.Delete("z"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Histories()
	if err != nil || len(got) != MaxDeleted+1 || slices.Contains(got, "t0") || slices.Contains(got, "t1") ||
		!slices.Contains(got, "z") || !slices.Contains(got, "stays") {
		t.Errorf("histories %v, %v", got, err)
	}
}

// TestHistoryWithForeignFiles checks that files from a crash or from others in the history
// do no harm.
func TestHistoryWithForeignFiles(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, coded("a", "A"))
	mustSave(t, s, coded("a", "B"))
	folder := filepath.Join(s.Dir(), historyDir, "a")
	for _, name := range []string{
		"000007-20260131T120000.000Z-saved.json", // an incomplete file
		"000006-20260131T120000.000Z.json", "6-20260131T120000.000Z-saved.json", "notes.txt", regular.TempPrefix + "x",
		"-00001-20260131T120000.000Z-saved.json", "000005-20260131T120000.000Z-saved", "..json",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(`{"version":"1.0","na`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := past(t, s, "a"); got != "7 saved unreadable, 1 saved A" {
		t.Errorf("got %q", got)
	}
	if _, _, err := s.Revert("a", 7); err == nil || !strings.Contains(err.Error(), "version 7 cannot be used: not valid JSON") {
		t.Errorf("revert: %v", err)
	}
	mustRevert(t, s, "a", 0)
	if got := past(t, s, "a"); got != "8 reverted B, 7 saved unreadable, 1 saved A" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"", "..", "../a", "a/b", "/etc", ".history"} {
		if _, err := s.History(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("history of %q: %v", name, err)
		}
	}
}

func TestHistoryIsPrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, coded("a", "A"))
	mustSave(t, s, coded("a", "B"))
	files := 0
	err := filepath.WalkDir(filepath.Join(s.Dir(), historyDir), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files != 1 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestNoChangeWithoutHistory checks that nothing is overwritten or deleted if the version cannot
// be kept.
func TestNoChangeWithoutHistory(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, coded("a", "A"))
	put(t, s, historyDir, "in the way")
	want := "history cannot be read"
	if runtime.GOOS == "windows" { // a path through a file does not exist there
		want = "cannot be"
	}
	if _, _, err := s.Save(coded("a", "B")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("save: %v", err)
	}
	if err := s.Delete("a"); err == nil {
		t.Error("deleted")
	}
	if d, err := s.Get("a"); err != nil || d.Code != "A" {
		t.Errorf("now %+v, %v", d, err)
	}
	mustSave(t, s, coded("b", "A")) // a new tool has no earlier version
	if left, _ := filepath.Glob(filepath.Join(s.Dir(), regular.TempPrefix+"*")); left != nil {
		t.Errorf("left over: %v", left)
	}
	if err := os.Remove(filepath.Join(s.Dir(), historyDir)); err != nil {
		t.Fatal(err)
	}
	// If writing fails after the version was kept, the next attempt does not keep it again.
	d, _ := s.Get("a")
	for range 2 {
		err := s.exclusive(lockWait, func(root *os.Root) error { return s.keepVersion(root, &d, Imported, time.Now(), nil) })
		if err != nil {
			t.Fatal(err)
		}
		if got := past(t, s, "a"); got != "" {
			t.Errorf("what is there is called past: %s", got)
		}
	}
	mustSave(t, s, coded("a", "B"))
	if got := past(t, s, "a"); got != "1 saved A" {
		t.Errorf("got %q", got)
	}
}

// TestHistoryBytesAreBounded saves large forms of one tool and many small ones of others. The
// oldest versions of the large one go, and the small ones stay.
func TestHistoryBytesAreBounded(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	s.mostHistory = 1 << 20
	for i := range 3 {
		mustSave(t, s, large("small", i+1))
	}
	for i := range 20 {
		mustSave(t, s, large("large", 100_000+i))
	}
	total := int64(0)
	for name, want := range map[string]int{"small": 2, "large": 10} {
		kept, err := s.History(name)
		if err != nil || len(kept) < want || name == "large" && len(kept) > want+1 {
			t.Errorf("%s: %d versions, %v", name, len(kept), err)
		}
		for _, v := range kept {
			total += v.Size
		}
		if newest := kept[0].Number; newest != map[string]int{"small": 2, "large": 19}[name] {
			t.Errorf("%s: the newest version is %d", name, newest)
		}
	}
	if total > s.mostHistory+s.mostHistory/8 {
		t.Errorf("%d bytes of versions", total)
	}
	if err := s.Delete("large"); err != nil {
		t.Fatal(err)
	}
	mustSave(t, s, large("small", 10))
	if kept, err := s.History("small"); err != nil || len(kept) != 3 {
		t.Errorf("small: %v, %v", kept, err)
	}
}
