package strict

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// ask names a file that TestTable writes for scripts/endtoend/listjudge.
var ask = flag.String("ask", "", "write what clients must be asked to this file")

// question is a list and an item, and what clients refuse a list of it; see
// scripts/endtoend/listjudge.
type question struct {
	List    string   `json:"list"`
	Item    string   `json:"item"`
	Refused []string `json:"refused,omitempty"`
}

var surfaces = map[string]wire.Surface{"tools": wire.Tools, "resources": wire.Resources, "templates": wire.Templates, "prompts": wire.Prompts}

// tableItem is a line of testdata/items.txt.
type tableItem struct {
	list      string
	raw       string
	stateless bool
}

func tableItems(t testing.TB) []tableItem {
	data, err := os.ReadFile("testdata/items.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []tableItem
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		rest, stateless := strings.CutPrefix(line, "stateless ")
		list, raw, _ := strings.Cut(rest, " ")
		if surfaces[list] == "" {
			t.Fatalf("no list: %s", line)
		}
		all = append(all, tableItem{list, raw, stateless})
	}
	return all
}

// stricter are items that no client refuses, and that we change.
var stricter = []string{
	`{"name":"t","inputSchema":{"type":"object","definitions":null}}`, // null like "$defs", which mcp-go reads for it
}

// TestTable judges odd items, and compares with what clients of seven SDKs do with them
// (testdata/verdicts.jsonl, see scripts/endtoend/listjudge): what one of them refuses is odd, what
// none refuses stays as it is, and what clients get instead is refused by none of its era.
func TestTable(t *testing.T) {
	var asked []question
	known := map[string][]string{}
	if data, err := os.ReadFile("testdata/verdicts.jsonl"); *ask == "" {
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		for lines.Scan() {
			var q question
			if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
				t.Fatal(err)
			}
			known[q.List+" "+q.Item] = q.Refused
		}
	}
	refused := func(list string, item []byte) []string {
		q := question{List: list, Item: string(item)}
		if !slices.ContainsFunc(asked, func(p question) bool { return p.List == q.List && p.Item == q.Item }) {
			asked = append(asked, q)
		}
		by, ok := known[list+" "+string(item)]
		if !ok && *ask == "" {
			t.Fatalf("nothing is known about %s %s: run scripts/endtoend/listjudge/update", list, item)
		}
		return by
	}
	odd := 0
	for _, item := range tableItems(t) {
		v := Judge(surfaces[item.list], []byte(item.raw), item.stateless)
		by := refused(item.list, []byte(item.raw))
		if item.stateless { // clients of the older era cannot have it
			by = slices.DeleteFunc(slices.Clone(by), func(name string) bool { return !modern(name) })
		}
		if v.Odd() {
			odd++
		}
		if *ask == "" && v.Odd() != (len(by) > 0) && !slices.Contains(stricter, item.raw) {
			t.Errorf("%s\n is refused by %v, and we say %q", item.raw, by, v.summary())
		}
		if v.Refused != "" {
			if v.Handshake != nil || v.Stateless != nil {
				t.Errorf("%s is refused and there", item.raw)
			}
			continue
		}
		if !item.stateless && !v.Odd() && (string(v.Handshake) != item.raw || string(v.Stateless) != item.raw) {
			t.Errorf("%s is sound, and changed", item.raw)
		}
		for _, by := range refused(item.list, v.Handshake) {
			if !modern(by) || by == "go-sdk" || by == "mcp-go" {
				t.Errorf("%s\n becomes %s\n which is refused by %s", item.raw, v.Handshake, by)
			}
		}
		for _, by := range refused(item.list, v.Stateless) {
			if modern(by) {
				t.Errorf("%s\n becomes %s\n which is refused by %s", item.raw, v.Stateless, by)
			}
		}
	}
	if odd < 100 {
		t.Errorf("only %d odd items", odd)
	}
	if *ask != "" {
		var out bytes.Buffer
		for _, q := range asked {
			line, _ := json.Marshal(q)
			out.Write(append(line, '\n'))
		}
		if err := os.WriteFile(*ask, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// modern reports whether a client is one of the stateless era, or of both.
func modern(name string) bool {
	return strings.HasSuffix(name, "-stateless") || name == "go-sdk" || name == "mcp-go"
}

func (v *Verdict) summary() string {
	if !v.Odd() {
		return ""
	}
	return v.Summary()
}

// TestSummary checks what is said about odd items.
func TestSummary(t *testing.T) {
	const tool = `"name":"t","inputSchema":{"type":"object"}`
	for item, want := range map[string]string{
		`{"name":"t"}`:                                                                   "inputSchema is missing",
		`{"name":"t","inputSchema":null}`:                                                "inputSchema is null",
		`{"name":"t","inputSchema":{"type":["x"]}}`:                                      "inputSchema.type is a list",
		`{"name":"t","inputSchema":{"type":"array"}}`:                                    `inputSchema.type is not "object"`,
		`{"description":"\ud83d",` + tool + `}`:                                          "it has text that is not valid Unicode",
		`{"description":"` + "\xff" + `",` + tool + `}`:                                  "it has text that is not valid Unicode",
		`{"_meta":{"a":[-1e999]},` + tool + `}`:                                          "without _meta (_meta has a number that is too large)",
		`{"x":-1e999,` + tool + `}`:                                                      "",
		`{"name":"t","inputSchema":{"type":"object","x":{"a":1e999}}}`:                   "inputSchema.x has a number that is too large",
		`{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `,` + tool + `}`: "it is nested more than 100 deep",
		`{"title":null,"icons":7,` + tool + `}`:                                          "without title; icons (icons is a number)",
		`{"annotations":{"title":null,"readOnlyHint":"x"},` + tool + `}`:                 "without annotations.title; annotations.readOnlyHint (readOnlyHint is a string)",
		`{"icons":[{"src":"a"},{"src":7}],` + tool + `}`:                                 "without icons (icons[1].src is a number)",
		`{"title":"` + strings.Repeat("é", 1000) + `",` + tool + `}`:                     "",
	} {
		v := Judge(wire.Tools, []byte(item), false)
		if got := v.summary(); got != want {
			t.Errorf("%.60s: %q, want %q", item, got, want)
		}
	}
}
