package mcptest

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func runBurst(ctx context.Context, p *Pair) ([]byte, error) {
	count := p.many(5000)
	from := p.Client.Log.Len()
	got, err := p.call(ctx, "burst", fmt.Sprintf(`{"count":%d}`, count))
	if err != nil {
		return nil, err
	}
	var s observation
	s.add("result", got)
	ordered := true
	for i := range count {
		var e Entry
		e, from, err = p.Client.Log.Find(ctx, fmt.Sprintf("notification %d of %d", i+1, count), from, Method("notifications/message"))
		if err != nil {
			return nil, err
		}
		if n, _ := wire.Get(e.Msg.Params, "data", "n"); string(n) != fmt.Sprint(i) {
			ordered = false
		}
		if i == 0 || i == count-1 {
			s.add(fmt.Sprint(i), e.Msg.Params)
		}
	}
	s.put("in order", ordered)
	return s.json(), nil
}

// notified makes the server send a notification and records the notification at the client.
func (p *Pair) notified(ctx context.Context, s *observation, method, params string, general bool) error {
	from := p.Client.Log.Len()
	if _, err := p.call(ctx, "notify", fmt.Sprintf(`{"method":%q,"params":%s,"general":%v}`, method, params, general)); err != nil {
		return err
	}
	e, _, err := p.Client.Log.Find(ctx, method+" "+params, from, Method(method))
	if err == nil {
		s.add(method, e.Msg.Params)
	}
	return err
}

func runServerNotifications(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, general := range []bool{false, true} {
		for _, method := range []string{"notifications/message", "notifications/x-custom", "x/anything"} {
			params := `{"level":"error","data":[9007199254740993,1e400],"_meta":{"example.com/n":1.10},` + oddities + `}`
			if err := p.notified(ctx, &s, method, params, general); err != nil {
				return nil, err
			}
		}
	}
	return s.json(), nil
}

func runClientNotifications(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, method := range []string{"notifications/roots/list_changed", "notifications/x-client", "x/anything"} {
		if err := p.Client.Notify(method, `{"_meta":{"example.com/n":9007199254740993},`+oddities+`}`); err != nil {
			return nil, err
		}
		e, err := p.arrived(ctx, method, Method(method))
		if err != nil {
			return nil, err
		}
		s.add(method, e.Msg.Params)
	}
	return s.json(), nil
}

func runLogging(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	e, err := p.request(ctx, "logging/setLevel", `{"level":"debug","_meta":{"n":9007199254740993},"x":1.0}`)
	if err != nil {
		return nil, err
	}
	s.add("set", e.Msg.Result)
	if e, err = p.arrived(ctx, "the level", Method("logging/setLevel")); err != nil {
		return nil, err
	}
	level, _ := wire.Get(e.Msg.Params, "level")
	s.add("level at the server", level)
	for _, level := range []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
		params := fmt.Sprintf(`{"level":%q,"logger":"l\u00e9","data":{"n":9007199254740993,"a":[1.0]},"_meta":{"example.com/n":1.0},%s}`, level, oddities)
		if err := p.notified(ctx, &s, "notifications/message", params, false); err != nil {
			return nil, err
		}
	}
	return s.json(), nil
}

func runPing(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	e, err := p.request(ctx, "ping", `{"_meta":{"n":1.0}}`)
	if err != nil {
		return nil, err
	}
	s.add("of the client", e.Msg.Result)
	got, err := p.call(ctx, "ask", `{"method":"ping"}`)
	if err != nil {
		return nil, err
	}
	s.add("of the server", got)
	return s.json(), nil
}

// serverRequests are requests of servers to clients.
var serverRequests = []struct{ method, params string }{
	{"sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"\u00e9","_meta":{"n":1.0}}},{"role":"oracle","content":[{"type":"hologram","n":1e400}]}],"maxTokens":9007199254740993,"temperature":1.0,"tools":[],` + oddParams + `}`},
	{"sampling/createMessage", `{"messages":[],"maxTokens":1,"x-fail":true}`},
	{"elicitation/create", `{"message":"who?","requestedSchema":{"type":"object","properties":{"z":{"type":"integer","maximum":9007199254740993},"a":{"type":"string"}}},` + oddParams + `}`},
	{"elicitation/create", `{"mode":"form","message":"who?","requestedSchema":{"type":"object","properties":{}}}`},
	{"elicitation/create", `{"mode":"url","message":"there","url":"https://example.com/?a=%20&b=\u00e9","elicitationId":"e-1",` + oddParams + `}`},
	{"roots/list", `{"_meta":{"example.com/n":9007199254740993,"progressToken":7}}`},
	{"roots/list", ``},
}

// AnswerRequest answers the server's requests for clients that run Items. The results contain the
// params of the request. Progress comes first if the request has a token. If params have "x-fail",
// the answer is an error.
func AnswerRequest(c *Client, m wire.Message) wire.Reply {
	if m.Method == "ping" {
		return result(`{}`)
	}
	if token, ok := wire.Get(m.Params, "_meta", "progressToken"); ok {
		for i := range 3 {
			_ = c.Notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"_meta":{"n":9007199254740993},"x":1.0}`, token, i+1))
		}
	}
	if _, fail := wire.Get(m.Params, "x-fail"); fail {
		return wire.Reply{Error: []byte(`{"code":-1,"message":"User rejected \u00e9","data":{"n":9007199254740993},"x":1e400}`)}
	}
	asked := m.Params
	if asked == nil {
		asked = []byte("null")
	}
	switch m.Method {
	case "sampling/createMessage":
		return result(`{"role":"assistant","content":{"type":"hologram","n":1e400},"model":"m","stopReason":"odd","_meta":{"n":9007199254740993},"asked":%s}`, withoutToken(asked))
	case "elicitation/create":
		return result(`{"action":"accept","content":{"z":9007199254740993,"a":"\u00e9"},"_meta":{"n":1.0},"asked":%s}`, withoutToken(asked))
	case "roots/list":
		return result(`{"roots":[{"uri":"file:///a%%20b","name":"\u00e9","_meta":{"n":1.0},"x":9007199254740993}],"_meta":{"n":1e400}}`)
	}
	return rpcError(wire.CodeMethodNotFound, "raw client: no "+m.Method)
}

func runServerRequests(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, r := range serverRequests {
		arguments := fmt.Sprintf(`{"method":%q`, r.method)
		if r.params != "" {
			arguments += `,"params":` + r.params
		}
		from := p.Client.Log.Len()
		got, err := p.call(ctx, "ask", arguments+"}")
		if err != nil {
			return nil, err
		}
		e, _, err := p.Client.Log.Find(ctx, r.method, from, Method(r.method))
		if err != nil {
			return nil, err
		}
		s.add(r.method+" at the client", withoutToken(e.Msg.Params))
		s.add("answer", got)
	}
	return s.json(), nil
}
