package host

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// compositeSession is a session that runs composites.
type compositeSession struct {
	*mcptest.Pair
	t    *testing.T
	last int
}

// eval runs a script as a composite call and returns the result.
func (w *compositeSession) eval(code, meta string) []byte {
	w.t.Helper()
	w.last++
	params := fmt.Sprintf(`{"name":"eval_starlark","arguments":{"code":%s}`, wire.Quote(code))
	if meta != "" {
		params += `,"_meta":` + meta
	}
	e, err := w.Client.Request(bounded(w.t), fmt.Sprint(w.last), "tools/call", params+"}")
	if err != nil {
		w.t.Fatal(err)
	}
	if failed, _ := wire.Get(e.Msg.Result, "isError"); e.Msg.Error != nil || string(failed) == "true" {
		w.t.Fatalf("%s: %s%s", code, e.Msg.Result, e.Msg.Error)
	}
	return e.Msg.Result
}

// TestCompositeFidelity checks what composites pass on between their clients and the
// upstreams that they call.
func TestCompositeFidelity(t *testing.T) {
	t.Parallel()
	for _, c := range combinations {
		t.Run(c.String(), func(t *testing.T) {
			w := startProxy(t, c, mcptest.ServerOptions{})
			p := pair(t, w.dial(t, mcptest.ClientOptions{OnRequest: answerAsked}), w.received)
			for _, part := range []struct {
				name string
				run  func(*compositeSession)
			}{
				{"params and _meta", compositeParams}, {"progress", compositeProgress},
				{"requests of the server", compositeServerRequests}, {"burst", compositeBurst}, {"ids", compositeIDs},
			} {
				t.Run(part.name, func(t *testing.T) { part.run(&compositeSession{Pair: p, t: t}) })
			}
		})
	}
}

func compositeParams(w *compositeSession) {
	from := w.Server.Len()
	got := w.eval(`return raw.exotic({"n": 9007199254740993, "s": "\u00e9"}).n`, `{"traceparent":"00-1","example.com/n":1.10,"progressToken":"theirs"}`)
	if result, _ := wire.Get(got, "structuredContent", "result"); string(result) != "9007199254740993" {
		w.t.Errorf("result: %s", got)
	}
	e, _, err := w.Server.Find(bounded(w.t), "the call", from, mcptest.CallOf("exotic"))
	if err != nil {
		w.t.Fatal(err)
	}
	for path, want := range map[string]string{"arguments": `{"n":9007199254740993,"s":"é"}`, "_meta": `{"traceparent":"00-1","example.com/n":1.10}`} {
		raw, _ := wire.Get(e.Msg.Params, path)
		without, err := wire.Delete(raw, "progressToken")
		if err != nil {
			w.t.Fatalf("%s: %s", path, e.Msg.Params)
		}
		if diff := mcptest.Diff([]byte(want), without); diff != "" {
			w.t.Errorf("%s: %s", path, diff)
		}
	}
	if token, _ := wire.GetString(e.Msg.Params, "_meta", "progressToken"); token == "theirs" {
		w.t.Error("the client's token went to the server")
	}
}

// compositeProgress checks that the client gets one rising sequence with its token,
// with the last value, and all of it before the result.
func compositeProgress(w *compositeSession) {
	for _, token := range []string{`"t"`, `7`} {
		from := w.Client.Log.Len()
		w.eval("a = raw.count({'times': 2000})\nreturn raw.count({'times': 50})", `{"progressToken":`+token+`}`)
		w.eval("return 1", "")
		last, answered := 0.0, false
		for _, e := range w.Client.Log.All()[from:] {
			if e.Msg.IsResponse() && e.Msg.ID != nil {
				answered = true
			}
			if e.Msg.Method != "notifications/progress" {
				continue
			}
			if !mcptest.ProgressWith(token)(e) || answered {
				w.t.Errorf("answered: %v, %s", answered, e.Raw)
			}
			var value float64
			raw, _ := wire.Get(e.Msg.Params, "progress")
			if err := json.Unmarshal(raw, &value); err != nil || value <= last {
				w.t.Errorf("after %v: %s", last, e.Raw)
			}
			last = value
		}
		if last <= 1 || last > 2 { // both calls were made
			w.t.Errorf("the last progress is %v", last)
		}
	}
}

// asked are requests of upstreams to clients, with answers that scripts can read.
var asked = map[string]string{
	"roots/list":             `{"roots":[{"uri":"file:///a%20b","x":9007199254740993}]}`,
	"sampling/createMessage": `{"role":"assistant","content":{"type":"hologram"},"model":"m","stopReason":"odd"}`,
	"elicitation/create":     `{"action":"accept","content":{"n":9007199254740993}}`,
}

func answerAsked(_ *mcptest.Client, m wire.Message) wire.Reply {
	return wire.Reply{Result: []byte(asked[m.Method])}
}

func compositeServerRequests(w *compositeSession) {
	for method, want := range asked {
		from := w.Client.Log.Len()
		got := w.eval(fmt.Sprintf(`return raw.ask.raw({"method": %q, "params": {"message": "m", "messages": [], "maxTokens": 1, "requestedSchema": {"type": "object", "properties": {}}}})`, method), "")
		if result, _ := wire.Get(got, "structuredContent", "result", "result"); mcptest.Diff([]byte(want), result) != "" {
			w.t.Errorf("%s: %s: %s", method, mcptest.Diff([]byte(want), result), got)
		}
		if _, _, err := w.Client.Log.Find(bounded(w.t), method, from, mcptest.Method(method)); err != nil {
			w.t.Error(err)
		}
	}
}

func compositeBurst(w *compositeSession) {
	const count = 5000
	from := w.Client.Log.Len()
	w.eval(fmt.Sprintf("return raw.burst.raw({'count': %d})", count), "")
	for i := range count {
		e, next, err := w.Client.Log.Find(bounded(w.t), fmt.Sprintf("notification %d of %d", i, count), from, mcptest.Method("notifications/message"))
		if err != nil {
			w.t.Fatal(err)
		}
		if n, _ := wire.Get(e.Msg.Params, "data", "n"); string(n) != fmt.Sprint(i) {
			w.t.Fatalf("notification %d: %s", i, e.Raw)
		}
		from = next
	}
}

// compositeIDs has the ids 1 and "1" in flight together.
func compositeIDs(w *compositeSession) {
	ids := []string{`1`, `"1"`, `9007199254740993`, `"9007199254740993"`}
	answers := make([]<-chan mcptest.Answer, len(ids))
	for i, id := range ids {
		answers[i] = w.Client.Start(id, "tools/call", mcptest.ToolParams("eval_starlark", fmt.Sprintf(`{"code":"return raw.instead({'text': 'text %d'})"}`, i), ""))
	}
	for i, id := range ids {
		select {
		case a := <-answers[i]:
			if a.Err != nil || string(a.Msg.ID) != id || !strings.Contains(string(a.Msg.Result), fmt.Sprintf("text %d", i)) {
				w.t.Errorf("id %s: %s %v", id, a.Raw, a.Err)
			}
		case <-bounded(w.t).Done():
			w.t.Fatalf("no answer to id %s", id)
		}
	}
}
