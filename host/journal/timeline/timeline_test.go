package timeline

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

var update = flag.Bool("update", false, "write the golden files")

const ms = time.Millisecond

func call(seq int, server, tool, arguments string, start, took time.Duration, answer journal.Answer) journal.CallRecord {
	return journal.CallRecord{
		Seq: seq, Server: server, Tool: tool, Start: start, Duration: took, Done: true, Answer: answer,
		Request: abi.ToolCall{Server: server, Tool: tool, Arguments: []byte(arguments)},
	}
}

func text(s string) journal.Answer {
	return journal.Answer{Result: []byte(`{"content":[{"type":"text","text":"` + s + `"}]}`), Value: []byte(`"` + s + `"`)}
}

// TestMain sets a fixed time zone.
func TestMain(m *testing.M) {
	time.Local = time.FixedZone("", 5*60*60+30*60)
	os.Exit(m.Run())
}

// rich returns a run with everything that can be shown.
func rich() *journal.Record {
	begin := func(name string) journal.Begin {
		return journal.Begin{
			Definition: tools.Definition{Name: name, Code: "issues = parallel([lambda: github.list_issues(repo=r) for r in params.repos])\nreturn issues\n"},
			Saved:      true, Params: []byte(`{"repos":["a/b","c/d"],"big":12345678901234567890}`),
			Limits: journal.Limits{Timeout: 30 * time.Second, Memory: 128 << 20, Fuel: 10_000_000_000, Calls: 1000},
			Client: journal.Client{Session: "QJ7X2M", Name: "claude-code", Version: "2.1", Token: "laptop"},
		}
	}
	start := time.Date(2026, 11, 21, 15, 4, 5, 678_000_000, time.UTC)
	inner := &journal.Record{
		ID: "019aa0b0-0000-7000-8000-000000000002", Start: start.Add(160 * ms), Begin: begin("summary"), Done: true, Duration: 118 * ms,
		Calls:   []journal.CallRecord{call(1, "github", "get_issue", `{"n":1}`, 2*ms, 40*ms, text("one")), call(2, "github", "get_issue", `{"n":2}`, 45*ms, 70*ms, text("two"))},
		Logs:    []journal.Entry{{At: 44 * ms, Text: "half way"}},
		Outcome: journal.Outcome{Result: []byte(`{"n":2}`)},
	}
	failed := call(4, "jira", "create", `{"title":"x"}`, 300*ms, 35*ms, journal.Answer{
		Result: []byte(`{"content":[{"type":"text","text":"no such project"}],"isError":true}`),
		Err:    &abi.CallError{Type: abi.ErrTool, Server: "jira", Tool: "create", Message: "no such project"},
	})
	back := call(6, "github", "close_issue", `{"n":9}`, 352*ms, 20*ms, text("closed"))
	back.Undo = true
	busy := call(1, "github", "list_issues", `{"repo":"a/b"}`, 1*ms, 103*ms, text("many"))
	busy.Progress = 3
	saved := call(3, "tools", "summary", `{}`, 160*ms, 120*ms, journal.Answer{Value: []byte(`{"n":2}`), Run: inner})
	open := call(5, "files", "write", `{"path":"/tmp/x"}`, 336*ms, 0, journal.Answer{})
	open.Done = false
	return &journal.Record{
		ID: "019aa0b0-1111-7000-8000-000000000001", Start: start, Begin: begin("report_issues"), Done: true, Duration: 380 * ms,
		Calls: []journal.CallRecord{busy, call(2, "github", "list_issues", `{"repo":"c/d"}`, 1*ms, 151*ms, text("few")), saved, failed, open, back},
		Logs:  []journal.Entry{{At: 5 * ms, Text: "starting"}, {At: 290 * ms, Level: abi.LogWarn, Text: "two lines\nof a warning"}},
		Outcome: journal.Outcome{
			Error: abi.ErrTool, Message: "no such project", Fuel: 1_234_567, Memory: 9 << 20,
			Failure: []byte(`{"type":"tool","message":"no such project","details":{"file":"report_issues","line":7,"column":5,"source":"\tjira.create(title=t)"}}`),
		},
	}
}

// small returns a run with little to show.
func small() *journal.Record {
	rec := rich()
	rec.Calls, rec.Logs, rec.Duration, rec.Saved = nil, nil, 700*time.Microsecond, false
	rec.Outcome = journal.Outcome{Result: []byte(`[1,2.50,"x"]`), Fuel: 12}
	return rec
}

// unfinished returns a run that did not finish because its process ended.
func unfinished() *journal.Record {
	rec := rich()
	rec.Done, rec.Duration, rec.Outcome = false, 0, journal.Outcome{}
	return rec
}

// gapped returns a run that is not completely in the journal.
func gapped() *journal.Record {
	rec := rich()
	rec.Incomplete, rec.Calls[2].Answer.Run.Redacted = true, true
	return rec
}

// refused returns a run with arguments that do not match the schema.
func refused() *journal.Record {
	rec := small()
	all := []tools.Violation{{Pointer: "", Message: `missing property "repos"`}}
	for i := range 30 {
		all = append(all, tools.Violation{Pointer: fmt.Sprintf("/n/%d", i), Message: "got <null>, want integer"})
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	const message = `arguments of "report_issues" do not match its inputSchema`
	rec.Outcome = journal.Outcome{
		Error: abi.ErrValidation, Message: message,
		Failure: fmt.Appendf(nil, `{"type":"validation","message":%q,"details":{"violations":%s}}`, message, text),
	}
	return rec
}

const evil = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e\"'`{{.}}\xff\x00--></style><b>"

// hostile returns a run in which every text is an attack.
func hostile() *journal.Record {
	rec := rich()
	quoted := []byte(`"` + strings.NewReplacer("\x1b", `\u001b`, "\x00", `\u0000`, `"`, `\"`).Replace(evil) + `"`)
	rec.ID, rec.Definition.Name, rec.Definition.Code, rec.Client.Name, rec.Params = evil, evil, evil, evil, quoted
	rec.Calls[0].Server, rec.Calls[0].Tool, rec.Calls[0].Request.Arguments = evil, evil, quoted
	rec.Calls[3].Answer.Err.Message, rec.Calls[3].Answer.Err.Details = evil, []byte(evil)
	rec.Calls[1].Answer.Result = bytes.Repeat([]byte("9"), 3<<20)
	rec.Calls[1].Start, rec.Calls[2].Duration = -time.Hour, 100*time.Hour
	rec.Logs[0].Text = evil
	rec.Outcome.Error, rec.Outcome.Message = abi.ErrorType(evil), evil
	rec.Outcome.Failure = []byte(`{"type":` + string(quoted) + `,"message":` + string(quoted) + `,"details":{"file":` + string(quoted) + `,"line":1,"column":99999999,"source":` + string(quoted) + `,"violations":[{"pointer":` + string(quoted) + `,"message":` + string(quoted) + `}]}}`)
	return rec
}

func TestText(t *testing.T) {
	for name, tt := range map[string]struct {
		rec  *journal.Record
		opts TextOptions
	}{
		"rich":       {rich(), TextOptions{Width: 100}},
		"narrow":     {rich(), TextOptions{Width: 40}},
		"whole":      {rich(), TextOptions{Whole: true}},
		"plain":      {small(), TextOptions{}},
		"gapped":     {gapped(), TextOptions{}},
		"unfinished": {unfinished(), TextOptions{}},
		"refused":    {refused(), TextOptions{}},
	} {
		var b bytes.Buffer
		if err := WriteText(&b, tt.rec, tt.opts); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", b.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is another now (go test -update writes it):\n%s", name, got)
	}
}

// TestHostile checks that text from others reaches a terminal or a browser only as text.
func TestHostile(t *testing.T) {
	var b bytes.Buffer
	if err := WriteText(&b, hostile(), TextOptions{Whole: true}); err != nil {
		t.Fatal(err)
	}
	if bad := regexp.MustCompile("[\x00-\x08\x0b-\x1f\u202e]").Find(b.Bytes()); bad != nil {
		t.Errorf("the text has %q in it", bad)
	}
	var page bytes.Buffer
	if err := WriteHTML(&page, hostile()); err != nil {
		t.Fatal(err)
	}
	if page.Len() > 1<<20 {
		t.Errorf("the page has %d bytes", page.Len())
	}
	checkPage(t, page.Bytes())
}

// What a page can contain after its style.
var (
	pageElements   = names("style head body header h1 h2 h3 span dl dt dd main section div p pre strong small details summary table thead tbody tr th td html")
	pageAttributes = names("class id style scope role aria-label aria-labelledby aria-hidden")
	pageLayout     = regexp.MustCompile(`^((left|width):[0-9.]+%;?|padding-left:[0-9]rem)*$`)
)

func names(list string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		all[name] = true
	}
	return all
}

// checkPage checks that a page has only the elements and attributes of the template.
func checkPage(t *testing.T, page []byte) {
	t.Helper()
	body := page[bytes.Index(page, []byte("</style>")):] // CSS has no tags, but > in it
	for _, tag := range regexp.MustCompile(`<(/?)([^\s>]*)([^>]*)>`).FindAllSubmatch(body, -1) {
		if !pageElements[string(tag[2])] {
			t.Errorf("element %q", tag[2])
		}
		for _, a := range regexp.MustCompile(`([\w-]+)="([^"]*)"`).FindAllSubmatch(tag[3], -1) {
			switch name, value := string(a[1]), string(a[2]); {
			case !pageAttributes[name]:
				t.Errorf("attribute %s of %s", name, tag[2])
			case name == "style" && !pageLayout.MatchString(value):
				t.Errorf("style %q", value)
			}
		}
	}
	if n := bytes.Count(body, []byte("<")); n != bytes.Count(body, []byte(">")) {
		t.Errorf("%d <, and not as many >", n)
	}
}

func TestPage(t *testing.T) {
	for name, rec := range map[string]*journal.Record{"rich": rich(), "plain": small(), "unfinished": unfinished(), "refused": refused()} {
		var b bytes.Buffer
		if err := WriteHTML(&b, rec); err != nil {
			t.Fatal(err)
		}
		checkPage(t, b.Bytes())
		if !bytes.Contains(b.Bytes(), []byte(pageStyle)) {
			t.Errorf("%s: the page is without its style", name)
		}
		golden(t, name+".html", bytes.Replace(b.Bytes(), []byte(pageStyle), []byte("page.css"), 1))
	}
}

// TestAsks checks what is shown of a run that ended to ask the client something, and of
// the one that continues it.
func TestAsks(t *testing.T) {
	below := journal.Record{Begin: journal.Begin{Definition: tools.Definition{Name: "below"}}, Done: true,
		Outcome: journal.Outcome{Error: abi.ErrCancelled, Asks: true},
		Inputs:  []journal.InputRecord{{Call: 2, Name: "question1", Method: "elicitation/create", Params: []byte(`{"message":"Go on?"}`)}}}
	rec := journal.Record{ID: "a", Begin: journal.Begin{Definition: tools.Definition{Name: "job"}}, Done: true,
		Calls:   []journal.CallRecord{call(1, "tools", "below", "{}", 0, ms, journal.Answer{Run: &below})},
		Outcome: journal.Outcome{Error: abi.ErrCancelled, Message: "the run ended", Failure: []byte(`{"type":"cancelled","message":"the run ended"}`), Asks: true}}
	show := func() string {
		var b bytes.Buffer
		if err := WriteText(&b, &rec, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := show(); !strings.Contains(got, `asked    in call 1.2: elicitation/create "Go on?": waits for an answer`) || !strings.Contains(got, "\n"+waits+"\n") || strings.Contains(got, "error") {
		t.Errorf("%s", got)
	}
	below.Inputs[0].Answer = []byte(`{"action":"accept"}`)
	rec.Continues, rec.Elapsed, rec.Outcome = "b", 2*ms, journal.Outcome{Result: []byte("1")}
	if got := show(); !strings.Contains(got, "after    run b, which this one continues (2.00 ms before)") || !strings.Contains(got, `answered {"action":"accept"}`) {
		t.Errorf("%s", got)
	}
}
