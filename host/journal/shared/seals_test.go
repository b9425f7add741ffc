package shared

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/verify"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// TestSealsTravel checks that what was recorded can be verified on another replica, and after a copy
// to another folder: digests, signatures and places are the same.
func TestSealsTravel(t *testing.T) {
	link := memorytest.New(t)
	s := openStore(t, link, "one")
	key := seal.NewPrivate()
	a := newReplica(t, s, t.TempDir(), false)
	a.log.Configure(journal.LogOptions{Log: quiet(), Fleet: a.Journal, Signer: key})
	first := a.run(t, journal.Begin{})
	a.log.Proxied(journal.Proxied{Start: time.Now(), Server: "s", Tool: "t", Outcome: journal.OK})
	a.run(t, journal.Begin{})
	a.log.Configure(journal.LogOptions{Log: quiet(), Fleet: a.Journal, Signer: key, MaxSize: 1})
	a.run(t, journal.Begin{}) // in the next file, which begins with a checkpoint
	a.log.Configure(journal.LogOptions{Log: quiet(), Fleet: a.Journal, Signer: key})
	a.end()

	b := newReplica(t, openStore(t, link, "one"), t.TempDir(), false)
	if err := b.log.Reader().Fetch(t.Context(), time.Time{}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	copied := Open(Options{Store: s, Fleet: "fleet", Dir: t.TempDir(), Log: quiet()})
	defer copied.Close()
	c, err := copied.CopyToFiles(t.Context(), false)
	if err != nil || c.Runs.Copied != 3 || c.Calls.Copied != 1 || c.Checkpoints.Copied != 3 {
		t.Errorf("%+v, %v", c, err)
	}
	if again, err := copied.CopyToFiles(t.Context(), false); err != nil || again.Runs.Same != 3 || again.Checkpoints.Copied != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	want, err := journal.Reader{Dir: a.dir}.Lines(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{a.dir, b.dir, copied.opts.Dir} {
		got, err := journal.Reader{Dir: dir}.Lines(t.Context(), first)
		if err != nil || !bytes.Equal(bytes.Join(got[0].Lines, nil), bytes.Join(want[0].Lines, nil)) {
			t.Errorf("%s: %v, %+v", dir, err, got)
		}
		all, err := verify.Folder(t.Context(), dir, verify.FolderOptions{Keys: []seal.PublicKey{key.Public()}})
		if err != nil || !all.Verified || all.Runs != 3 || all.Calls != 1 || len(all.Orders) != 1 || all.Orders[0].Last != 7 || all.Orders[0].Copied != (dir != a.dir) {
			t.Errorf("%s: %v\n%s", dir, err, all.Text())
		}
	}

	// A replica of an earlier version copies no checkpoints: that is not verified, and the report says why.
	for _, file := range mustFiles(t, b.dir) {
		var kept []byte
		for line, err := range file.Each(t.Context(), b.dir) {
			if err != nil {
				t.Fatal(err)
			}
			if !journal.IsCheckpoint(line) {
				kept = append(append(kept, line...), '\n')
			}
		}
		if err := os.WriteFile(filepath.Join(b.dir, file.Name), kept, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := verify.Folder(t.Context(), b.dir, verify.FolderOptions{Keys: []seal.PublicKey{key.Public()}})
	if err != nil || all.Verified || !strings.Contains(all.Text(), "copies that a version without checkpoints has made lack these; verify it where it was recorded") {
		t.Errorf("%v\n%s", err, all.Text())
	}
}

func mustFiles(t *testing.T, dir string) []journal.File {
	t.Helper()
	files, err := journal.Files(dir)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}
