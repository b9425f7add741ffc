package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
)

// TestSandboxWarnings checks that what the machine cannot enforce is mentioned before a
// server is started.
func TestSandboxWarnings(t *testing.T) {
	c := &Config{Upstreams: []Upstream{{Name: "a", Command: "a", Transport: Stdio, Sandbox: &confine.Settings{Network: confine.NetworkPorts}}}}
	lacks := confine.Lacks(c.Upstreams[0].Sandbox)
	for _, effort := range []bool{false, true} {
		c.Upstreams[0].Sandbox.BestEffort = effort
		then := map[bool]string{false: "will not start", true: "starts without that"}[effort]
		warnings := slices.DeleteFunc(c.SettingWarnings(), func(w string) bool { return !strings.Contains(w, "sandbox: ") })
		if len(warnings) != len(lacks) {
			t.Errorf("%q, want one for each of %q", warnings, lacks)
		}
		for i, w := range warnings {
			if !strings.Contains(w, lacks[i]) || !strings.Contains(w, confine.Level()) || !strings.Contains(w, then) {
				t.Errorf("%q", w)
			}
		}
	}
}

// TestOwnFiles checks that everything of ours is protected from confined servers.
func TestOwnFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(EnvDir, filepath.Join(dir, "env"))
	c := &Config{Path: filepath.Join(dir, "config.toml"), Store: Store{Dir: filepath.Join(dir, "store")}}
	c.Journal.Dir, c.Policy.File = filepath.Join(dir, "journal"), filepath.Join(dir, "policy.toml")
	own := c.OwnFiles()
	for _, name := range []string{"config.toml", "tools.lock", "store", "store/oauth", "journal", "policy.toml", "env"} {
		if !slices.Contains(own, filepath.Join(dir, name)) {
			t.Errorf("%s is not protected: %q", name, own)
		}
	}
}
