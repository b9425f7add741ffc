package streamable

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

// TestAnswers checks the outcome of request 2 for many kinds of responses.
func TestAnswers(t *testing.T) {
	t.Parallel()
	reply := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	events := func(data ...string) http.HandlerFunc {
		return reply(200, "text/event-stream; charset=utf-8", "data: "+strings.Join(data, "\n\ndata: ")+"\n\n")
	}
	const own = `{"jsonrpc":"2.0","id":2,"result":{"ok":1}}`
	long := `{"jsonrpc":"2.0","id":2,"result":"` + strings.Repeat("x", 5000) + `"}`
	const js = "application/json"
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // a part of the outcome
		garbage string // a part of the garbage that is reported; "" for none
	}{
		{"json", reply(200, "Application/JSON; charset=utf-8", own), `{"ok":1}`, ""},
		{"no content type", reply(200, "", own), `{"ok":1}`, ""},
		{"event", events(own), `{"ok":1}`, ""},
		{"named events", reply(200, "text/event-stream", "event: other\ndata: {}\n\nevent: message\ndata: "+own+"\n\n"), `{"ok":1}`, ""},
		{"json of another id", reply(200, js, `{"jsonrpc":"2.0","id":1,"result":{}}`), "unusable: tools/call the response has no answer", "another request"},
		{"json of a textual id", reply(200, js, `{"jsonrpc":"2.0","id":"2","result":{"ok":1}}`), `{"ok":1}`, ""},
		{"json of another textual id", reply(200, js, `{"jsonrpc":"2.0","id":"3","result":{}}`), "unusable: tools/call the response has no answer", "another request"},
		{"created", reply(201, js, own), `{"ok":1}`, ""},
		{"created, as an event", reply(201, "text/event-stream", "data: "+own+"\n\n"), `{"ok":1}`, ""},
		{"byte order mark", reply(200, js, "\uFEFF"+own), `{"ok":1}`, ""},
		{"byte order mark of an event", reply(200, "text/event-stream", "\uFEFFdata: "+own+"\n\n"), `{"ok":1}`, ""},
		{"array of one", reply(200, js, " ["+own+"]\n"), `{"ok":1}`, ""},
		{"array of one with a byte order mark", reply(200, js, "\uFEFF["+own+"]"), `{"ok":1}`, ""},
		{"array of none", reply(200, js, "[]"), "the response has no answer", "JSON object"},
		{"array of two", reply(200, js, "["+own+","+own+"]"), "the response has no answer", "JSON object"},
		{"array of one array", reply(200, js, "[["+own+"]]"), "the response has no answer", "JSON object"},
		{"array of an error with status", reply(400, js, `[{"jsonrpc":"2.0","id":2,"error":{"code":-5,"message":"m"}}]`), `refused {"code":-5,"message":"m"}`, ""},
		{"number that is no JSON", reply(200, js, `{"jsonrpc":"2.0","id":2,"result":{"n":NaN}}`), "unusable: tools/call parse error", "parse error"},
		{"event of another id, then the right one", events(`{"jsonrpc":"2.0","id":3,"result":{"bad":1}}`, own), `{"ok":1}`, "another request"},
		{"event of another id only", events(`{"jsonrpc":"2.0","id":3,"result":{}}`), "ended before the answer", "another request"},
		{"second answer", events(own, own), `{"ok":1}`, "second answer"},
		{"null id", reply(200, js, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`), `refused {"code":-32700,"message":"m"}`, ""},
		{"error of another id", reply(409, js, `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m"}}`), "HTTP status 409 (Conflict): {\"jsonrpc\"", ""},
		{"error with status", reply(422, js, `{"jsonrpc":"2.0","id":2,"error":{"code":-5,"message":"m","data":[1]}}`), `refused {"code":-5,"message":"m","data":[1]}`, ""},
		{"error without id", reply(500, js, `{"jsonrpc":"2.0","error":{"code":-5,"message":"m"}}`), `refused {"code":-5,"message":"m"}`, ""},
		{"error of the Python SDK", reply(406, js, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-5,"message":"m"}}`), `refused {"code":-5,"message":"m"}`, ""},
		{"unknown method", reply(404, js, `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"m"}}`), `refused {"code":-32601`, ""},
		{"text with status", reply(503, "text/html", "<h1>try\x07 later</h1>"), "unusable: tools/call HTTP status 503 (Service Unavailable): <h1>try", ""},
		{"json with status", reply(404, js, `{"error":"nothing"}`), "forgotten our session", ""},
		{"html", reply(200, "text/html", own), `content type is "text/html"`, ""},
		{"accepted", reply(202, "", ""), "HTTP status 202", ""},
		{"empty", reply(200, js, ""), "the response has no answer", "parse error"},
		{"truncated json", reply(200, js, own[:20]), "the response has no answer", "parse error"},
		{"truncated event", reply(200, "text/event-stream", "data: "+own+"\n"), "ended before the answer", ""},
		{"malformed", events(`{"jsonrpc":"2.0","id":2,"result":1,"error":{}}`), "exactly one of result and error", "exactly one"},
		{"malformed, then right", events(`{"jsonrpc"`, `[]`, own), `{"ok":1}`, "parse error"},
		{"large json", reply(200, js, long), "larger than 1000 bytes", "larger than"},
		{"large event", events(long), "larger than 1000 bytes", "larger than"},
		{"large other event", events(`{"jsonrpc":"2.0","method":"x","params":{"x":"`+strings.Repeat("x", 5000)+`"}}`, own), `{"ok":1}`, "larger than"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			linktest.StreamTo(w).Raw("data: {")
			panic(http.ErrAbortHandler)
		}, "ended before the answer", ""},
		{"no response", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "connection failed before the answer", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, r *http.Request, _ linktest.HTTPMessage) { tt.handler(w, r) })
			c := linktest.NewRecorder()
			c.MaxMessage = 1000
			l := dial(t, s.ClientConfig(), c)
			if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("a"))); !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if tt.garbage != "" {
				if got := <-c.Garbage; !strings.Contains(got, tt.garbage) {
					t.Errorf("garbage %q, want %q", got, tt.garbage)
				}
			}
			l.Shutdown(time.Minute, nil)
			if len(c.Garbage) > 1 || tt.garbage == "" && len(c.Garbage) > 0 {
				t.Errorf("more garbage: %q", <-c.Garbage)
			}
		})
	}
}
