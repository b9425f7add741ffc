package tomldoc

import (
	"errors"
	"math"
	"strings"
	"testing"
)

const servers = `# My servers.

startup_wait = "2s" # short

# The first one.
[upstream.a]
command = 'a' # with a comment
# how it is called
args = ["x",
  "y", # two
]

[upstream.a.env]
TOKEN = "${A_TOKEN}"

# ---- Others ----

[upstream.b]
url = "https://b" # remote
# restart = "never"

[journal]
enabled = true
`

func TestSet(t *testing.T) {
	for _, tt := range []struct {
		what, text string
		path       []string
		value      any
		old, new   string // what is replaced by what; an empty old: the whole text is new
	}{
		{"a value", servers, []string{"upstream", "a", "command"}, "b", "'a' #", "\"b\" #"},
		{"the same value", servers, []string{"upstream", "a", "args"}, []string{"x", "y"}, "My", "My"},
		{"an array", servers, []string{"upstream", "a", "args"}, []string{"z"}, "[\"x\",\n  \"y\", # two\n]", `["z"]`},
		{"a new key", servers, []string{"upstream", "a", "disabled"}, true, "]\n\n[upstream.a.env]", "]\ndisabled = true\n\n[upstream.a.env]"},
		{"a key before a comment", servers, []string{"upstream", "b", "disabled"}, true, "# remote\n", "# remote\ndisabled = true\n"},
		{"a key of a sub-table", servers, []string{"upstream", "a", "env", "B C"}, "1", "_TOKEN}\"\n", "_TOKEN}\"\n\"B C\" = \"1\"\n"},
		{"a short table", servers, []string{"upstream", "b", "headers"}, InlineTable{{"X", "1"}}, "# remote\n", "# remote\nheaders = { X = \"1\" }\n"},
		{"a key at the top", servers, []string{"x"}, int64(1), "# short\n", "# short\nx = 1\n"},
		{"a table after its siblings", servers, []string{"upstream", "c"}, InlineTable{{"command", "c"}, {"args", []string{`\w`, "it's"}}},
			"# restart = \"never\"\n", "# restart = \"never\"\n\n[upstream.c]\ncommand = \"c\"\nargs = ['\\w', \"it's\"]\n"},
		{"a table at the end", "a = 1", []string{"x", "y z"}, InlineTable{{"b", math.Inf(-1)}}, "a = 1", "a = 1\n\n[x.\"y z\"]\nb = -inf\n"},
		{"a table in an empty text", "", []string{"x", "y"}, InlineTable{{"b", 1.0}}, "", "[x.y]\nb = 1.0\n"},
		{"a table merged", servers, []string{"upstream", "a"}, InlineTable{{"command", "a"}, {"cwd", "/"}, {"env", InlineTable{{"TOKEN", "${A_TOKEN}"}}}},
			"# how it is called\nargs = [\"x\",\n  \"y\", # two\n]\n", "cwd = \"/\"\n# how it is called\n"},
		{"an inline table", "u = { a = { b = 1 }, c = {} } # t\n", []string{"u", "c"}, InlineTable{{"d", "x"}}, "{}", `{ d = "x" }`},
		{"in an inline table", "u = { a = { b = 1 } } # t\n", []string{"u", "a", "c"}, InlineTable{{"d", true}}, "b = 1", "b = 1, c = { d = true }"},
		{"an inline table replaced", "u.a = { b = 1 } # t\n", []string{"u", "a"}, "x", "{ b = 1 }", `"x"`},
		{"dotted keys", "u.a.b = 1\nc = 2\n", []string{"u", "a", "d"}, false, "u.a.b = 1\n", "u.a.b = 1\nu.a.d = false\n"},
		{"CRLF", "[u.a]\r\nb = 1\r\n", []string{"u", "b"}, InlineTable{{"c", "d"}}, "b = 1\r\n", "b = 1\r\n\r\n[u.b]\r\nc = \"d\"\r\n"},
		{"a byte order mark", "\ufeffa = 1\n", []string{"a"}, int64(2), "1", "2"},
		{"no line break at the end", "[a]\nb = 1", []string{"a", "c"}, int64(2), "b = 1", "b = 1\nc = 2\n"},
		{"a long table", "", []string{"u", "a"}, InlineTable{{"env", InlineTable{{"K", strings.Repeat("k", 99)}}}, {"x", "y"}}, "",
			"[u.a]\nx = \"y\"\n\n[u.a.env]\nK = \"" + strings.Repeat("k", 99) + "\"\n"},
		{"a long array", "", []string{"u", "a"}, InlineTable{{"args", []string{strings.Repeat("k", 99), "b"}}}, "",
			"[u.a]\nargs = [\n  \"" + strings.Repeat("k", 99) + "\",\n  \"b\",\n]\n"},
		{"a table that only has sub-tables", "[a.b.c]\nd = 1\n", []string{"a", "b", "e"}, int64(2), "d = 1\n", "d = 1\n\n[a.b]\ne = 2\n"},
		{"before the first table", "# about the file\n\n# about a\n[a]\n", []string{"x"}, int64(2), "# about a", "x = 2\n\n# about a"},
		{"a table emptied that has no header", "[u.a]\nurl = 'x'\noauth.client_id = 'y'\n", []string{"u", "a", "oauth"}, InlineTable{}, "oauth.client_id = 'y'", "oauth = {}"},
		{"tables in a table emptied", "[u.a]\nurl = 'x'\noauth.client_id = 'y'\n", []string{"u", "a"}, InlineTable{{"url", "x"}, {"oauth", InlineTable{}}}, "oauth.client_id = 'y'", "oauth = {}"},
		{"lines in a string", "a = 1\n", []string{"a"}, "x\ny\x1b", "1", `"x\ny\u001B"`},
	} {
		t.Run(tt.what, func(t *testing.T) {
			got, err := Set(tt.text, tt.path, tt.value)
			want := tt.new
			if tt.old != "" {
				if strings.Count(tt.text, tt.old) != 1 {
					t.Fatalf("%q is not there once", tt.old)
				}
				want = strings.Replace(tt.text, tt.old, tt.new, 1)
			}
			if tt.what == "no line break at the end" {
				want = "[a]\nb = 1\nc = 2"
			}
			if err != nil || got != want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	for _, tt := range []struct {
		what, text string
		path       []string
		old, new   string
	}{
		{"a table with comments and sub-tables", servers, []string{"upstream", "a"}, servers[strings.Index(servers, "# The first"):strings.Index(servers, "# ----")], ""},
		{"a table and comments below", servers, []string{"upstream", "b"}, servers[strings.Index(servers, "[upstream.b]"):strings.Index(servers, "[journal]")], ""},
		{"the last table", servers, []string{"journal"}, "\n[journal]\nenabled = true\n", ""},
		{"everything", servers, []string{"upstream"}, "", "# My servers.\n\nstartup_wait = \"2s\" # short\n\n# ---- Others ----\n\n[journal]\nenabled = true\n"},
		{"a key", servers, []string{"upstream", "a", "args"}, "args = [\"x\",\n  \"y\", # two\n]\n", ""},
		{"nothing", servers, []string{"upstream", "c"}, "x", "x"},
		{"a comment about the next table", "[a]\nb = 1\n# about c\n[c]\n", []string{"a"}, "[a]\nb = 1\n", ""},
		{"a comment at the top", "# about the file\n[a]\nb = 1\n", []string{"a"}, "[a]\nb = 1\n", ""},
		{"the first of an inline table", "u = { a = 1, b = 2 }", []string{"u", "a"}, "a = 1, ", ""},
		{"the last of an inline table", "u = { a = 1, b = 2 }", []string{"u", "b"}, ", b = 2", ""},
		{"the only one of an inline table", "u = { a = 1 }", []string{"u", "a"}, " a = 1 ", ""},
		{"two of an inline table", "u = { a.b = 1, a.c = 2, d = 3 }", []string{"u", "a"}, "a.b = 1, a.c = 2, ", ""},
		{"dotted keys", "u.a.b = 1\nu.c = 1\nu.a.d = 2\n", []string{"u", "a"}, "", "u.c = 1\n"},
		{"an array of tables", "[[a.b]]\nc = 1\n[[a.b]]\n[d]\n", []string{"a"}, "", "[d]\n"},
		{"CRLF", "[a]\r\nb = 1\r\n\r\n[c]\r\n", []string{"a"}, "", "[c]\r\n"},
		{"below a table that is commented out", "x = 1\n\n# [u.c]\n# d = 1\n[u.a]\nb = 1\n", []string{"u", "a"}, "[u.a]\nb = 1\n", ""},
		{"below a key that is commented out", "[x]\ny = 1\n# z = 1\n[u.a]\nb = 1\n", []string{"u", "a"}, "[u.a]\nb = 1\n", ""},
		{"above a table that is commented out", "[u.a]\nb = 1\n# [u.c]\n# d = 1\n", []string{"u", "a"}, "[u.a]\nb = 1\n", ""},
		{"around a table that is commented out", "[u.a]\nb = 1\n# [u.c]\n# d = 1\n[u.a.env]\nX = '1'\n", []string{"u", "a"}, "", "# [u.c]\n# d = 1\n"},
		{"around a comment of its own", "[u.a]\nb = 1\n\n# ---- x ----\n\n[u.a.env]\nX = '1'\n", []string{"u", "a"}, "", "# ---- x ----\n"},
		{"the only key of dotted tables", "[u]\na.b.c = 1\n", []string{"u", "a", "b", "c"}, "a.b.c = 1\n", ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			got, err := Remove(tt.text, tt.path)
			want := tt.new
			if tt.old != "" {
				want = strings.Replace(tt.text, tt.old, tt.new, 1)
			}
			if err != nil || got != want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		text string
		path []string
		form bool
	}{
		{"[[a]]\nb = 1\n", []string{"a", "b"}, true},
		{"a = 1\n", []string{"a", "b"}, true},
		{"a = [{b = 1}]\n", []string{"a", "b"}, true},
		{"a = \n", []string{"a"}, false},
		{strings.Repeat("[", 200), []string{"a"}, false},
	} {
		_, err := Set(tt.text, tt.path, "x")
		if at := new(PathError); !errors.As(err, &at) || errors.Is(err, ErrForm) != tt.form {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}

func FuzzEdit(f *testing.F) {
	for _, text := range []string{servers, "u = { a = { b = 1 }, c.d = {} } # t\n", "u.a.b = 1\nc = 2\n", "[[a]]\nb=1\n[[a.c]]\n[a.d]\n",
		"[a.b.c]\nd = 1\n[a]\n", "# x\r\n[u]\r\na.b = 1\r\n", "a = '''\nx'''\n'' = 1"} {
		f.Add(text, "upstream\xffa", "command", "x")
		f.Add(text, "u", "a", "it's ${X}\n\x00")
		f.Add(text, "a\xffb", "", "é")
	}
	f.Fuzz(func(t *testing.T, text, parent, key, value string) {
		if len(text) > 1<<12 || len(parent) > 100 || strings.IndexByte(key+text, 0xfe) >= 0 || strings.IndexByte(key+text, 0xff) >= 0 {
			return
		}
		before, err := decode(strings.TrimPrefix(text, bom))
		if err != nil {
			return
		}
		path := append(strings.Split(parent, "\xff"), key)
		for _, name := range append(path, value) {
			if strings.ToValidUTF8(name, "") != name {
				return
			}
		}
		for _, v := range []any{value, InlineTable{{"k", value}, {"l", []string{value, value}}}} {
			checkSet(t, text, before, path, v)
		}
		checkRemove(t, text, path)
	})
}

// checkSet sets a value and compares all values, and the bytes that should have stayed.
func checkSet(t *testing.T, text string, before map[string]any, path []string, value any) {
	t.Helper()
	got, err := Set(text, path, value)
	if err != nil {
		if !errors.Is(err, ErrForm) {
			t.Fatalf("%q: %v", text, err)
		}
		return
	}
	if v, ok, err := Get(got, path); err != nil || !ok || !same(v, plainValue(value)) {
		t.Fatalf("%q has become %q, with %v (%v)", text, got, v, err)
	}
	if _, exists := lookup(before, path); !exists && !inserted(text, got) {
		t.Errorf("%q has become %q, which is not it with something inserted", text, got)
	}
	if again, err := Set(got, path, value); err != nil || again != got {
		t.Errorf("%q has become %q the second time (%v)", got, again, err)
	}
}

// inserted reports whether b is a with something inserted at one place.
func inserted(a, b string) bool {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return strings.HasSuffix(b, a[n:]) && len(b) >= len(a)
}

// checkRemove checks that removing only removes.
func checkRemove(t *testing.T, text string, path []string) {
	t.Helper()
	got, err := Remove(text, path)
	if err != nil {
		if !errors.Is(err, ErrForm) {
			t.Fatalf("%q: %v", text, err)
		}
		return
	}
	if _, ok, err := Get(got, path); err != nil || ok {
		t.Errorf("%q has become %q, where it still is (%v)", text, got, err)
	}
	rest := text
	for i := range len(got) {
		at := strings.IndexByte(rest, got[i])
		if at < 0 {
			t.Fatalf("%q has become %q, which has something new", text, got)
		}
		rest = rest[at+1:]
	}
}

func TestScanFindsValues(t *testing.T) {
	text := "a.'b' = [1, {c = 'd'}] # x\n[[e]]\n"
	got := Scan(text)
	if len(got) != 2 || got[0].Value.Items[1].Members[0].Keys[0].Name != "c" || got[1].Kind != ArrayTable ||
		text[got[0].From:got[0].To] != "a.'b' = [1, {c = 'd'}]" || got[0].Keys[1].Name != "b" {
		t.Errorf("%+v", got)
	}
}
