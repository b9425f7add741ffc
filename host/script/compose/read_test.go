package compose

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// The tests of this file are about the view of models on results: structuredContent if present; for
// errors perhaps only the content.

// TestResultsAreShort checks that the answers to a script add almost nothing to the result.
func TestResultsAreShort(t *testing.T) {
	var u upstreams
	u.result("files.read", `{"content":[{"type":"text","text":"`+strings.Repeat("x", 10<<10)+`"}]}`)
	c := composer(sandboxtest.Guest(t), &u)
	const code = `return sum([len(files.read(path="/srv/projects/notes/%d.txt" % n)) for n in range(20)])`
	reply := c.CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
	if got := get(t, reply, "structuredContent", "result"); got != "204800" {
		t.Fatalf("result = %s", reply.Result)
	}
	if n := len(get(t, reply, "structuredContent")); n > 2500 {
		t.Errorf("structuredContent has %d bytes", n)
	}
	if n := len(reply.Result); n > 3000 {
		t.Errorf("the result has %d bytes", n)
	}
	t.Logf("the result has %d bytes", len(reply.Result))
	calls, _ := wire.Elements([]byte(get(t, reply, "structuredContent", "toolCalls")))
	if len(calls) != 10 || get(t, reply, "structuredContent", "moreCalls") != `{"files.read":10}` {
		t.Errorf("%d calls are listed, and moreCalls = %s", len(calls), get(t, reply, "structuredContent", "moreCalls"))
	}
	const want = `{"server":"files","tool":"read","params":{"path":"/srv/projects/notes/0.txt"},"result":` +
		`{"truncated":true,"size":10242,"sha256":"HASH"}}`
	if got := string(calls[0]); got != strings.Replace(want, "HASH", hashOf(`"`+strings.Repeat("x", 10<<10)+`"`), 1) {
		t.Errorf("the first call is listed as %s", got)
	}
}

// TestResultsAreBounded checks that a result is small apart from the script's own value, for all
// scripts and tools.
func TestResultsAreBounded(t *testing.T) {
	const most = 20 << 10
	var u upstreams
	u.add("s.echo", echo)
	u.result("s.image", `{"content":[{"type": "image", "mimeType": "image/png", "data": "`+strings.Repeat("YWJj", 50)+`"}]}`)
	u.result("s.fails", `{"isError":true,"content":[{"type":"text","text":"`+strings.Repeat("no ", 5000)+`"},{"type":"image","mimeType":"image/png","data":"YWJj"}]}`)
	for name, code := range map[string]string{
		"many calls":      "for n in range(300): s.echo(n=n)\nreturn 1",
		"medium values":   "for n in range(200): s.echo(n='x' * 240)\nreturn 1",
		"large values":    "for n in range(50): s.echo(n='x' * 5000)\nreturn 1",
		"images":          "for n in range(50): s.image()\nreturn 1",
		"raw images":      "for n in range(50): s.image.raw()\nreturn 1",
		"failures":        "for n in range(50):\n    try:\n        s.fails()\n    except:\n        pass\nreturn 1",
		"a failure":       "for n in range(300): s.echo(n=n)\ns.fails()",
		"made-up names":   "for n in range(100):\n    try:\n        s['x' * 3000 + str(n)]()\n    except:\n        pass\nreturn 1",
		"made-up servers": "for n in range(100):\n    try:\n        tools['y' * 3000 + str(n)]()\n    except:\n        pass\nreturn 1",
		"trees":           "for n in range(20): tools.inner()\nreturn 1",
		"logs":            "for n in range(2000): print('line', n)\nreturn 1",
		"one long line":   "print('x' * 100000)\nreturn 1",
		"odd logs":        "for n in range(100): print('\\x00' * 1000)\nreturn 1",
		"long lines":      "for n in range(200): log.warn('é' * 900)\nfail('no')",
	} {
		c := composer(sandboxtest.Guest(t), &u, savedScripts{"inner": "print('x')\nfor n in range(20): s.echo(n='x' * 100)"}.in)
		reply := c.CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
		failed := strings.HasPrefix(name, "a failure") || name == "long lines"
		if get(t, reply, "isError") != fmt.Sprint(failed) {
			t.Errorf("%s: %.500s", name, reply.Result)
		}
		bound := most
		if name == "a failure" {
			bound += 3 * maxCallMessage // the message, in the content and in the error
		}
		if len(reply.Result) > bound {
			t.Errorf("%s: the result has %d bytes", name, len(reply.Result))
		}
		if s := get(t, reply, "structuredContent"); strings.Contains(s, "YWJj") {
			t.Errorf("%s: an image is in %.500s", name, s)
		}
	}
}

// TestListedCalls checks that the calls of a run are listed before the calls of the run's saved
// tools, and that unlisted calls are counted.
func TestListedCalls(t *testing.T) {
	var u upstreams
	u.add("s.echo", echo)
	all := savedScripts{"inner": "for n in range(6): s.echo()", "outer": "tools.inner()\ntools.inner()\ns.echo(a=1)\nreturn 1"}
	c := composer(sandboxtest.Guest(t), &u, all.in)
	reply := all.call(t.Context(), c, "outer", `{}`)
	const e = `{"server":"s","tool":"echo","params":{},"result":{}}`
	want := `[{"server":"tools","tool":"inner","params":{},"result":null,"toolCalls":[` + strings.Repeat(e+",", 5) + e + `]},` +
		`{"server":"tools","tool":"inner","params":{},"result":null,"toolCalls":[` + e + `]},{"server":"s","tool":"echo","params":{"a":1},"result":{"a":1}}]`
	if got := get(t, reply, "structuredContent", "toolCalls"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := get(t, reply, "structuredContent", "moreCalls"); got != `{"s.echo":5}` {
		t.Errorf("moreCalls = %s", got)
	}
	many := composer(sandboxtest.Guest(t), &u).CallSaved(t.Context(), saved(`
for n in range(100):
    try:
        s["made_up_%d" % n]()
    except:
        pass`), route.Call{Params: params(`{}`)})
	if got := get(t, many, "structuredContent", "moreCalls"); strings.Count(got, ":1,") != 20 || !strings.HasSuffix(got, `,"others":70}`) {
		t.Errorf("moreCalls = %s", got)
	}
}

// TestDetail checks that the detail of calls in results can be configured, and that results for
// people have every detail.
func TestDetail(t *testing.T) {
	var u upstreams
	u.add("s.echo", echo)
	const code = "for n in range(300): print('entry', n, 'x' * 50)\nfor n in range(30): s.echo(n='x' * 5000)\nreturn 1"
	for _, tt := range []struct {
		name         string
		option       func(*Options)
		calls, whole int // numbers of listed calls, and of calls with whole values
		log          int
	}{
		{"short", func(o *Options) {}, 10, 0, 0},
		{"full", func(o *Options) { o.Calls = Full }, 30, 30, 0},
		{"none", func(o *Options) { o.Calls = None }, 0, 0, 0},
		{"for people", func(o *Options) { o.Calls, o.Whole = None, true }, 30, 30, 300},
	} {
		reply := composer(sandboxtest.Guest(t), &u, tt.option).CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
		list := get(t, reply, "structuredContent", "toolCalls")
		calls, _ := wire.Elements([]byte(list))
		if whole := strings.Count(list, `"result":{"n":"xxx`); len(calls) != tt.calls || whole != tt.whole || (list == "") != (tt.calls == 0) {
			t.Errorf("%s: %d calls, %d of them whole", tt.name, len(calls), whole)
		}
		logs, _ := wire.Elements([]byte(get(t, reply, "structuredContent", "logs")))
		if tt.log > 0 && len(logs) != tt.log || tt.log == 0 && len(logs) > 200 {
			t.Errorf("%s: %d entries of the log", tt.name, len(logs))
		}
	}
}

// TestShownLog checks that a long log is shown with the beginning, the end, and a note of the
// omitted entries.
func TestShownLog(t *testing.T) {
	c := composer(sandboxtest.Guest(t), &upstreams{})
	run := func(code string) []string {
		reply := c.CallSaved(t.Context(), saved(code), route.Call{Params: params(`{}`)})
		items, _ := wire.Elements([]byte(get(t, reply, "structuredContent", "logs")))
		var logs []string
		for _, i := range items {
			text, _ := wire.Text(i)
			logs = append(logs, text)
		}
		return logs
	}
	logs := run("for n in range(5000): print('line', n)")
	all := strings.Join(logs, "\n")
	if logs[0] != "line 0" || logs[len(logs)-1] != "line 4999" || len(all) > maxShownLog {
		t.Errorf("%d bytes: %.300s", len(all), all)
	}
	at := strings.Index(all, "\n... (")
	var left, bytes, before int
	if n, _ := fmt.Sscanf(all[at+1:], "... (%d entries of %d bytes are left out here; the journal has them: show_run) ...", &left, &bytes); n != 2 {
		t.Fatalf("no note in %s", all)
	}
	if before = strings.Count(all[:at], "\n") + 1; left != 5000-(len(logs)-1) || logs[before+1] != fmt.Sprint("line ", before+left) {
		t.Errorf("%d entries are left out, %d are shown, the first after them is %q", left, len(logs)-1, logs[before+1])
	}
	if logs := run("print('a' * 50000 + 'end')"); len(logs) != 1 || len(logs[0]) > maxShownLog || !strings.HasSuffix(logs[0], "aend") ||
		!strings.Contains(logs[0], "... (48979 bytes are left out here) ...") {
		t.Errorf("a long entry is shown as %d, %.2000q", len(logs), logs)
	}
}

// TestErrorsAreCompleteInEachForm checks that content and structuredContent each have the error,
// the place, and the cause.
func TestErrorsAreCompleteInEachForm(t *testing.T) {
	var u upstreams
	u.result("s.t", `{"isError":true,"content":[{"type":"text","text":"no such page (try 1 to 9)"},{"type":"image","mimeType":"image/png","data":"YWJj"}]}`)
	c := composer(sandboxtest.Guest(t), &u)
	reply := c.CallSaved(t.Context(), saved("print('looking')\ns.t(page=10)"), route.Call{Params: params(`{}`)})
	const want = "tool error: s.t: no such page (try 1 to 9)\n  at job:2:4\n    s.t(page=10)\n       ^\nlog:\n  looking"
	if got := textOf(t, reply); got != want {
		t.Errorf("got %s", got)
	}
	structured := get(t, reply, "structuredContent")
	for _, part := range []string{
		`"message":"s.t: no such page (try 1 to 9)"`, `"line":2,"column":4,"source":"s.t(page=10)"`, `"logs":["looking"]`, `"image, image/png, 3 bytes"`,
	} {
		if !strings.Contains(structured, part) {
			t.Errorf("no %s in %s", part, structured)
		}
	}
	if strings.Contains(structured, "YWJj") {
		t.Errorf("an image is in %s", structured)
	}
}

// echo answers with the arguments.
func echo(_ context.Context, p []byte, _ func([]byte)) wire.Reply {
	args, _ := wire.Get(p, "arguments")
	return wire.Reply{Result: fmt.Appendf(nil, `{"structuredContent":%s}`, args)}
}

func hashOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
