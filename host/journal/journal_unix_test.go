//go:build unix

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "logs")
	record(t, openLog(t, dir, LogOptions{}), "a")
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, names(t, dir)[0]): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestIncomplete checks that a run is marked if part of it could not be written.
func TestIncomplete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	now := newClock()
	l := openLog(t, dir, LogOptions{Now: now.now})
	r := begin(t, l, Begin{})
	r.OpenCall(abi.ToolCall{}, "s", "kept").Close(Answer{Value: []byte("1")})
	away := dir + "-away"
	if err := errors.Join(os.Rename(dir, away), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	now.set(noon.Add(24 * time.Hour)) // so that another file is needed
	r.OpenCall(abi.ToolCall{}, "s", "lost").Close(Answer{Value: []byte("2")})
	if err := errors.Join(os.Remove(dir), os.Rename(away, dir)); err != nil {
		t.Fatal(err)
	}
	now.add(retryAfter)
	r.OpenCall(abi.ToolCall{}, "s", "kept too").Close(Answer{Value: []byte("3")})
	r.Close(Outcome{Result: []byte("4")})
	rec, err := Find(t.Context(), dir, r.ID())
	if err != nil || !rec.Done || !rec.Incomplete || len(rec.Calls) != 2 || rec.Calls[1].Seq != 3 {
		t.Errorf("%+v, %v", rec, err)
	}
}
