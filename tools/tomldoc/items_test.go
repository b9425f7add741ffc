package tomldoc

import (
	"strings"
	"testing"
)

var item = InlineTable{{"name", "ci"}, {"hide", []string{"db.*"}}}

func TestAppend(t *testing.T) {
	const inlined = `{ name = "ci", hide = ["db.*"] }`
	const section = "[[http.tokens]]\nname = \"ci\"\nhide = [\"db.*\"]\n"
	for in, want := range map[string]string{
		"":                              section,
		"a = 1":                         "a = 1\n\n" + section,
		"[http]\nui = true\n":           "[http]\nui = true\n\n" + section,
		"[http]\nui = true\n\n[x]\n":    "[http]\nui = true\n\n" + section + "\n[x]\n",
		"[http]\ntokens = []\n":         "[http]\ntokens = [" + inlined + "]\n",
		"http.tokens = [\"a\"]\n":       "http.tokens = [\"a\", " + inlined + "]\n",
		"http = { tokens = [\"a\", ] }": "http = { tokens = [\"a\", " + inlined + ", ] }",
		"[http]\ntokens = [\n  \"a\", # mine\n]\n":             "[http]\ntokens = [\n  \"a\", # mine\n  " + inlined + ",\n]\n",
		"[http]\ntokens = [\n  \"a\" # mine\n  # end\n]\n":     "[http]\ntokens = [\n  \"a\", # mine\n  " + inlined + "\n  # end\n]\n",
		"[http]\ntokens = [\n  \"a\",\n  { token = \"b\" }]\n": "[http]\ntokens = [\n  \"a\",\n  { token = \"b\" }, " + inlined + "]\n",
		"[[http.tokens]]\nname = \"a\"\n\n[y]\nb = 1\n":        "[[http.tokens]]\nname = \"a\"\n\n" + section + "\n[y]\nb = 1\n",
		"[http]\r\ntokens = [\r\n\t'a',\r\n]\r\n":              "[http]\r\ntokens = [\r\n\t'a',\r\n\t" + inlined + ",\r\n]\r\n",
	} {
		got, err := Append(in, []string{"http", "tokens"}, item)
		if err != nil || got != want {
			t.Errorf("%q becomes\n%q, %v, want\n%q", in, got, err, want)
		}
	}
	for _, in := range []string{"http = 1", "[http]\ntokens = \"a\"\n", "http = {}\n", "["} {
		if got, err := Append(in, []string{"http", "tokens"}, item); err == nil {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func TestRemoveItem(t *testing.T) {
	for in, want := range map[string]string{
		"tokens = ['a', 'b', 'c']\n": "tokens = ['a', 'c']\n",
		"tokens = ['a', 'b']\n":      "tokens = ['a']\n",
		"tokens = [\n  'a',\n  # of b\n  'b', # b\n  # of c\n  'c',\n]\n": "tokens = [\n  'a',\n  # of c\n  'c',\n]\n",
		"tokens = [\n  'a',\n  'b'\n]\n":                                  "tokens = [\n  'a'\n]\n",
		"x = 1\n\n[[tokens]]\nn = 1\n\n# two\n[[tokens]]\nn = 2\n\n[y]\n": "x = 1\n\n[[tokens]]\nn = 1\n\n[y]\n",
	} {
		got, err := RemoveItem(in, []string{"tokens"}, 1)
		if err != nil || got != want {
			t.Errorf("%q becomes\n%q, %v, want\n%q", in, got, err, want)
		}
	}
	if got, err := RemoveItem("[http]\n[[http.tokens]]\nn = 1\n", []string{"http", "tokens"}, 0); err != nil || got != "[http]\n" {
		t.Errorf("the only one: %q, %v", got, err)
	}
	if got, err := RemoveItem("[[http.tokens]]\nn = 1\n", []string{"http", "tokens"}, 0); err != nil || strings.TrimSpace(got) != "" {
		t.Errorf("the only one of a table without a header: %q, %v", got, err)
	}
	if got, err := RemoveItem("tokens = ['a']\n", []string{"tokens"}, 0); err != nil || got != "tokens = []\n" {
		t.Errorf("the only one: %q, %v", got, err)
	}
	for _, i := range []int{-1, 2} {
		if got, err := RemoveItem("tokens = ['a', 'b']\n", []string{"tokens"}, i); err == nil {
			t.Errorf("%d: %q", i, got)
		}
	}
}

// FuzzItems checks that an item that was added can be removed again. Both check their own
// results.
func FuzzItems(f *testing.F) {
	f.Add("[http]\ntokens = [\n 'a' # x\n]\n")
	f.Add("[[http.tokens]]\n[http.tokens.a]\n[z]\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := []string{"http", "tokens"}
		before, err := decode(strings.TrimPrefix(text, bom))
		if err != nil {
			return
		}
		added, err := Append(text, path, item)
		if err != nil {
			return
		}
		list, _ := listAt(before, path)
		removed, err := RemoveItem(added, path, len(list))
		if err != nil {
			t.Fatalf("%q: %v", added, err)
		}
		if _, err := decode(strings.TrimPrefix(removed, bom)); err != nil {
			t.Fatal(err)
		}
	})
}
