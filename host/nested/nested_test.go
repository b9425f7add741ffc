package nested

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
	if err := Check(a); err != nil {
		t.Error(err)
	}
	setEnv(t, Env(a))
	if err := Check(a); !errors.Is(err, ErrSelf) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	t.Chdir(dir)
	if err := Check(load(t, "a.toml")); !errors.Is(err, ErrSelf) {
		t.Errorf("another name of the file: %v", err)
	}
	if err := Check(b); err != nil {
		t.Errorf("another configuration: %v", err)
	}
	setEnv(t, Env(b))
	if err := Check(a); !errors.Is(err, ErrSelf) {
		t.Errorf("a starts b, which starts a: %v", err)
	}
	missing := &config.Config{Searched: []string{filepath.Join(dir, "c.toml"), path}}
	if err := Check(missing); !errors.Is(err, ErrSelf) {
		t.Errorf("a file that is not there yet: %v", err)
	}
	t.Setenv(Variable, strings.Repeat("x:", maxDepth)+"x")
	if err := Check(a); !errors.Is(err, ErrSelf) {
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
		string(AddMeta(nil, cfg)): true, string(AddMeta([]byte(`{"a":1}`), cfg)): true,
		`{}`: false, string(AddMeta([]byte(`{"a":1}`), &config.Config{})): false, `{"` + MetaKey + `":""}`: false,
	} {
		if err := CheckResult([]byte(`{"_meta":`+meta+`}`), cfg); errors.Is(err, ErrSelf) != want {
			t.Errorf("%s: %v", meta, err)
		}
	}
}
