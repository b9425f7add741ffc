package mcptest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Item is a line of the fidelity list: an exchange between a client and a server, and the
// observations of both.
type Item struct {
	Name string
	run  func(ctx context.Context, p *Pair) ([]byte, error)
}

// Items is the fidelity list. The items require a server without faults and with unchanged tool
// names, and must run in this order on a single pair.
var Items = []Item{
	{"initialize: capabilities, revision, _meta", runInitialize},
	{"definitions, pages, _meta of lists", runDefinitions},
	{"params and _meta of requests", runParams},
	{"results: unknown content, digits, _meta everywhere", runResults},
	{"JSON-RPC errors with data", runErrors},
	{"ids 1, \"1\" and huge ones", runIDs},
	{"progress, 2,000 before the result", runProgress},
	{"progress of several calls at once", runConcurrentProgress},
	{"cancel by notification", runCancel},
	{"cancel storm", runCancelStorm},
	{"burst of 5,000 notifications", runBurst},
	{"notifications of the server, _meta", runServerNotifications},
	{"notifications of the client, _meta", runClientNotifications},
	{"requests of the server to the client", runServerRequests},
	{"ping both ways", runPing},
	{"subscriptions", runSubscriptions},
	{"logging", runLogging},
	{"list_changed", runListChanged},
	{"tasks", runTasks},
	{"large messages", runLarge},
}

// Pair is a client and the log of the client's server, connected directly or through a proxy.
type Pair struct {
	Client *Client
	// InitializeResponse is the response to the client's initialize request, which had
	// ClientParams.
	InitializeResponse Entry
	// Server has the messages that the server received.
	Server *Log
	// Modern says that the client speaks the stateless era. HTTP says that the client cancels a
	// request of that era by closing the connection.
	Modern, HTTP bool
	// Fewer makes the items about many messages send a tenth of them, or a hundred: still more
	// than a proxy may hold.
	Fewer bool

	asked  []question // by results, during the current item
	from   int        // index in Server at which the current item begins
	lastID atomic.Int64
}

// ClientParams are the params of the initialize request for Items. The clients
// must use AnswerRequest as OnRequest in their options.
const ClientParams = `{"protocolVersion":"2025-11-25","capabilities":{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},` +
	`"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}},"experimental":{"example.com/c":{"n":9007199254740993}}},` +
	`"clientInfo":{"name":"raw client","version":"0.1","x":1.0},"_meta":{"example.com/hello":{"n":1e400}}}`

// Run performs the item and returns the observations of client and server as a JSON object. For a
// given client and server the object is always the same, as Diff compares. An error says that an
// expected message did not arrive.
func (i Item) Run(ctx context.Context, p *Pair) ([]byte, error) {
	mark := fmt.Sprintf(`"mark-%d"`, p.lastID.Add(1))
	if _, err := p.call(ctx, "idle", `{"mark":`+mark+`}`); err != nil {
		return nil, fmt.Errorf("before it began: %w", err)
	}
	_, from, err := p.Server.Find(ctx, "the beginning", p.from, func(e Entry) bool {
		raw, _ := wire.Get(e.Msg.Params, "arguments", "mark")
		return string(raw) == mark
	})
	if err != nil {
		return nil, err
	}
	p.from = from
	return i.run(ctx, p)
}

// request sends a request with a new id and returns the response. Questions in results are
// answered.
func (p *Pair) request(ctx context.Context, method, params string) (Entry, error) {
	if p.Modern {
		return p.rounds(ctx, method, params)
	}
	e, err := p.Client.Request(ctx, p.id(), method, params)
	if err == nil {
		err = checkLegacy(e)
	}
	return e, err
}

// many returns the number of messages to send in place of n.
func (p *Pair) many(n int) int {
	if p.Fewer {
		return max(100, n/10)
	}
	return n
}

func (p *Pair) id() string { return strconv.FormatInt(p.lastID.Add(1), 10) }

// call calls a tool and returns the result.
func (p *Pair) call(ctx context.Context, tool, arguments string) ([]byte, error) {
	e, err := p.request(ctx, "tools/call", ToolParams(tool, arguments, ""))
	if err != nil {
		return nil, err
	}
	if e.Msg.Error != nil {
		return nil, fmt.Errorf("call %s: %s", tool, e.Msg.Error)
	}
	return e.Msg.Result, nil
}

// ToolParams returns params for tools/call; token is raw, "" for none.
func ToolParams(tool, arguments, token string) string {
	meta := ""
	if token != "" {
		meta = `,"_meta":{"progressToken":` + token + `}`
	}
	return fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, tool, arguments, meta)
}

// arrived waits for a message that reached the server since the item began.
func (p *Pair) arrived(ctx context.Context, wanted string, match func(Entry) bool) (Entry, error) {
	e, _, err := p.Server.Find(ctx, wanted+" at the server", p.from, match)
	return e, err
}

// fence waits until all messages sent by the server are in the client's Log. This holds for
// transports with one stream for all messages, and for the streams of answered requests.
func (p *Pair) fence(ctx context.Context) error {
	_, err := p.call(ctx, "instead", `{"text":"fence"}`)
	return err
}

// observation collects the observations of client and server, as members of a JSON object.
type observation struct{ b []byte }

// add adds a raw value; nil is shown as absent.
func (s *observation) add(name string, raw []byte) {
	if raw == nil {
		raw = []byte(`"(absent)"`)
	}
	if len(s.b) > 0 {
		s.b = append(s.b, ',')
	}
	s.b = append(append(append(s.b, wire.Quote(name)...), ':'), raw...)
}

// put adds a number, string or boolean.
func (s *observation) put(name string, v any) { s.add(name, wire.Marshal(v)) }

func (s *observation) json() []byte { return append(append([]byte{'{'}, s.b...), '}') }

// withoutToken returns params without the progress token, which differs on each
// hop.
func withoutToken(params []byte) []byte {
	if out, err := wire.Delete(params, "_meta", "progressToken"); err == nil {
		return out
	}
	return params
}

// without returns the object without a member.
func without(obj []byte, name string) []byte {
	if out, err := wire.Delete(obj, name); err == nil {
		return out
	}
	return obj
}

func runInitialize(_ context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, path := range [][]string{
		{"protocolVersion"}, {"_meta", "example.com/init"},
		{"capabilities", "tools", "listChanged"}, {"capabilities", "resources"}, {"capabilities", "prompts"},
		{"capabilities", "logging"}, {"capabilities", "completions"}, {"capabilities", "tasks"},
		{"capabilities", "experimental", "example.com/x"},
	} {
		raw, _ := wire.Get(p.InitializeResponse.Msg.Result, path...)
		s.add(fmt.Sprint(path), raw)
	}
	instructions, _ := wire.GetString(p.InitializeResponse.Msg.Result, "instructions")
	s.put("instructions", strings.Contains(instructions, Instructions))
	return s.json(), nil
}

// list fetches all pages of a list and returns the items by key, without the tools of the proxy
// itself.
func (p *Pair) list(ctx context.Context, surface wire.Surface) (items map[string][]byte, meta []byte, err error) {
	items = map[string][]byte{}
	for params := `{"_meta":{"n":1.0}}`; ; {
		e, err := p.request(ctx, surface.ListMethod(), params)
		if err != nil {
			return nil, nil, err
		}
		page, ok := wire.Get(e.Msg.Result, string(surface))
		if !ok {
			return nil, nil, fmt.Errorf("%s: %s%s", surface.ListMethod(), e.Msg.Result, e.Msg.Error)
		}
		elements, err := wire.Elements(page)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", surface.ListMethod(), err)
		}
		for _, item := range elements {
			key, _ := wire.GetString(item, surface.Key())
			if _, twice := items[key]; twice {
				return nil, nil, fmt.Errorf("%s: %q is listed twice", surface.ListMethod(), key)
			}
			items[key] = item
		}
		if meta == nil {
			meta, _ = wire.Get(e.Msg.Result, "_meta", "example.com/list")
		}
		cursor, ok := wire.Get(e.Msg.Result, "nextCursor")
		if !ok {
			return items, meta, nil
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
}

func runDefinitions(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, surface := range wire.Surfaces {
		items, meta, err := p.list(ctx, surface)
		if err != nil {
			return nil, err
		}
		var keys []string
		for key := range items {
			if surface != wire.Tools || slices.Contains(Tools, key) {
				keys = append(keys, key)
			}
		}
		sort.Strings(keys)
		for _, key := range keys {
			s.add(string(surface)+" "+key, items[key])
		}
		s.put("number of "+string(surface), len(keys))
		s.add("_meta of "+string(surface), meta)
	}
	return s.json(), nil
}

func runListChanged(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, surface := range []wire.Surface{wire.Tools, wire.Resources, wire.Templates, wire.Prompts} {
		before, _, err := p.list(ctx, surface)
		if err != nil {
			return nil, err
		}
		from := p.Client.Log.Len()
		if _, err := p.call(ctx, "change", fmt.Sprintf(`{"list":%q}`, surface)); err != nil {
			return nil, err
		}
		// A late notification of an earlier change may come first.
		for {
			if _, from, err = p.Client.Log.Find(ctx, surface.ChangedMethod(), from, Method(surface.ChangedMethod())); err != nil {
				return nil, err
			}
			after, _, err := p.list(ctx, surface)
			if err != nil {
				return nil, err
			}
			for key := range before {
				delete(after, key)
			}
			if len(after) == 0 {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(after)) {
				s.add("new in "+string(surface)+" "+key, after[key])
			}
			break
		}
	}
	return s.json(), nil
}

func runSubscriptions(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, uri := range []string{"raw://text", "file:///tmp/a%20b?x=%C3%A9#f"} {
		params := fmt.Sprintf(`{"uri":%s,"_meta":{"n":9007199254740993},"x":1.0}`, wire.Quote(uri))
		e, err := p.request(ctx, "resources/subscribe", params)
		if err != nil {
			return nil, err
		}
		s.add("subscribed "+uri, e.Msg.Result)
		if e, err = p.arrived(ctx, "subscription", Method("resources/subscribe")); err != nil {
			return nil, err
		}
		s.add("at the server", e.Msg.Params)
		from := p.Client.Log.Len()
		if _, err := p.call(ctx, "touch", fmt.Sprintf(`{"uri":%s}`, wire.Quote(uri))); err != nil {
			return nil, err
		}
		if e, _, err = p.Client.Log.Find(ctx, "resources/updated", from, Method("notifications/resources/updated")); err != nil {
			return nil, err
		}
		s.add("updated", e.Msg.Params)
		if e, err = p.request(ctx, "resources/unsubscribe", params); err != nil {
			return nil, err
		}
		s.add("unsubscribed", e.Msg.Result)
		if e, err = p.arrived(ctx, "unsubscription", Method("resources/unsubscribe")); err != nil {
			return nil, err
		}
		s.add("unsubscribed at the server", e.Msg.Params)
		p.from = p.Server.Len()
	}
	return s.json(), nil
}

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
