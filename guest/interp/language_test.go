package interp

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
)

const languageReference = "../../docs/language.md"

// An example of the reference, and the output under it.
var example = regexp.MustCompile("(?s)```star\n(.*?)```\n```out\n(.*?)```")

// TestLanguageReference checks the output of each example of docs/language.md.
func TestLanguageReference(t *testing.T) {
	page, err := os.ReadFile(languageReference)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if blocks := strings.Count(text, "```"); blocks != 4*len(example.FindAllString(text, -1)) || blocks == 0 {
		t.Errorf("%d fences, %d examples", blocks, len(example.FindAllString(text, -1)))
	}
	fresh := example.ReplaceAllStringFunc(text, func(block string) string {
		parts := example.FindStringSubmatch(block)
		got := shown(parts[1])
		if !*update && got != parts[2] {
			t.Errorf("%s\ngot:\n%s\nthe reference says:\n%s", parts[1], got, parts[2])
		}
		return "```star\n" + parts[1] + "```\n```out\n" + got + "```"
	})
	if *update {
		if err := os.WriteFile(languageReference, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// shown returns the output of a run, as the reference shows it.
func shown(code string) string {
	host := &fakeHost{}
	result, failure := Run(abi.Request{
		Op: abi.OpRun, Name: "example", Code: code, Servers: testServers,
		Params: []byte(`{"query": "bug", "limit": 2, "tags": ["a", "b"]}`),
	}, host)
	var b strings.Builder
	for line := range strings.Lines(host.log.String()) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), " <nil>")
		for prefix, level := range map[string]string{"0 ": "", "1 ": "warning: ", "2 ": "error: "} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				line = level + rest
				break
			}
		}
		b.WriteString(line + "\n")
	}
	switch {
	case failure != nil:
		fmt.Fprintf(&b, "%s error: %s\n", failure.Type, failure.Message)
		if p := failure.Position; p != nil {
			fmt.Fprintf(&b, "  at %s:%d:%d\n    %s\n    %s^\n", p.File, p.Line, p.Column, p.Source, strings.Repeat(" ", p.Column-1))
		}
	case string(result) != "null":
		fmt.Fprintf(&b, "=> %s\n", result)
	}
	return b.String()
}

// TestLanguageReferenceIsComplete checks that every name and method is on the page.
func TestLanguageReferenceIsComplete(t *testing.T) {
	page, err := os.ReadFile(languageReference)
	if err != nil {
		t.Fatal(err)
	}
	words := make(map[string]bool)
	for _, w := range regexp.MustCompile(`\w+`).FindAllString(string(page), -1) {
		words[w] = true
	}
	var names []string
	for name := range always {
		if isIdentifier(name) {
			names = append(names, name)
		}
	}
	names = append(names, starlark.Universe.Keys()...)
	for _, v := range []starlark.HasAttrs{
		starlark.String(""), starlark.NewList(nil), starlark.NewSet(0), starlark.NewDict(0), jsonModule, mathModule, logModule, contentModule, &errorValue{},
	} {
		names = append(names, v.AttrNames()...)
	}
	for _, name := range names {
		if !words[name] && !strings.HasSuffix(name, "_ords") {
			t.Errorf("%s does not say anything of %s", languageReference, name)
		}
	}
}
