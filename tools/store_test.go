package tools

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

func openStore(t testing.TB, dir string, opts StoreOptions) *Store {
	t.Helper()
	s, err := OpenStore(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func tool(name string) Definition {
	return Definition{Name: name, Description: "does " + name, InputSchema: []byte(`{"type":"object"}`), Code: "return 1"}
}

func mustSave(t testing.TB, s *Store, d Definition) Definition {
	t.Helper()
	saved, _, err := s.Save(d)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func names(defs []Definition) string {
	var out []string
	for _, d := range defs {
		out = append(out, d.Name)
	}
	return strings.Join(out, " ")
}

// put writes a file like another program.
func put(t testing.TB, s *Store, file, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir(), file), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func toolJSON(name, code string) string {
	return `{"version":"1.0","name":"` + name + `","inputSchema":{"type":"object"},"code":"` + code + `"}`
}

func TestSaveGetListDelete(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "new", "home"), StoreOptions{})
	if got := s.List(); got != nil {
		t.Errorf("a new store has %v", got)
	}
	if _, err := s.Get("b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if err := s.Delete("b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Delete: %v", err)
	}
	before := time.Now().Truncate(time.Second)
	d := tool("b")
	d.InputSchema = []byte(" {\n\"type\" : \"object\", \"z\": 1.0, \"a\": 12345678901234567890 }")
	d.OutputSchema = []byte(`{ "type": "array" }`)
	d.Metadata.ExecutionCount = 99 // ignored: the store counts executions
	saved, created, err := s.Save(d)
	if err != nil || !created {
		t.Fatalf("Save: created %v, %v", created, err)
	}
	if string(saved.InputSchema) != `{"type":"object","z":1.0,"a":12345678901234567890}` || string(saved.OutputSchema) != `{"type":"array"}` {
		t.Errorf("schemas %s, %s", saved.InputSchema, saved.OutputSchema)
	}
	if m := saved.Metadata; m.Created.Before(before) || !m.Created.Equal(m.Modified) || m.ExecutionCount != 0 || !m.LastExecuted.IsZero() {
		t.Errorf("metadata %+v", m)
	}
	mustSave(t, s, tool("a"))
	if got := names(s.List()); got != "a b" {
		t.Errorf("List: %s", got)
	}
	s.RecordExecution("b", before)
	d.Description = "new"
	next, created, err := s.Save(d)
	if err != nil || created {
		t.Fatalf("second Save: created %v, %v", created, err)
	}
	if m := next.Metadata; !m.Created.Equal(saved.Metadata.Created) || m.Modified.Before(m.Created) || m.ExecutionCount != 1 || !m.LastExecuted.Equal(before) {
		t.Errorf("metadata %+v", m)
	}
	if got, err := s.Get("b"); err != nil || got.Description != "new" {
		t.Errorf("Get: %+v, %v", got, err)
	}
	if err := s.Delete("b"); err != nil {
		t.Fatal(err)
	}
	if got := names(s.List()); got != "a" {
		t.Errorf("List after Delete: %s", got)
	}
}

func TestSaveRefuses(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, tool("Report"))
	mustSave(t, s, tool("Report")) // the same name is not a clash
	change := func(name string, f func(*Definition)) Definition {
		d := tool(name)
		f(&d)
		return d
	}
	var (
		nameErr   *NameError
		schemaErr *SchemaError
		clashErr  *ClashError
	)
	for _, c := range []struct {
		def  Definition
		as   any
		want string
	}{
		{tool("a b"), &nameErr, `tool name "a b"`},
		{tool("report"), &clashErr, `tool name "report": differs from the saved tool "Report" only in upper and lower case (choose another name, or delete "Report" first)`},
		{change("a", func(d *Definition) { d.InputSchema = nil }), &schemaErr, `tool "a": inputSchema: is missing`},
		{change("a", func(d *Definition) { d.InputSchema = []byte(`{"type":"object","$ref":"http://x/"}`) }), &schemaErr, `never loaded from network`},
		{change("a", func(d *Definition) { d.OutputSchema = []byte(`{"type":1}`) }), &schemaErr, `tool "a": outputSchema: /type`},
		{change("a", func(d *Definition) { d.Code = "" }), nil, `tool "a": code is empty`},
		{change("a", func(d *Definition) { d.Code = "\xff" }), nil, `tool "a": description or code is not valid UTF-8`},
		{change("a", func(d *Definition) { d.Code = strings.Repeat("x", MaxFileBytes) }), nil, `bytes long (at most 4194304)`},
		{change("a", func(d *Definition) { d.Extra = []Member{{"code", []byte("1")}} }), nil, `duplicate`},
	} {
		_, _, err := s.Save(c.def)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.as != nil && !errors.As(err, c.as) {
			t.Errorf("%s: got %v, want %s", c.def.Name, err, c.want)
		}
	}
	if got := names(s.List()); got != "Report" {
		t.Errorf("List: %s", got)
	}
}

func TestSeesOtherWriters(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	// The second content has the same length and follows immediately, so that size and time
	// may be the same.
	for _, code := range []string{"1", "2", "3"} {
		put(t, s, "a.json", toolJSON("a", code))
		if d, err := s.Get("a"); err != nil || d.Code != code {
			t.Fatalf("Get: code %q, %v; want %q", d.Code, err, code)
		}
		if got := s.List(); len(got) != 1 || got[0].Code != code {
			t.Fatalf("List: %+v", got)
		}
	}
	old := filepath.Join(s.Dir(), "a.json")
	longAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	s.List() // from now on the entry is trusted
	put(t, s, "a.json", toolJSON("a", "4"))
	if d, err := s.Get("a"); err != nil || d.Code != "4" {
		t.Errorf("Get: code %q, %v", d.Code, err)
	}
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get of a removed file: %v", err)
	}
}

func TestDirectoryIsCreatedAgain(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, tool("a"))
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	if got := s.List(); got != nil {
		t.Errorf("List: %v", got)
	}
	if _, err := s.Get("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	mustSave(t, s, tool("b"))
	if got := names(s.List()); got != "b" {
		t.Errorf("List: %s", got)
	}
}

func TestCorruptFiles(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := openStore(t, t.TempDir(), StoreOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	mustSave(t, s, tool("good"))
	put(t, s, "bad.json", "{")
	put(t, s, "other.json", toolJSON("another", "1"))
	put(t, s, "sp ace.json", toolJSON("sp ace", "1"))
	put(t, s, "schema.json", `{"version":"1.0","name":"schema","inputSchema":{"type":"strin"},"code":"1"}`)
	put(t, s, "note.txt", "not ours")
	put(t, s, ".hidden.json", "{")
	if err := os.Mkdir(filepath.Join(s.Dir(), "dir.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := []string{"bad", "dir", "other", "schema", "sp ace"}
	for range 3 {
		var got []string
		for _, p := range s.Problems() {
			got = append(got, p.Name)
			if p.Path != filepath.Join(s.Dir(), p.Name+".json") || p.Err == nil {
				t.Errorf("problem %+v", p)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("problems %q, want %q", got, want)
		}
		if got := names(s.List()); got != "good" {
			t.Fatalf("List: %s", got)
		}
	}
	if n := strings.Count(log.String(), "saved tool is skipped"); n != len(want) {
		t.Errorf("%d warnings, want %d:\n%s", n, len(want), log.String())
	}
	var ce *CorruptError
	if _, _, err := s.Save(tool("bad")); !errors.As(err, &ce) || !strings.Contains(err.Error(), "(repair or remove the file)") {
		t.Errorf("Save: %v", err)
	}
	if err := s.Delete("bad"); !errors.As(err, &ce) {
		t.Errorf("Delete: %v", err)
	}
	if _, err := s.Get("bad"); !errors.As(err, &ce) {
		t.Errorf("Get: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(s.Dir(), "bad.json")); err != nil || string(data) != "{" {
		t.Errorf("the corrupt file is now %q, %v", data, err)
	}
	put(t, s, "bad.json", toolJSON("bad", "1"))
	if _, err := s.Get("bad"); err != nil {
		t.Errorf("Get of the repaired tool: %v", err)
	}
}

func TestSymlinkIsNotFollowed(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	outside := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(outside, []byte(toolJSON("a", "1")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.Dir(), "a.json")); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip("needs a privilege on Windows:", err)
		}
		t.Fatal(err)
	}
	if got := s.List(); got != nil {
		t.Errorf("List: %v", got)
	}
	var ce *CorruptError
	if _, _, err := s.Save(tool("a")); !errors.As(err, &ce) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("Save: %v", err)
	}
	if data, _ := os.ReadFile(outside); string(data) != toolJSON("a", "1") {
		t.Errorf("the file outside is now %q", data)
	}
}

func TestLeftoversAreCleanedUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, StoreOptions{})
	put(t, s, regular.TempPrefix+"1", "half a to")
	if got, problems := s.List(), s.Problems(); got != nil || problems != nil {
		t.Errorf("List: %v, problems %v", got, problems)
	}
	mustSave(t, s, tool("a"))
	put(t, s, regular.TempPrefix+"2", "")
	openStore(t, dir, StoreOptions{})
	left, err := filepath.Glob(filepath.Join(s.Dir(), regular.TempPrefix+"*"))
	if err != nil || left != nil {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestUnknownMembersSurvive(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	put(t, s, "summary.json", wholeFile)
	d := tool("summary")
	d.Code = "2"
	d = mustSave(t, s, d)
	if len(d.Extra) != 2 || len(d.Metadata.Extra) != 1 || d.Metadata.ExecutionCount != 7 {
		t.Errorf("got %+v", d)
	}
	d.Extra = []Member{{"rights", []byte(`[]`)}}
	if d = mustSave(t, s, d); len(d.Extra) != 1 || string(d.Extra[0].Value) != "[]" {
		t.Errorf("got %+v", d.Extra)
	}
}

func TestPermissionBits(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	s := openStore(t, filepath.Join(t.TempDir(), "home"), StoreOptions{})
	mustSave(t, s, tool("a"))
	for path, want := range map[string]os.FileMode{
		filepath.Dir(s.Dir()): 0o700, s.Dir(): 0o700,
		filepath.Join(s.Dir(), "a.json"): 0o600, filepath.Join(s.Dir(), lockFile): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, err := OpenStore(dir, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	two := openStore(t, dir, StoreOptions{})
	mustSave(t, one, tool("a"))
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for i := range 50 {
				one.RecordExecution("a", mtime.Add(time.Duration(i)*time.Second))
				one.RecordExecution("gone", mtime)
			}
		})
	}
	callers.Wait()
	two.RecordExecution("a", mtime)
	if d, err := one.Get("a"); err != nil || d.Metadata.ExecutionCount != 200 {
		t.Errorf("before writing: %+v, %v", d.Metadata, err)
	}
	if err := two.flush(); err != nil {
		t.Error(err)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	d, err := two.Get("a")
	if err != nil || d.Metadata.ExecutionCount != 201 || !d.Metadata.LastExecuted.Equal(mtime.Add(49*time.Second)) {
		t.Errorf("after writing: %+v, %v", d.Metadata, err)
	}
	one.RecordExecution("a", mtime)
	if _, _, err := one.Save(tool("b")); !errors.Is(err, ErrClosed) {
		t.Errorf("Save after Close: %v", err)
	}
	if err := one.Delete("a"); !errors.Is(err, ErrClosed) {
		t.Errorf("Delete after Close: %v", err)
	}
	if len(one.pending) != 0 {
		t.Errorf("pending after Close: %v", one.pending)
	}
}

func TestCountsOfDeletedTool(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, tool("a"))
	s.RecordExecution("a", mtime)
	if err := s.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if d := mustSave(t, s, tool("a")); d.Metadata.ExecutionCount != 0 {
		t.Errorf("the new tool has the count of the old: %+v", d.Metadata)
	}
}

// A count waits until a corrupt file is repaired, and saturates.
func TestCountsOfCorruptTool(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	put(t, s, "a.json", "{")
	s.RecordExecution("a", mtime)
	var ce *CorruptError
	if err := s.flush(); !errors.As(err, &ce) {
		t.Errorf("flush: %v", err)
	}
	put(t, s, "a.json", strings.Replace(toolJSON("a", "1"), `"code"`, `"metadata":{"executionCount":9223372036854775807},"code"`, 1))
	if err := s.flush(); err != nil {
		t.Error(err)
	}
	if d, err := s.Get("a"); err != nil || d.Metadata.ExecutionCount != 9223372036854775807 || !d.Metadata.LastExecuted.Equal(mtime) {
		t.Errorf("got %+v, %v", d.Metadata, err)
	}
}

func TestCompiledSchemas(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), StoreOptions{})
	mustSave(t, s, tool("a"))
	first, err := s.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	s.RecordExecution("a", mtime)
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	second, err := s.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	in1, err1 := first.Input(nil)
	in2, err2 := second.Input(nil)
	if err1 != nil || err2 != nil || in1 == nil || in1 != in2 {
		t.Errorf("compiled again: %p, %v; %p, %v", in1, err1, in2, err2)
	}
	if out, err := first.Output(nil); out != nil || err != nil {
		t.Errorf("Output: %v, %v", out, err)
	}
	second.InputSchema = []byte(`{"type":"object","required":["x"]}`)
	if in, err := second.Input(nil); err != nil || in.Validate([]byte(`{}`), nil) == nil {
		t.Errorf("a changed schema is not compiled anew (%v)", err)
	}
}

func TestStoreIsNotADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tools"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(dir, StoreOptions{}); err == nil || !strings.Contains(err.Error(), "tool store "+filepath.Join(dir, "tools")) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkGet(b *testing.B) {
	s := openStore(b, b.TempDir(), StoreOptions{})
	mustSave(b, s, tool("a"))
	longAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(s.Dir(), "a.json"), longAgo, longAgo); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Get("a"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecordExecution(b *testing.B) {
	s := openStore(b, b.TempDir(), StoreOptions{})
	mustSave(b, s, tool("a"))
	for b.Loop() {
		s.RecordExecution("a", mtime)
	}
}

// Opening and reading do not wait for another process that is writing.
func TestLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holder := openStore(t, dir, StoreOptions{})
	mustSave(t, holder, tool("a"))
	unlock, err := holder.lock(0)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, StoreOptions{})
	if got := names(s.List()); got != "a" {
		t.Errorf("List: %s", got)
	}
	for _, wait := range []time.Duration{0, time.Millisecond} {
		if _, err := s.lock(wait); err == nil || !strings.Contains(err.Error(), "locked by another process") {
			t.Errorf("lock(%v): %v", wait, err)
		}
	}
	unlock()
	mustSave(t, s, tool("b"))
}
