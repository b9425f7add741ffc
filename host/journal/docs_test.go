package journal

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

const reference = "../../docs/journal.md"

// TestExampleOfReference checks that the example run in docs/journal.md can be read,
// has the content that the text describes, and is encoded in exactly that form.
func TestExampleOfReference(t *testing.T) {
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	block := regexp.MustCompile("(?ms)^```jsonl\n(.*?)^```$").FindStringSubmatch(text)
	if block == nil {
		t.Fatalf("no example in %s", reference)
	}
	rec, err := Decode(strings.NewReader(block[1]))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Definition.Name != "issue_summary" || len(rec.Calls) != 2 || rec.Calls[1].Answer.Err == nil || rec.Outcome.Error != abi.ErrTool ||
		len(rec.Logs) != 1 || len(rec.Undos) != 1 {
		t.Errorf("%+v", rec)
	}
	var b bytes.Buffer
	if err := Encode(&b, rec); err != nil || b.String() != block[1] {
		t.Errorf("it is written so (%v):\n%s", err, b.String())
	}
}

// TestReferenceHasEveryMember checks that docs/journal.md explains every member of
// events.
func TestReferenceHasEveryMember(t *testing.T) {
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	member := regexp.MustCompile(`l\.(?:text|raw|plain|number|count|flag|open|seconds|name|time|callError)\("([a-zA-Z]+)"`)
	for _, file := range []string{"event.go", "record.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range member.FindAllSubmatch(source, -1) {
			known[string(m[1])] = true
		}
	}
	if len(known) < 30 {
		t.Fatalf("only %d members found", len(known))
	}
	for name := range known {
		if !strings.Contains(string(data), "`"+name+"`") {
			t.Errorf("%q is not in %s", name, reference)
		}
	}
}
