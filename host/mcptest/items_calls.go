package mcptest

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// oddParams are additional members for params.
const oddParams = `"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","example.com/n":9007199254740993,"progressToken":"a token","z":1e400},` + oddities

// oddRequests has a request for each method that servers answer.
var oddRequests = []struct{ method, params string }{
	{"tools/call", ` { "name":"echo" , "arguments":{"b":1.0,"a":[12345678901234567890,-0,1e999],"s":"\ud83d\ude00\u0000"},` + oddParams + `}`},
	{"tools/call", `{` + oddParams + `,"arguments":{},"name":"\u0065xotic"}`},
	{"resources/read", `{"uri":"file:///tmp/a%20b?x=%C3%A9#f",` + oddParams + `}`},
	{"prompts/get", `{"name":"greet","arguments":{"who":"\u00e9","n":"1.0"},` + oddParams + `}`},
	{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet","x":1.0},"argument":{"name":"who","value":"a"},"context":{"arguments":{"a":"b"}},` + oddParams + `}`},
	{"completion/complete", `{"ref":{"type":"ref/resource","uri":"raw://{+path}"},"argument":{"name":"path","value":""},` + oddParams + `}`},
	{"x-unknown/method", `{"some":1.0,` + oddParams + `}`},
}

func runParams(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, r := range oddRequests {
		if _, err := p.request(ctx, r.method, r.params); err != nil {
			return nil, err
		}
		e, err := p.arrived(ctx, r.method, Method(r.method))
		if err != nil {
			return nil, err
		}
		s.add(r.method, withoutToken(e.Msg.Params))
		_, hasToken := wire.Get(e.Msg.Params, "_meta", "progressToken")
		s.put("with a token", hasToken)
		if p.from, err = p.after(ctx, e); err != nil {
			return nil, err
		}
	}
	return s.json(), nil
}

// after returns the index in the server's log after an entry.
func (p *Pair) after(ctx context.Context, e Entry) (int, error) {
	_, from, err := p.Server.Find(ctx, "what was there", p.from, func(o Entry) bool { return &o.Raw[0] == &e.Raw[0] })
	return from, err
}

func runResults(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, r := range oddRequests {
		e, err := p.request(ctx, r.method, r.params)
		if err != nil {
			return nil, err
		}
		s.add(r.method, without(e.Msg.Result, "received"))
	}
	return s.json(), nil
}

func runErrors(ctx context.Context, p *Pair) ([]byte, error) {
	e, err := p.request(ctx, "tools/call", ToolParams("error", "{}", ""))
	if err != nil {
		return nil, err
	}
	var s observation
	s.add("error", e.Msg.Error)
	return s.json(), nil
}

func runIDs(ctx context.Context, p *Pair) ([]byte, error) {
	ids := []string{`1`, `"1"`, `9007199254740993`, `"9007199254740993"`, `123456789012345678901234567890`, `-1`, `""`, `"a\u00e9\/\" <b>"`, `"null"`}
	answers := make([]<-chan Answer, len(ids))
	for i, id := range ids {
		answers[i] = p.start(id, "tools/call", ToolParams("instead", fmt.Sprintf(`{"text":"text %d"}`, i), ""))
	}
	var s observation
	for i, id := range ids {
		e, err := p.await(ctx, "id "+id, answers[i])
		if err != nil {
			return nil, err
		}
		s.add("id", e.Msg.ID)
		s.add("result", e.Msg.Result)
	}
	return s.json(), nil
}

// progressOf adds to s how many progress notifications with a token came before
// and after the response to id, starting at index from of the client's log, and
// whether they were in order.
func (p *Pair) progressOf(token, id string, from int, s *observation) {
	var all [][]byte
	before, ordered, answered := 0, true, false
	for _, e := range p.Client.Log.All()[from:] {
		got, _ := wire.Get(e.Msg.Params, "progressToken")
		switch {
		case ResponseTo(id)(e):
			answered = true
		case e.Msg.Method == "notifications/progress" && bytes.Equal(got, []byte(token)):
			all = append(all, e.Msg.Params)
			if n, _ := wire.Get(e.Msg.Params, "progress"); string(n) != fmt.Sprint(len(all)) {
				ordered = false
			}
			if !answered {
				before++
			}
		}
	}
	s.put("before the result", before)
	s.put("after the result", len(all)-before)
	s.put("in order", ordered)
	if len(all) > 0 {
		s.add("first", all[0])
		s.add("last", all[len(all)-1])
	}
}

func runProgress(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, token := range []string{`"a\u00e9 token"`, `7`, `"7"`, `9007199254740993`} {
		id, from, times := p.id(), p.Client.Log.Len(), p.many(2000)
		e, err := p.await(ctx, token, p.start(id, "tools/call", ToolParams("count", fmt.Sprintf(`{"times":%d}`, times), token)))
		if err != nil {
			return nil, err
		}
		if err := p.fence(ctx); err != nil {
			return nil, err
		}
		s.put("token", token)
		s.add("result", e.Msg.Result)
		p.progressOf(token, id, from, &s)
	}
	return s.json(), nil
}

func runConcurrentProgress(ctx context.Context, p *Pair) ([]byte, error) {
	tokens := []string{`1`, `"1"`, `2`, `"2"`, `"x"`, `"\u0079"`, `0`, `""`}
	var s observation
	ids, from := make([]string, len(tokens)), p.Client.Log.Len()
	answers := make([]<-chan Answer, len(tokens))
	for i, token := range tokens {
		ids[i] = p.id()
		answers[i] = p.start(ids[i], "tools/call", ToolParams("count", fmt.Sprintf(`{"times":%d}`, p.many(200)), token))
	}
	for i := range tokens {
		if _, err := p.await(ctx, tokens[i], answers[i]); err != nil {
			return nil, err
		}
	}
	if err := p.fence(ctx); err != nil {
		return nil, err
	}
	for i, token := range tokens {
		s.put("token", token)
		p.progressOf(token, ids[i], from, &s)
	}
	return s.json(), nil
}

func runLarge(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, size := range []int{64 << 10, 1 << 20} {
		text := `"` + strings.Repeat(`x\u00e9`, size/7) + `"`
		got, err := p.call(ctx, "instead", `{"text":`+text+`}`)
		if err != nil {
			return nil, err
		}
		want := fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, text)
		s.put(fmt.Sprintf("%d bytes intact", len(text)), bytes.Equal(got, want))
	}
	return s.json(), nil
}
