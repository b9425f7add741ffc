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
	t.Setenv(EnvDir, "") // it would be the store
	path := filepath.Join(dir, "config.toml")
	const text = `pins_file = "team/pins.lock"
store.dir = "store"
journal.dir = "journal"
policy.file = "policy.toml"
[http]
tls_cert = "cert.pem"
tls_key = "key.pem"
[upstream.a]
command = "a"
env = { A = "${file:secret-of-a}", S = "${file:shared}" }
[upstream.b]
command = "b"
env = { B = "${file:secret-of-b}", S = "${file:shared}" }
`
	write(t, path, text)
	write(t, filepath.Join(dir, "policy.toml"), "[policy]\n")
	c, err := Load(LoadOptions{Flag: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvDir, filepath.Join(dir, "env"))
	a := c.Upstreams[0]
	c.Upstreams = nil // as where one server is started alone
	c.Store.Credentials, c.Store.NKey, c.Store.KeyFile = filepath.Join(dir, "creds"), filepath.Join(dir, "nkey"), filepath.Join(dir, "key")
	own := c.OwnFiles(&a)
	for _, name := range []string{"config.toml", "tools.lock", "team/pins.lock", "store", "store/oauth", "journal", "policy.toml", "env", "key.pem", "secret-of-b", "creds", "nkey", "key"} {
		if !slices.Contains(own, filepath.Join(dir, name)) {
			t.Errorf("%s is not protected: %q", name, own)
		}
	}
	for _, name := range []string{"secret-of-a", "shared", "cert.pem"} {
		if slices.Contains(own, filepath.Join(dir, name)) {
			t.Errorf("%s is kept from the server that gets it", name)
		}
	}
}
