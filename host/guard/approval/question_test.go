package approval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// hostile are texts that try to change the meaning of a question.
var hostile = []string{
	"x\nAsked because of the rule `harmless`: reads only",
	"x\r\n\r\nTool: `read`", "x\vy\fz\u0085a\u2028b\u2029c",
	"` and **this is not code** [click](http://evil) `", "```\n# Heading\n```", "x` </code><img src=x onerror=alert(1)>",
	"\u202eesrever\u202c", "\u2066isolated\u2069", "\u200bzero\u200dwidth\ufeff\u2060", "\u00ad soft", "\U000e0041tags\U000e007f",
	"\x1b[2J\x1b[31mred\x07", "\x00", "\u009b31m",
	strings.Repeat(" ", 5000) + "delete everything", strings.Repeat("\u00a0", 100) + "x", strings.Repeat("\u3000", 100), "\u2800\u3164\uffa0blank",
	"Z\u0351\u036f\u0363\u0300a\u20dd", "\ufe0f\U000e0100", "\xff\xfe", "\\u0060 \\n", "a\tb",
	strings.Repeat("long ", 100_000), "`" + strings.Repeat("`", 3000),
}

// lines checks that a question has only the lines that it should have, and nothing that is
// shown in another way than it is written.
func checkLines(t *testing.T, from, text string, most int) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if len(lines) > most {
		t.Errorf("%q makes %d lines:\n%s", clipped(from), len(lines), text)
	}
	for _, line := range lines {
		if strings.Count(line, "`")%2 != 0 {
			t.Errorf("%q leaves a code span open: %q", clipped(from), line)
		}
		// Outside of code spans there are only words of ours.
		for i, part := range strings.Split(line, "`") {
			if i%2 == 0 && strings.ContainsAny(part, "<>[]*#|~\\") {
				t.Errorf("%q is outside of code spans: %q", clipped(from), line)
			}
		}
		for _, r := range line {
			if r != '…' && r > unicode.MaxASCII && !unicode.IsPrint(r) || r < ' ' || unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
				t.Errorf("%q shows %U: %q", clipped(from), r, line)
			}
		}
	}
	if len(text) > 16<<10 {
		t.Errorf("%q makes %d bytes", clipped(from), len(text))
	}
}

func clipped(text string) string { return text[:min(len(text), 60)] }

// TestHostileTexts puts hostile texts everywhere in a call: they cannot forge a question.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	for _, text := range hostile {
		text := strings.ToValidUTF8(text, "\uFFFD")
		c := answering(`{"action":"decline","content":{"note":` + string(wire.Quote(text)) + `}}`)
		a := asking(c, fmt.Sprintf(`{"plain":%s,%s:1,"deep":[{"x":%[1]s}]}`, wire.Quote(text), wire.Quote(text+"?")))
		a.Request.Server, a.Request.Name = text, strings.ToValidUTF8(text[:min(len(text), maxWhole)], "")
		a.Request.Definition = wire.Marshal(map[string]string{"name": text, "description": text})
		a.Request.Caller = policy.Caller{Client: text, Session: "s", Script: text}
		a.Decision.Rule, a.Decision.Reason = text, text
		_, err := d.approve(a)
		if err == nil || len(c.asked) != 1 {
			t.Fatalf("%q: asked %d times, %v", clipped(text), len(c.asked), err)
		}
		checkLines(t, text, c.asked[0], 12)
		checkLines(t, text, err.Error(), 1)
		want := []string{"May this call be made?", "", "Tool: ", "Called by: a script, ", "Arguments:", "- `", "- `", "- `"}
		if len(text) > 100_000 {
			want = want[:6] // its arguments are too large to be kept
		}
		for i, line := range strings.Split(c.asked[0], "\n")[:len(want)] {
			if !strings.HasPrefix(line, want[i]) {
				t.Errorf("%q: line %d is %q", clipped(text), i, line)
			}
		}
		for _, kind := range []policy.Kind{policy.KindResource, policy.KindPrompt, policy.KindCompletion, policy.KindMethod} {
			a.Request.Kind = kind
			_, _ = d.approve(a)
			checkLines(t, text, c.asked[len(c.asked)-1], 12)
		}
	}
}

// TestQuestion shows what people read.
func TestQuestion(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	c := answering(`{}`)
	a := asking(c, `{"repo":"prod/x","sql":"SELECT *\nFROM t -- \u202e`+"`"+`","token":"hunter2secret","n":1.50,"deep":{"b":[1,"<b>"],"a":null}}`)
	a.Request.Name = "merge_pull\u0440equest" // a Cyrillic letter
	a.Request.Caller = policy.Caller{Client: "ci", Token: true, Script: "release"}
	_, _ = d.approve(a)
	got := c.asked[0]
	digest := got[strings.LastIndex(got, " ")+1:]
	want := "May this call be made?\n\n" +
		"Tool: `merge_pull\\u0440equest` of the server `github`\n" +
		"Called by: a script, `release`, for the client with the token `ci`\n" +
		"Arguments:\n" +
		"- `repo`: `\"prod/x\"`\n" +
		"- `sql`: `\"SELECT *\\nFROM t -- \\u202e\\u0060\"`\n" +
		"- `token`: `\"****\"`\n" +
		"- `n`: `1.50`\n" +
		"- `deep`: `{\"b\":[1,\"<b>\"],\"a\":null}`\n" +
		"Asked because of the rule `production is asked for`: `changes production`\n" +
		"Digest of the call: " + digest
	if got != want || len(digest) != digestShown {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestLongArguments checks that a question says so if it does not show all, and shows the end
// of a long text, too.
func TestLongArguments(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%03d":%d`, i, i)
	}
	for name, test := range map[string]struct {
		arguments string
		shows     []string
	}{
		"one":  {`{"a":"` + strings.Repeat("x", 5000) + `; rm -rf /"}`, []string{"characters are not shown", `; rm -rf /"`, "NOT ALL OF THE ARGUMENTS ARE SHOWN"}},
		"huge": {`{"a":"` + strings.Repeat("x", 300_000) + `"}`, []string{"(too large to show)"}},
		"many": {"{" + strings.Join(many, ",") + "}", []string{"- and 76 more", "NOT ALL OF THE ARGUMENTS ARE SHOWN: they have "}},
		"list": {`{"a":[{"x":"` + strings.Repeat("x", 500) + `"},{"y":"` + strings.Repeat("y", 500) + `"}]}`, []string{"- `a` (1 of 2): `{\"x\"", "- `a` (2 of 2): `{\"y\""}},
		"none": {`{}`, []string{"Arguments: none"}},
	} {
		c := answering(`{}`)
		_, _ = d.approve(asking(c, test.arguments))
		for _, text := range test.shows {
			if !strings.Contains(c.asked[0], text) {
				t.Errorf("%s lacks %q:\n%s", name, text, c.asked[0])
			}
		}
	}
	// Two calls that are shown alike are still two questions.
	c := answering(`{}`)
	for _, middle := range []string{"a", "b"} {
		_, _ = d.approve(asking(c, `{"a":"`+strings.Repeat("x", 3000)+middle+strings.Repeat("x", 3000)+`"}`))
	}
	if c.asked[0] == c.asked[1] {
		t.Errorf("one question for two calls:\n%s", c.asked[0])
	}
}

// TestForm checks the schema of the answer: flat, with a fixed choice.
func TestForm(t *testing.T) {
	t.Parallel()
	q := Question{Kind: policy.KindTool, Server: "s", Name: "t", Digest: strings.Repeat("0", 64), RememberFor: 0}
	for _, remember := range []bool{false, true} {
		choices := `["allow once","deny"]`
		if remember {
			q.RememberFor, choices = 8*60*60*1e9, `["allow once","allow and remember","deny"]`
		}
		form := q.form()
		if got, _ := wire.Get(form, "requestedSchema", "properties", "decision", "enum"); string(got) != choices {
			t.Errorf("choices %s", got)
		}
		if got, _ := wire.GetString(form, "requestedSchema", "properties", "decision", "description"); remember != strings.Contains(got, "for 8h") {
			t.Errorf("description %q", got)
		}
		if v := readAnswer([]byte(`{"action":"accept","content":{"decision":"allow and remember"}}`), q); v.Allow != remember {
			t.Errorf("what was not offered is accepted: %+v", v)
		}
	}
}

// TestTooLongToAsk checks that a request which cannot be shown or kept is denied without a question,
// and leaves nothing behind.
func TestTooLongToAsk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDesk(t, dir)
	d.settings.By, d.settings.Wait = ByQueue, Answer
	if _, err := d.queue.keys(t.Context()); err != nil { // it is in a file
		t.Fatal(err)
	}
	before := filesIn(t, dir)
	for _, length := range []int{maxWhole + 1, 10 << 20} {
		a := asking(nil, `{}`)
		a.Request.Kind, a.Request.Name = policy.KindResource, "file:///"+strings.Repeat("x", length-8)
		var denied *DeniedError
		if _, err := d.approve(a); !errors.As(err, &denied) || !strings.Contains(err.Error(), "too long to show it") || len(err.Error()) > 1000 {
			t.Errorf("%d: %.2000v", length, err)
		}
	}
	if after := filesIn(t, dir); !slices.Equal(after, before) {
		t.Errorf("there were %q, and there are %q", before, after)
	}
	a := asking(nil, `{}`)
	a.Request.Name = strings.Repeat("\x01", maxWhole)
	if text := (Question{Kind: policy.KindTool, Server: "github", Name: a.Request.Name, Digest: strings.Repeat("0", 64)}).Text(); strings.Contains(text, "not shown") {
		t.Error("a name is not shown as a whole")
	}
	a.Request.Arguments = []byte(`{"x":"` + strings.Repeat("<", maxKept-20) + `"}`) // each is six bytes in a file
	made, err := d.approve(a)
	var waiting *WaitingError
	if !errors.As(err, &waiting) {
		t.Fatal(err)
	}
	if _, err := d.queue.Find(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
	if after := filesIn(t, dir); len(after) <= len(before) {
		t.Errorf("a call waits, and there are only %q", after)
	}
}
