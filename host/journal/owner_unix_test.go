//go:build unix

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
)

// TestJournalOfOthersIsRefused checks that a directory in which other users can write
// is refused, because they could take over the journal and read it.
func TestJournalOfOthersIsRefused(t *testing.T) {
	top := t.TempDir()
	if err := os.Chmod(top, 0o777); err != nil {
		t.Fatal(err)
	}
	var all troubleLog
	l := openLog(t, filepath.Join(top, "logs"), LogOptions{Required: true, Trouble: all.add})
	if _, err := l.Open(Begin{}); !errors.Is(err, owner.ErrUnsafe) || len(all) != 1 {
		t.Errorf("error %v, reported %v", err, all)
	}
	if _, err := os.Stat(filepath.Join(top, "logs")); err == nil {
		t.Error("it is made")
	}
}
