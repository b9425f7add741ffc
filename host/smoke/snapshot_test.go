package smoke

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// FuzzSnapshotName checks that the name of any check makes the name of a file in the
// snapshots' folder, on every system.
func FuzzSnapshotName(f *testing.F) {
	for _, name := range []string{
		"", "sums up issues", "../../etc/passwd", "..", "a/b\\c", "CON", "con.json", "lpt1.x", "é", "-", ".hidden", "a\x00b",
		strings.Repeat("x", 300), strings.Repeat("é", 300), "C:\\x", "trailing.", "aux é",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, check string) {
		name := snapshotName(check)
		if why := badSnapshotName(name); why != "" {
			t.Errorf("%q: %q %s", check, name, why)
		}
		if !filepath.IsLocal(name) || filepath.Base(name) != name || strings.HasSuffix(name, ".") {
			t.Errorf("%q: %q is not the name of a file", check, name)
		}
	})
}

func TestSnapshotNames(t *testing.T) {
	for check, want := range map[string]string{
		"sums up issues": "sums-up-issues", "a.b_c": "a.b_c", " ?? ": "check-", "nul": "check-", "x/../y": "x-..-y",
		strings.Repeat("x", 90): strings.Repeat("x", 71) + "-",
	} {
		if got := snapshotName(check); !strings.HasPrefix(got, want) || !strings.HasSuffix(want, "-") && got != want {
			t.Errorf("%q: %q, want %q", check, got, want)
		}
	}
}

func TestPointers(t *testing.T) {
	const value = `{"a/b":[{"t":1},{"t":2}],"~":{"":3},"c":"x"}`
	for text, want := range map[string]string{
		"/a~1b/1/t": `{"a/b":[{"t":1},{"t":"-"}],"~":{"":3},"c":"x"}`,
		"/a~1b/*/t": `{"a/b":[{"t":"-"},{"t":"-"}],"~":{"":3},"c":"x"}`,
		"/~0/":      `{"a/b":[{"t":1},{"t":2}],"~":{"":"-"},"c":"x"}`,
		"/*":        `{"a/b":"-","~":"-","c":"-"}`,
		"/c/d":      value, "/nothing": value, "/a~1b/01": value,
	} {
		p, err := parsePointer(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		v, err := jsonvalue.Decode([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		w, err := jsonvalue.Decode([]byte(want))
		if err != nil {
			t.Fatal(err)
		}
		if d := expect.Differences(w, p.replace(v, "-"), false); d != nil {
			t.Errorf("%s: %v", text, d)
		}
	}
	for _, text := range []string{"", "a", "/~", "/~2", "/a~"} {
		if p, err := parsePointer(text); err == nil {
			t.Errorf("%q is %q", text, p)
		}
	}
}

// TestSnapshotStaysInside checks that no link leads a snapshot out of the folder.
func TestSnapshotStaysInside(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	inside := filepath.Join(dir, "inside")
	for _, d := range []string{outside, filepath.Join(inside, "b.snapshots")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	victim := filepath.Join(outside, "s.json")
	if err := os.WriteFile(victim, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"a.snapshots": outside, "b.snapshots/s.json": victim} {
		if err := os.Symlink(to, filepath.Join(inside, link)); err != nil {
			t.Fatal(err)
		}
	}
	a := &answer{result: []byte(`{"content":[]}`)}
	for _, name := range []string{"a.toml", "b.toml"} {
		for _, outsideAllowed := range []bool{false, true} {
			f := &File{Path: filepath.Join(inside, name), outside: outsideAllowed}
			s := &snapshot{name: "s", place: f.snapshotPlace("s")}
			if _, err := s.write(a); err == nil {
				t.Errorf("%s: written", name)
			}
			if m := s.compare(a); m == nil || !strings.Contains(m.Message, "cannot be read") {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "1" {
		t.Errorf("the file outside is now %q, %v", got, err)
	}
}

func TestSnapshotOfData(t *testing.T) {
	data := strings.Repeat("QUJD", 100)
	s := &snapshot{place: regular.Place{Folder: t.TempDir(), Name: filepath.Join("x.snapshots", "s.json")}}
	a := &answer{result: []byte(`{"isError":false,"_meta":{"a":1},"content":[{"type":"image","mimeType":"image/png","data":"` + data + `"},
		{"type":"resource","resource":{"mimeType":"a/b","blob":"QUJD","uri":"x:y","data":"` + data + `"}}]}`)}
	doc := s.document(a)
	if bytes.Contains(doc, []byte("_meta")) || bytes.Count(doc, []byte("(400 characters, sha256 ")) != 2 || !bytes.Contains(doc, []byte(`"blob": "QUJD"`)) {
		t.Errorf("%s", doc)
	}
	for i, want := range []bool{true, false} { // the same is not written again
		if got, err := s.write(a); got != want || err != nil {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
	if m := s.compare(a); m != nil {
		t.Errorf("%+v", m)
	}
}

// TestStaleSnapshots checks which files count as snapshots that no check has.
func TestStaleSnapshots(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.toml")
	folder := filepath.Join(dir, "a.snapshots")
	if err := os.MkdirAll(filepath.Join(folder, "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"used.json", "USED-too.json", "stale.json", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Parse(path, []byte("[[check]]\nname = \"used\"\ncall = \"x\"\nexpect.snapshot = true\n[[check]]\ncall = \"x\"\nexpect.snapshot = \"used-too\"\n"), isolated(dir))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.staleSnapshots(), []string{filepath.Join(folder, "stale.json")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
