//go:build unix

package tools

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestStoreOfOthersIsRefused checks that a folder is refused if others may write to it:
// they could save a tool that we run.
func TestStoreOfOthersIsRefused(t *testing.T) {
	for _, writable := range []string{"above", "above/dir", "above/dir/tools", "above/dir/tools/.history"} {
		t.Run(writable, func(t *testing.T) {
			top := t.TempDir()
			dir, at := filepath.Join(top, "above/dir"), filepath.Join(top, writable)
			if err := os.MkdirAll(filepath.Join(dir, "tools", historyDir), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(at, 0o777); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenStore(dir, StoreOptions{}); !errors.Is(err, owner.ErrUnsafe) || !strings.Contains(err.Error(), at) {
				t.Errorf("error %v", err)
			}
			if err := os.Chmod(at, 0o700); err != nil {
				t.Fatal(err)
			}
			openStore(t, dir, StoreOptions{})
		})
	}
}

// TestToolThatOthersMayWriteIsSkipped checks a single file.
func TestToolThatOthersMayWriteIsSkipped(t *testing.T) {
	dir := t.TempDir()
	mustSave(t, openStore(t, dir, StoreOptions{}), tool("a"))
	if err := os.Chmod(filepath.Join(dir, "tools", "a.json"), 0o666); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := openStore(t, dir, StoreOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if list := s.List(); len(list) != 0 || !strings.Contains(log.String(), "everybody may write to it") {
		t.Errorf("%v; logged %s", list, log.String())
	}
}

// TestStoreOfAGroupIsReported checks that a folder that a group may write to is only
// reported, since common set-ups have it.
func TestStoreOfAGroupIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "root", "only root can give a folder to another group")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chown(dir, 0, 4242), os.Chmod(dir, 0o770)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	openStore(t, dir, StoreOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if strings.Count(log.String(), "its group may write to it") != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("logged %s", log.String())
	}
}
