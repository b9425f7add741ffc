package verify

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// journalText returns the text of all files.
func journalText(t testing.TB, dir string) string {
	t.Helper()
	files, err := journal.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	return text.String()
}

// days writes runs and calls on several days by two writers, of which the second one ends early.
func days(t testing.TB, dir string, n int, opts journal.LogOptions) {
	t.Helper()
	var passed atomic.Int64 // checkpoints look at the clock, too
	now := func() time.Time {
		return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(time.Duration(passed.Add(int64(time.Millisecond))))
	}
	opts.Now = now
	if opts.Signer == nil {
		opts.Signer = testKey
	}
	first, second := openLog(t, dir, opts), openLog(t, dir, opts)
	for day := range n {
		for _, l := range []*journal.Log{first, second} {
			if l == second && day > 1 {
				continue
			}
			for range 3 {
				end(t, l)
				l.Proxied(journal.Proxied{Start: now(), Server: "s", Tool: "t"})
			}
		}
		if day == 1 {
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
		}
		passed.Add(int64(24 * time.Hour))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

// end records a run without calls.
func end(t testing.TB, l *journal.Log) {
	t.Helper()
	r, err := l.Open(journal.Begin{Definition: tools.Definition{Name: "a"}, Guest: "00"})
	if err != nil {
		t.Fatal(err)
	}
	r.Close(journal.Outcome{Result: []byte("1")})
}

func folderReport(t testing.TB, dir, day string) *FolderReport {
	t.Helper()
	report, err := Folder(t.Context(), dir, FolderOptions{Keys: []seal.PublicKey{testKey.Public()}, Day: day})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	days(t, dir, 4, journal.LogOptions{})
	all := folderReport(t, dir, "")
	if !all.Verified || all.Runs != 18 || all.Calls != 18 || len(all.Orders) != 2 || len(all.Notes) > 0 {
		t.Errorf("%s", all.Text())
	}
	for _, o := range all.Orders {
		if o.First != 1 || o.Signed != o.Last {
			t.Errorf("%+v", o)
		}
	}
	for _, day := range []string{"2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23"} {
		if one := folderReport(t, dir, day); !one.Verified {
			t.Errorf("%s", one.Text())
		}
	}
	if none := folderReport(t, dir, "2026-10-01"); none.Verified {
		t.Error("a day of which there is nothing")
	}
	if _, err := Folder(t.Context(), dir, FolderOptions{Day: "yesterday"}); err == nil {
		t.Error("no day")
	}
}

// TestFolderIsTampered removes, changes, moves and adds everything that there is, one at a time. Only
// the end of the records that nothing else names can be cut off.
func TestFolderIsTampered(t *testing.T) {
	dir := t.TempDir()
	days(t, dir, 4, journal.LogOptions{})
	files, err := journal.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, day string) {
		t.Helper()
		if folderReport(t, dir, "").Verified {
			t.Errorf("%s is not found", what)
		}
		if day != "" && folderReport(t, dir, day).Verified {
			t.Errorf("%s is not found with --day %s", what, day)
		}
	}
	for i, f := range files {
		path := filepath.Join(dir, f.Name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		last := i == len(files)-1
		if !last {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			check(f.Name+" removed", "")
		}
		write := func(text []byte) {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		lines := bytes.SplitAfter(text, []byte{'\n'})
		lines = lines[:len(lines)-1]
		for n, line := range lines {
			kind, _, err := readHead(line)
			if err != nil || kind == kindBegin {
				continue
			}
			if !last || n < len(lines)-1 {
				write(bytes.Join([][]byte{bytes.Join(lines[:n], nil), bytes.Join(lines[n+1:], nil)}, nil))
				check(f.Name+": "+string(line[:20])+" removed", f.Day)
			}
			write(append(bytes.Clone(text), line...))
			check(f.Name+": "+string(line[:20])+" twice", f.Day)
			write(bytes.Replace(text, line, bytes.Replace(line, []byte(`"v":1`), []byte(`"v":0`), 1), 1))
			if kind != kindEnd {
				check(f.Name+": "+string(line[:20])+" changed", f.Day)
			}
			if p, _ := seal.Cut(bytes.TrimSuffix(line, []byte{'\n'})); p.Seal != nil {
				without := append(seal.AppendLink(bytes.TrimSuffix(bytes.Clone(p.Body), []byte("}")), p.Link), "}\n"...)
				write(bytes.Replace(text, line, without, 1))
				check(f.Name+": seal removed", f.Day)
			}
			write(bytes.Replace(text, line, append(bytes.Clone(seal.WithoutLink(bytes.TrimSuffix(line, []byte{'\n'}))), '\n'), 1))
			check(f.Name+": link removed", f.Day)
		}
		write(text)
	}
	if all := folderReport(t, dir, ""); !all.Verified {
		t.Errorf("put back:\n%s", all.Text())
	}
}

// TestRemovedByAge checks that what was removed for its age is not missing, and that more than that is.
func TestRemovedByAge(t *testing.T) {
	dir := t.TempDir()
	days(t, dir, 8, journal.LogOptions{MaxAge: 72 * time.Hour})
	files, err := journal.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	if all := folderReport(t, dir, ""); !all.Verified || all.Orders[0].First == 1 {
		t.Errorf("%s", all.Text())
	}
	if one := folderReport(t, dir, files[0].Day); !one.Verified {
		t.Errorf("%s", one.Text())
	}
	if err := os.Remove(filepath.Join(dir, files[0].Name)); err != nil {
		t.Fatal(err)
	}
	if all := folderReport(t, dir, ""); all.Verified {
		t.Errorf("a day was removed by somebody else:\n%s", all.Text())
	}
}

// TestRestartsAreWhole checks that a process that dies leaves an order that the next one goes on with.
func TestRestartsAreWhole(t *testing.T) {
	dir := t.TempDir()
	end(t, openLog(t, dir, journal.LogOptions{}))
	data := journalText(t, dir)
	files, _ := journal.Files(dir)
	other := t.TempDir() // as it is if the process dies now, in the middle of a line
	if err := os.WriteFile(filepath.Join(other, files[0].Name), []byte(data+`{"t":"beg`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, other, signed())
	end(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all := folderReport(t, other, "")
	if !all.Verified || len(all.Orders) != 1 || all.Runs != 2 || len(all.Notes) != 2 { // a torn line, an unsigned run
		t.Errorf("%s", all.Text())
	}
}

// TestOldFiles checks that files from before the introduction of digests are told apart from what was added.
func TestOldFiles(t *testing.T) {
	dir := t.TempDir()
	days(t, dir, 1, journal.LogOptions{})
	old := `{"t":"begin","run":"01a1feb8-0c3b-745b-827d-addbd150d51e","v":1,"time":"2026-11-19T15:04:05Z","tool":"x"}
{"t":"end","run":"01a1feb8-0c3b-745b-827d-addbd150d51e","duration":1,"result":1}
`
	if err := os.WriteFile(filepath.Join(dir, "journal-2026-11-19.jsonl"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := folderReport(t, dir, ""); !all.Verified || len(all.Notes) != 1 || !strings.Contains(all.Notes[0], "before the introduction of digests") {
		t.Errorf("%s", all.Text())
	}
	path := filepath.Join(dir, "journal-2026-11-20.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, old...), 0o600); err != nil {
		t.Fatal(err)
	}
	if folderReport(t, dir, "").Verified {
		t.Error("a run was added in the old form")
	}
}
