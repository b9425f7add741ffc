package tools

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestSeePermissions looks at the definitions of one server.
func TestSeePermissions(t *testing.T) {
	t.Parallel()
	imported := &Permissions{
		Calls:      []string{"files.*", "git-hub.get", "git-hub.put", "tools.other"},
		Unresolved: []string{"git_hub.do_it"},
	}
	server := map[string]string{"get": "1", "do-it": "2", "more": "3"}
	see := func(p *Permissions, server string, digests map[string]string) *Permissions {
		return p.See(server, slices.Sorted(maps.Keys(digests)), func(name string) string { return digests[name] })
	}
	p := see(imported, "git-hub", server)
	if !maps.Equal(p.Definitions, map[string]string{"git-hub.get": "1", "git-hub.do-it": "2"}) ||
		strings.Join(p.Unseen, " ") != "files.* git-hub.put tools.other" || imported.Definitions != nil {
		t.Errorf("%+v of %+v", p, imported)
	}
	for target, unseen := range map[string]bool{"git-hub put": true, "git-hub get": false, "git-hub do-it": false, "git-hub more": false, "files x": true, "tools other": true, "tools x": false} {
		if server, tool, _ := strings.Cut(target, " "); p.IsUnseen(server, tool) != unseen {
			t.Errorf("%s: %t", target, !unseen)
		}
	}
	if got := strings.Join(p.UnseenServers(), " "); got != "files git-hub tools" {
		t.Error(got)
	}
	// What was seen once is not seen again, and what a server gets later is new.
	p = see(see(p, "files", map[string]string{"read": "4"}), "files", map[string]string{"read": "5", "write": "6"})
	p = see(p, "git-hub", map[string]string{"get": "7", "put": "8"})
	if !maps.Equal(p.Definitions, map[string]string{"git-hub.get": "1", "git-hub.do-it": "2", "git-hub.put": "8", "files.read": "4"}) || p.IsUnseen("files", "write") {
		t.Errorf("%+v", p)
	}
	bounded := &Permissions{Calls: []string{"files.*"}, Bounds: []string{"files.r*"}}
	if p := see(bounded, "files", map[string]string{"read": "1", "write": "2", "rename": ""}); len(p.Definitions) != 1 || p.Unseen != nil {
		t.Errorf("%+v", p)
	}
	var none *Permissions
	if none.IsUnseen("a", "b") || none.UnseenServers() != nil {
		t.Error("unknown permissions are unseen")
	}
}

// TestSeeStored writes down what was seen first, whichever process it was.
func TestSeeStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := openStore(t, dir, StoreOptions{}), openStore(t, dir, StoreOptions{})
	def := tool("a")
	def.Permissions = &Permissions{Calls: []string{"s.x", "t.y"}, Code: CodeDigest(def.Code)}
	stored := mustSave(t, first, def).Permissions
	see := func(s *Store, p *Permissions, digest string) *Permissions {
		t.Helper()
		got, err := s.See("a", p, "s", []string{"x"}, func(string) string { return digest })
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if p := see(first, stored, ""); p.Definitions["s.x"] != "" {
		t.Errorf("%+v", p)
	}
	if p := see(first, stored, "1"); p.Definitions["s.x"] != "1" {
		t.Errorf("%+v", p)
	}
	if p := see(second, stored, "2"); p.Definitions["s.x"] != "1" || !p.IsUnseen("t", "y") {
		t.Errorf("%+v", p)
	}
	now, err := second.Get("a")
	if err != nil || now.Permissions.Definitions["s.x"] != "1" || strings.Join(now.Permissions.Unseen, " ") != "t.y" {
		t.Errorf("%+v, %v", now.Permissions, err)
	}
	if versions, err := first.History("a"); err != nil || len(versions) != 0 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
	// A run that began with another form of the tool writes nothing.
	other := *stored
	other.Calls = []string{"s.x"}
	if p := see(first, &other, "3"); p != &other {
		t.Errorf("%+v", p)
	}
	if p, err := first.See("gone", stored, "s", []string{"x"}, func(string) string { return "1" }); p != stored || err != nil {
		t.Error(p, err)
	}
}
