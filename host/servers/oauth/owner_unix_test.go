//go:build unix

package oauth

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
)

// TestTokensOfOthersAreRefused checks that a token file is not used if other users can
// write to its directory, because they could decide where tokens are sent.
func TestTokensOfOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	f := tokenFile{filepath.Join(dir, "tokens.json")}
	if err := errors.Join(os.WriteFile(f.path, []byte("{}"), 0o600), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(); !errors.Is(err, owner.ErrUnsafe) {
		t.Errorf("read: %v", err)
	}
	if _, err := f.lock(t.Context()); !errors.Is(err, owner.ErrUnsafe) {
		t.Errorf("locked: %v", err)
	}
}
