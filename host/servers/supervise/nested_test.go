package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func load(t *testing.T, path string) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.LoadOptions{Flag: path})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func setEnv(t *testing.T, variable string) {
	t.Helper()
	name, value, _ := strings.Cut(variable, "=")
	t.Setenv(name, value)
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a.toml"), filepath.Join(dir, "b.toml")
	for _, p := range []string{path, other} {
		if err := os.WriteFile(p, []byte("# "+filepath.Base(p)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b := load(t, path), load(t, other)
	if err := CheckNested(a); err != nil {
		t.Error(err)
	}
	setEnv(t, NestedEnv(a))
	if err := CheckNested(a); !errors.Is(err, ErrNested) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	t.Chdir(dir)
	if err := CheckNested(load(t, "a.toml")); !errors.Is(err, ErrNested) {
		t.Errorf("another name of the file: %v", err)
	}
	if err := CheckNested(b); err != nil {
		t.Errorf("another configuration: %v", err)
	}
	setEnv(t, NestedEnv(b))
	if err := CheckNested(a); !errors.Is(err, ErrNested) {
		t.Errorf("a starts b, which starts a: %v", err)
	}
	missing := &config.Config{Searched: []string{filepath.Join(dir, "c.toml"), path}}
	if err := CheckNested(missing); !errors.Is(err, ErrNested) {
		t.Errorf("a file that is not there yet: %v", err)
	}
	t.Setenv(NestedVariable, strings.Repeat("x:", maxNested)+"x")
	if err := CheckNested(a); !errors.Is(err, ErrNested) {
		t.Errorf("too many: %v", err)
	}
}

func TestCheckResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.toml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, path)
	for meta, want := range map[string]bool{
		string(AddNestedMeta(nil, cfg)): true, string(AddNestedMeta([]byte(`{"a":1}`), cfg)): true,
		`{}`: false, string(AddNestedMeta([]byte(`{"a":1}`), &config.Config{})): false, `{"` + NestedKey + `":""}`: false,
	} {
		if err := CheckNestedResult([]byte(`{"_meta":`+meta+`}`), cfg); errors.Is(err, ErrNested) != want {
			t.Errorf("%s: %v", meta, err)
		}
	}
}
