//go:build unix

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
)

// TestJournalOfOthersIsRefused: where others may write, they could have the
// journal, and what is in it.
func TestJournalOfOthersIsRefused(t *testing.T) {
	top := t.TempDir()
	if err := os.Chmod(top, 0o777); err != nil {
		t.Fatal(err)
	}
	var all told
	l := openLog(t, filepath.Join(top, "logs"), LogOptions{Required: true, Trouble: all.tell})
	if _, err := l.Open(Begin{}); !errors.Is(err, owner.ErrUnsafe) || len(all) != 1 {
		t.Errorf("error %v, told %v", err, all)
	}
	if _, err := os.Stat(filepath.Join(top, "logs")); err == nil {
		t.Error("it is made")
	}
}
