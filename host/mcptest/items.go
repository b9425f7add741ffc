package mcptest

import (
	"context"
	"fmt"
	"strconv"
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
