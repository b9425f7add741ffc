package interp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
)

// issuesPage returns an answer like those of a code host: 20 issues of about 700
// bytes each.
func issuesPage(page int) []byte {
	var b strings.Builder
	b.WriteString(`{"total_count":100,"incomplete_results":false,"items":[`)
	for i := range 20 {
		if i > 0 {
			b.WriteByte(',')
		}
		n := page*20 + i
		state := []string{"open", "closed"}[n%2]
		fmt.Fprintf(&b, `{"id":%d,"node_id":"MDU6SXNzdWU%d","number":%d,"title":"Something is wrong with part %d","state":%q,"locked":false,"comments":%d,"score":1.5,
"user":{"login":"user%d","id":%d,"type":"User","site_admin":false,"avatar_url":"https://example.com/u/%d"},
"labels":[{"id":1,"name":"bug","color":"d73a4a","default":true},{"id":2,"name":"part-%d","color":"0075ca","default":false}],
"assignee":null,"milestone":{"number":%d,"title":"v%d"},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-02-03T04:05:06Z","closed_at":null,
"body":"Steps to reproduce:\r\n1. open the \"thing\"\r\n2. look at it\r\n\r\nExpected: nothing – got: an error (caf\u00e9)."}`,
			9007199254740993+n, n, n, n, state, n%7, n%5, n%5, n%5, n%3, n%4, n%4)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

// issuesHost answers every call with a page.
type issuesHost struct {
	fakeHost
	pages [5][]byte
	next  int
}

func (h *issuesHost) CallTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	h.next++
	return []abi.Answer{{Value: h.pages[(h.next-1)%len(h.pages)]}}, nil
}

const realistic = `
def label_names(issue):
    return [l.name for l in issue.labels]

by_user = {}
found = []
for page in range(1, 6):
    answer = demo.search({"q": "is:issue " + params.query, "page": page, "per_page": 20})
    for issue in answer["items"]:
        if issue.state != "open":
            continue
        login = issue.user.login
        by_user[login] = by_user.get(login, 0) + 1
        names = label_names(issue)
        if "part-1" in names or issue.comments > 3:
            found.append({"number": issue.number, "id": issue.id, "title": issue.title.upper(), "labels": names, "by": login, "body": issue.body})
found = sorted(found, key=lambda i: -i.number)
print("found %d of %d" % (len(found), answer.total_count))
return {"count": len(found), "by_user": by_user, "issues": found}
`

func BenchmarkTrivial(b *testing.B) {
	req := abi.Request{Op: abi.OpRun, Name: "bench", Code: `return params.a + params["b"]`, Params: []byte(`{"a":1,"b":2}`), Servers: testServers}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(req, &fakeHost{}); err != nil {
			b.Fatal(err.Message)
		}
	}
}

func BenchmarkRealistic(b *testing.B) {
	host := &issuesHost{}
	for i := range host.pages {
		host.pages[i] = issuesPage(i)
	}
	req := abi.Request{Op: abi.OpRun, Name: "bench", Code: realistic, Params: []byte(`{"query":"bug"}`), Servers: testServers}
	b.ReportAllocs()
	for b.Loop() {
		host.log.Reset()
		if _, err := Run(req, host); err != nil {
			b.Fatal(err.Message)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	req := abi.Request{Op: abi.OpCheck, Name: "bench", Code: realistic, Servers: testServers}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(req, &fakeHost{}); err != nil {
			b.Fatal(err.Message)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	page := issuesPage(0)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeJSON(page); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeReflect measures encoding/json with the same bytes.
func BenchmarkDecodeReflect(b *testing.B) {
	page := issuesPage(0)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		var v any
		if err := json.Unmarshal(page, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	v, err := decodeJSON(issuesPage(0))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		text, err := encodeJSON("result", v)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(text)))
	}
}

func BenchmarkAttribute(b *testing.B) {
	run := func(b *testing.B, body string) {
		code := "d = {\"name\": 1, \"x\": 2}\nfor _ in range(1000):\n    " + body + "\n"
		req := abi.Request{Op: abi.OpRun, Name: "bench", Code: code}
		for b.Loop() {
			if _, err := Run(req, &fakeHost{}); err != nil {
				b.Fatal(err.Message)
			}
		}
	}
	b.Run("nothing", func(b *testing.B) { run(b, "pass") })
	b.Run("attribute", func(b *testing.B) { run(b, "d.name") })
	b.Run("index", func(b *testing.B) { run(b, `d["name"]`) })
	b.Run("method", func(b *testing.B) { run(b, `d.get("name")`) })
	b.Run("display", func(b *testing.B) { run(b, `{"a": 1}`) })
}

// BenchmarkTry measures a thousand rounds of a loop, without and with try.
func BenchmarkTry(b *testing.B) {
	run := func(b *testing.B, body string) {
		code := "def f(x):\n    return x\nn = 0\nfor i in range(1000):\n" + body + "return n\n"
		req := abi.Request{Op: abi.OpRun, Name: "bench", Code: code}
		for b.Loop() {
			if result, err := Run(req, &fakeHost{}); err != nil || string(result) != "1000" {
				b.Fatal(string(result), err)
			}
		}
	}
	b.Run("none", func(b *testing.B) { run(b, "    n += f(1)\n") })
	b.Run("except", func(b *testing.B) { run(b, "    try:\n        n += f(1)\n    except Error:\n        n = 0\n") })
	b.Run("finally", func(b *testing.B) { run(b, "    try:\n        f(1)\n    finally:\n        n += 1\n") })
	b.Run("raise", func(b *testing.B) {
		run(b, "    try:\n        raise Error('x')\n    except Error as e:\n        n += 1\n")
	})
}

// BenchmarkText measures the ways to build a thousand pieces of text.
func BenchmarkText(b *testing.B) {
	run := func(b *testing.B, expr string) {
		req := abi.Request{Op: abi.OpRun, Name: "bench", Code: "x = 'abc'\nfor i in range(1000):\n    " + expr + "\nreturn 1\n"}
		for b.Loop() {
			if _, err := Run(req, &fakeHost{}); err != nil {
				b.Fatal(err.Message)
			}
		}
	}
	b.Run("plus", func(b *testing.B) { run(b, `x + " is " + str(i)`) })
	b.Run("fstring", func(b *testing.B) { run(b, `f"{x} is {i}"`) })
	b.Run("fstring with width", func(b *testing.B) { run(b, `f"{x} is {i:>5}"`) })
	b.Run("percent", func(b *testing.B) { run(b, `"%s is %d" % (x, i)`) })
	b.Run("format", func(b *testing.B) { run(b, `"{} is {}".format(x, i)`) })
}

// TestRealistic checks that the benchmark's script works.
func TestRealistic(t *testing.T) {
	host := &issuesHost{}
	for i := range host.pages {
		host.pages[i] = issuesPage(i)
	}
	result, failure := Run(abi.Request{Op: abi.OpRun, Name: "bench", Code: realistic, Params: []byte(`{"query":"bug"}`), Servers: testServers}, host)
	if failure != nil {
		t.Fatal(failure.Message)
	}
	v, err := decodeJSON(result)
	if err != nil {
		t.Fatal(err)
	}
	count, _, _ := v.(Object).Get(starlark.String("count"))
	// Even n below 100 with n%3 == 1 or n%7 > 3.
	if got := repr(count); got != "30" {
		t.Errorf("count is %s, log %q", got, host.log.String())
	}
}
