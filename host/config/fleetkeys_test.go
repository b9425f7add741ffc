package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeysFile reads the keys of a fleet from a file, and checks that they are masked and that
// mistakes quote none.
func TestKeysFile(t *testing.T) {
	secret := func(c string) string { return strings.Repeat(c, 43) + "=" }
	one, two := "one:"+secret("A"), "two:"+secret("B")
	for name, c := range map[string]struct{ store, file, problem string }{
		"two keys":   {"", "# the first one encrypts\n" + two + "\r\n\n" + one, ""},
		"none":       {"", "# nothing\n", "has no key"},
		"a bad line": {"", one + "\ntwo:" + secret("C")[1:] + "\n", "line 2 of"},
		"twice":      {"", one + "\n" + one, "line 2 of"},
		"both":       {"keys = [\"" + one + "\"]\n", two, "is set together with keys"},
		"no file":    {"", "-", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.file != "-" {
				if err := os.WriteFile(filepath.Join(dir, "keys"), []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "config.toml")
			if err := os.WriteFile(path, []byte("[store]\nnats = \"nats://127.0.0.1:4222\"\nkeys_file = \"keys\"\n"+c.store), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(LoadOptions{Flag: path})
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "AAAA") || strings.Contains(err.Error(), "CCCC") {
					t.Fatal(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if k := cfg.Store.Keys; len(k) != 2 || k[0].ID != "two" || k[1].ID != "one" || cfg.Store.KeysFile != filepath.Join(dir, "keys") {
				t.Errorf("%d keys, %s", len(k), cfg.Store.KeysFile)
			}
			if text := cfg.NewMasker().Mask("x " + two + " y " + secret("A")); strings.Contains(text, "AAAA") || strings.Contains(text, "BBBB") {
				t.Error(text)
			}
		})
	}
}
