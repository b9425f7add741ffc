package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestForgetFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "servers")
	if names, err := RememberedFiles(dir); names != nil || err != nil {
		t.Errorf("without a directory: %q, %v", names, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.json", "b.json", "b" + failureFile, ".tmp.json", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "c.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := RememberedFiles(dir)
	if err != nil || !slices.Equal(names, []string{"a.json", "b.json"}) {
		t.Fatalf("%q, %v", names, err)
	}
	for _, bad := range []string{"notes.txt", "b" + failureFile, "../servers.json"} {
		if err := ForgetFiles(t.Context(), dir, []string{bad}); err == nil && bad[0] != '.' {
			t.Errorf("%s is removed", bad)
		}
	}
	if err := ForgetFiles(t.Context(), dir, append(names, "gone.json")); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 {
		t.Errorf("left: %v, %v", left, err)
	}
}
