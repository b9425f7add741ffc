package config

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// fleetKeys reads the keys of the fleet, from the configuration or a file that it names.
func (t *table) fleetKeys(o *Store) {
	ids := map[string]bool{}
	add := func(text string) error {
		k, err := sealed.ParseKey(text)
		switch {
		case err != nil:
			return err
		case ids[k.ID]:
			return fmt.Errorf("has the id %s of another key (each key needs an id of its own)", k.ID)
		}
		ids[k.ID] = true
		o.Keys = append(o.Keys, k)
		return nil
	}
	t.strs("keys", func(key string, n *node) (string, bool) {
		text, ok := t.expandPrivate(key, "token", n)
		if !ok {
			return "", false
		}
		if err := add(text); err != nil {
			t.problem(key, "%v", err)
			return "", false
		}
		return text, true
	})
	fileKey := t.key("keys_file")
	name, inFile := t.file(fileKey)
	n := t.node.fields["keys"]
	switch {
	case inFile && n != nil:
		t.problem(fileKey, "is set together with keys (leave one of them out)")
	case inFile:
		o.KeysFile = name
		t.keysIn(fileKey, name, add)
	case t.node.fields[fileKey] != nil: // wrong, which was said
	case n == nil || n.kind == kindArray && len(n.items) == 0:
		t.problem("keys", "is missing: what is kept in NATS is encrypted (write keys = [\"${FLEET_KEY}\"], with a value such as 1:SECRET, where SECRET is the output of: head -c 32 /dev/urandom | base64; or set keys_file)")
	}
}

// keysIn reads a file with a key on each line. Empty lines, and those that begin with #, count
// for nothing. No problem quotes a line.
func (t *table) keysIn(key, name string, add func(text string) error) {
	data, err := t.r.read(name)
	if err != nil {
		t.problem(key, "cannot be read: %v", err)
		return
	}
	found := false
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		found = true
		_, secret, _ := strings.Cut(line, ":")
		t.r.secrets = append(t.r.secrets, line, secret)
		if err := add(line); err != nil {
			t.problem(key, "line %d of %s %v", number, name, err)
		}
	}
	if !found {
		t.problem(key, "%s has no key (write one on each line, such as 1:SECRET, where SECRET is the output of: head -c 32 /dev/urandom | base64)", name)
	}
}
