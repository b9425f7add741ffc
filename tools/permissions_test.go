package tools

import (
	"reflect"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		target, server, tool string
		want                 bool
	}{
		{"a.x", "a", "x", true}, {"a.x", "a", "y", false}, {"a.x", "b", "x", false}, {"a.x", "A", "x", false},
		{"a.*", "a", "x", true}, {"a.*", "a", "", true}, {"a.*", "ab", "x", false}, {"a*.*", "ab", "x", true},
		{"a.x*", "a", "xy", true}, {"a.x*", "a", "x/y.z", true}, {"a.*", "a", "x/y.z", true}, {"a.x?", "a", "xy", true}, {"a.[xy]", "a", "y", true},
		{"a.x.y", "a", "x.y", true}, {"a.x.y", "a", "x_y", false}, {"a", "a", "x", false}, {"a.[", "a", "[", false},
		{Target("a", "*"), "a", "*", true}, {Target("a", "*"), "a", "x", false}, {Target("a", `\*`), "a", `\*`, true},
		{Target("a", "[x]?"), "a", "[x]?", true}, {Target("a", "[x]?"), "a", "xy", false},
	} {
		if Matches(c.target, c.server, c.tool) != c.want {
			t.Errorf("%q for %s.%s: %t", c.target, c.server, c.tool, !c.want)
		}
	}
}

func TestPermissionsAllow(t *testing.T) {
	p := &Permissions{Calls: []string{"git-hub.get-issue", "files.*"}, Unresolved: []string{"git_hub.put_it", `git_hub.odd\*`}, Bounds: nil}
	for call, want := range map[string]bool{
		"git-hub get-issue": true, "git-hub get_issue": false, "git_hub get-issue": false, "files anything": true,
		"git-hub put-it": true, "git-hub put_it": true, "git-hub put.it": true, "git-hub odd*": true, "git-hub oddly": false, "other x": false,
	} {
		server, tool, _ := strings.Cut(call, " ")
		if p.Allows(server, tool) != want {
			t.Errorf("%s: %t", call, !want)
		}
	}
	p.Bounds = []string{"files.r*"}
	if p.Allows("files", "write") || !p.Allows("files", "read") || p.Allows("git-hub", "get-issue") {
		t.Error("bounds do not count")
	}
	var none *Permissions
	if none.Allows("a", "b") || none.Of("") || none.List() != nil || none.JSON() != nil || !none.Bounded("a", "b") {
		t.Error("unknown permissions allow something")
	}
	if got := p.Added(&Permissions{Calls: []string{"files.*", "git-hub.*"}}); strings.Join(got, " ") != `git_hub.odd\* git_hub.put_it` {
		t.Error(got)
	}
}

func TestPermissionsFile(t *testing.T) {
	for _, p := range []*Permissions{
		{Calls: []string{}, Code: "x"},
		{Calls: []string{"a.b", "c.*"}, Unresolved: []string{"d.e"}, Bounds: []string{"a.*"}, Definitions: map[string]string{"a.b": "1"}, Code: "x"},
		{Calls: []string{}, Bounds: []string{}},
		{Calls: []string{"a.b", Target("c", "a\x01b"), Target("c", "a/[?*\\")}, Definitions: map[string]string{}},
	} {
		got, err := ParsePermissions(p.JSON())
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%s: %+v, %v", p.JSON(), got, err)
		}
	}
	for _, bad := range []string{`[]`, `"a.b"`, `{"calls":"a.b"}`, `{"calls":["a"]}`, `{"calls":["a.["]}`, `{"bounds":[".x"]}`, `{"definitions":{"x":"1"}}`, `{"calls":[1]}`} {
		if p, err := ParsePermissions([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, p)
		}
	}
}

// TestHashHasBounds checks that the identity of a definition has the bounds, which limit its
// runs, but not what is derived from its code, which changes with the servers.
func TestHashHasBounds(t *testing.T) {
	d := Definition{Name: "a", Code: "1", InputSchema: []byte(`{}`)}
	plain := d.Hash()
	d.Permissions = &Permissions{Calls: []string{"a.b"}, Definitions: map[string]string{"a.b": "1"}, Code: CodeDigest("1")}
	if d.Hash() != plain {
		t.Error("what is derived is in the hash")
	}
	d.Permissions.Bounds = []string{}
	none := d.Hash()
	d.Permissions.Bounds = []string{"a.b"}
	if none == plain || d.Hash() == none || d.Hash() == plain {
		t.Error("bounds are not in the hash")
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		others, target string
		want           bool
	}{
		{"a.x", "a.x", true}, {"a.*", "a.x", true}, {"*.*", "a.*", true}, {"a.*", "a.x*", true}, {"a.x*", "a.xy", true},
		{"a.x", "a.*", false}, {"a.x*", "a.*", false}, {"b.*", "a.x", false}, {"a.x-*", "a.x_y", false}, {"", "a.x", false},
	} {
		if Covers(strings.Fields(c.others), c.target) != c.want {
			t.Errorf("%q covers %s: %t", c.others, c.target, !c.want)
		}
	}
}
