//go:build unix

package supervise

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// TestFolderOfOthers checks that remembered lists of servers are neither read, written nor removed
// in a folder that other users may change, and that a link in place of a file is not followed.
func TestFolderOfOthers(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	dir := ServersDir(store)
	s := newSnapshotStore(dir, slog.New(slog.DiscardHandler))
	spec := servers.Spec{Name: "x", Command: "c"}
	key := snapshotKey(spec, (&config.Config{}).NewMasker())
	item := []byte(`{"name":"tool","inputSchema":{"type":"object"}}`)
	s.save("x", Snapshot{Handshake: []byte(`{"protocolVersion":"2025-06-18"}`), Lists: map[wire.Surface]List{wire.Tools: {Items: [][]byte{item}}}}.encode(key))
	s.saveAs("x"+failureFile, "x", []byte(`{"at":"2026-11-24T00:00:00Z","error":"e"}`))
	files := func() []string {
		names, err := RememberedFiles(dir)
		if err != nil {
			return nil
		}
		return names
	}
	read := func() (snapshot, definitions, failure bool) {
		_, snapshot = s.load("x", key, "")
		_, failure = LastFailure(store, "x")
		return snapshot, len(RememberedDefinitions(t.Context(), dir, "x")) > 0, failure
	}
	if a, b, c := read(); !a || !b || !c || len(files()) != 1 {
		t.Fatal("what is remembered is not read", a, b, c, files())
	}
	for _, name := range []string{"x" + snapshotFile, "x" + failureFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	for _, open := range []string{dir, store} { // the folder itself, and the folder above
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		if a, b, c := read(); a || b || c {
			t.Errorf("%s can be changed by others, and is read: %t %t %t", open, a, b, c)
		}
		before, err := os.Stat(filepath.Join(dir, "x"+failureFile))
		if err != nil {
			t.Fatal(err)
		}
		s.saveAs("x"+failureFile, "x", []byte(`{"at":"2026-11-24T00:00:00Z","error":"another"}`))
		if after, err := os.Stat(filepath.Join(dir, "x"+failureFile)); err != nil || after.Size() != before.Size() {
			t.Errorf("%s can be changed by others, and is written to: %v", open, err)
		}
		if err := ForgetFiles(t.Context(), dir, []string{"x" + snapshotFile}); err == nil {
			t.Errorf("%s can be changed by others, and a file in it is removed", open)
		}
		if err := os.Chmod(open, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// A link to a file of another user is replaced, and the target of the link stays.
	elsewhere := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(elsewhere, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "y"+failureFile)
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	s.saveAs("y"+failureFile, "y", []byte(`{"at":"2026-11-24T00:00:00Z","error":"e"}`))
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "mine" {
		t.Errorf("a file elsewhere was written: %q, %v", text, err)
	}
	if f, ok := LastFailure(store, "y"); !ok || f.Error != "e" || f.At.IsZero() {
		t.Errorf("%+v, %t", f, ok)
	}
	if err := ForgetFiles(t.Context(), dir, []string{"../x"}); err == nil {
		t.Error("a name leads out of the folder")
	}
}
