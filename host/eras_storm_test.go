package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// stormServers are upstreams of both eras over both transports, by name.
var stormServers = []struct {
	name      string
	era       string
	transport config.Transport
}{
	{"ls", mcptest.EraLegacy, config.Stdio}, {"lh", mcptest.EraLegacy, config.StreamableHTTP},
	{"ms", mcptest.EraModern, config.Stdio}, {"mh", mcptest.EraModern, config.StreamableHTTP},
}

// startStorm runs a Host in front of all stormServers, for clients with one of two tokens.
func startStorm(t *testing.T, inputTimeout time.Duration) *testProxy {
	t.Helper()
	var ups []config.Upstream
	for _, s := range stormServers {
		up := startRaw(t, s.transport, mcptest.ServerOptions{Eras: s.era, Name: s.name})
		up.config.Name, up.config.Prefix = s.name, s.name+"__"
		ups = append(ups, up.config)
	}
	cfg := testConfig(t, ups...)
	cfg.HTTP.Tokens, cfg.InputTimeout = bearerTokens("token-a", "token-b"), inputTimeout
	w := serveProxy(t, combination{config.StreamableHTTP, config.Stdio}, nil, cfg)
	w.host.router.HandshakeWait = time.Minute
	return w
}

// stormClient is a client whose messages all carry marks: "<client.request>".
type stormClient struct {
	*mcptest.Client
	t      *testing.T
	no     int
	modern bool
	rnd    *rand.Rand
}

var marks = regexp.MustCompile(`<(\d+)\.(\d+)>`)

func (c *stormClient) mark(id int) string { return fmt.Sprintf("<%d.%d>", c.no, id) }

func (w *testProxy) stormClient(t *testing.T, ctx context.Context, no int, modern bool) *stormClient {
	c := &stormClient{t: t, no: no, modern: modern, rnd: rand.New(rand.NewPCG(1, uint64(no)))}
	header := map[string]string{"Authorization": "Bearer token-" + string("ab"[no%2])}
	c.Client = w.dial(t, mcptest.ClientOptions{Header: header, OnRequest: func(_ *mcptest.Client, m wire.Message) wire.Reply {
		return wire.Reply{Result: fmt.Appendf(nil, `{"roots":[],"of":%s}`, m.Params)} // checked with the Log
	}})
	if !modern {
		if _, err := c.Initialize(ctx, mcptest.ClientParams); err != nil {
			t.Errorf("client %d: %v", no, err)
		}
		if _, err := c.Request(ctx, `"level"`, "logging/setLevel", `{"level":"debug"}`); err != nil {
			t.Errorf("client %d: %v", no, err)
		}
	}
	return c
}

// start sends a call of a tool.
func (c *stormClient) start(id int, tool, arguments, more string) <-chan mcptest.Answer {
	params := fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":%d}%s}`, tool, arguments, id, more)
	if c.modern {
		params = mcptest.Everyone.Params(params)
	}
	return c.Start(fmt.Sprint(id), "tools/call", params)
}

// turn makes one call of a server.
func (c *stormClient) turn(ctx context.Context, id int, server string) {
	mark := c.mark(id)
	switch kind := c.rnd.IntN(6); kind {
	case 0:
		c.answered(ctx, id, c.start(id, server+"__echo", fmt.Sprintf(`{"x":%q}`, mark), ""), mark)
	case 1:
		message := fmt.Sprintf(`{"method":"notifications/message","params":{"level":"error","data":%q}}`, mark)
		c.answered(ctx, id, c.start(id, server+"__notify", message, ""), "content")
	case 2:
		c.answered(ctx, id, c.start(id, server+"__count", `{"times":20}`, ""), `"counted":20`)
	case 3: // a composite
		code := fmt.Sprintf(`{"code":"return %s.instead({'text': '%s'})"}`, server, mark)
		c.answered(ctx, id, c.start(id, "eval_starlark", code, ""), mark)
	case 4:
		c.cancelled(ctx, id, c.start(id, server+"__wait", fmt.Sprintf(`{"x":%q}`, mark), ""))
	default:
		c.asked(ctx, id, server, mark)
	}
}

// answered waits for an answer that contains a text.
func (c *stormClient) answered(ctx context.Context, id int, answer <-chan mcptest.Answer, want string) {
	select {
	case a := <-answer:
		if a.Err != nil || !strings.Contains(string(a.Raw), want) {
			c.t.Errorf("client %d (modern: %v), request %d: want %s, got %.500s %v", c.no, c.modern, id, want, a.Raw, a.Err)
		}
	case <-ctx.Done():
		c.t.Errorf("client %d, request %d: no answer", c.no, id)
	}
}

// cancelled cancels a call at any moment. In the handshake era the notification could
// overtake the call, so that it must have arrived.
func (c *stormClient) cancelled(ctx context.Context, id int, answer <-chan mcptest.Answer) {
	if !c.modern {
		if _, _, err := c.Log.Find(ctx, "progress", 0, mcptest.ProgressWith(fmt.Sprint(id))); err != nil {
			c.t.Errorf("client %d, request %d: %v", c.no, id, err)
			return
		}
	}
	time.Sleep(testenv.Quiet(time.Duration(c.rnd.IntN(4000)) * time.Microsecond))
	if c.modern {
		c.Drop(fmt.Sprint(id))
	} else if err := c.Notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, id)); err != nil {
		c.t.Errorf("client %d: %v", c.no, err)
	}
	<-answer
}

// asked makes a server ask the client, and answers or abandons the call. Several clients
// share the servers, so the question may be refused.
func (c *stormClient) asked(ctx context.Context, id int, server, mark string) {
	arguments, more := fmt.Sprintf(`{"method":"roots/list","params":{"x":%q}}`, mark), ""
	for {
		select {
		case a := <-c.start(id, server+"__ask", arguments, more):
			state, ok := wire.GetString(a.Msg.Result, "requestState")
			switch {
			case a.Err != nil:
				c.t.Errorf("client %d, request %d: %v", c.no, id, a.Err)
				return
			case !ok && strings.Contains(string(a.Raw), `"of"`) && !strings.Contains(string(a.Raw), mark):
				c.t.Errorf("client %d, request %d has the answer of another: %s", c.no, id, a.Raw)
				return
			case !ok || c.rnd.IntN(3) == 0: // answered, or abandoned
				return
			}
			requests, _ := wire.Get(a.Msg.Result, "inputRequests")
			responses := "{}"
			for _, r := range members(requests) {
				params, _ := wire.Get(r.Value, "params")
				set, err := wire.Set([]byte(responses), fmt.Appendf(nil, `{"roots":[],"of":%s}`, params), r.Name)
				if err != nil {
					c.t.Error(err)
				}
				responses = string(set)
			}
			more = fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, state, responses)
		case <-ctx.Done():
			c.t.Errorf("client %d, request %d: no answer to a question", c.no, id)
			return
		}
	}
}

func members(object []byte) []wire.Member {
	all, _ := wire.Members(object)
	return all
}

// check looks for messages that belong to another client or, where the stream shows the
// request, to another request.
func (c *stormClient) check() (own int) {
	for _, e := range c.Log.All() {
		for _, mark := range marks.FindAllStringSubmatch(string(e.Raw), -1) {
			own++
			if mark[1] != fmt.Sprint(c.no) || c.modern && e.Stream != "post "+mark[2] {
				c.t.Errorf("client %d (modern: %v) got on %s: %s", c.no, c.modern, e.Stream, e.Raw)
			}
		}
		if token, ok := wire.Get(e.Msg.Params, "progressToken"); ok && c.modern && e.Stream != "post "+string(token) {
			c.t.Errorf("client %d got on %s: %s", c.no, e.Stream, e.Raw)
		}
		if e.Msg.IsRequest() && c.modern {
			c.t.Errorf("client %d got a request: %s", c.no, e.Raw)
		}
	}
	return own
}

// TestStormOfEras has clients of both eras and of two principals call servers of both eras
// at the same time, with the same ids and tokens: calls are answered, cancelled at any
// moment, or abandoned with a question. No message reaches another client or request, and
// at the end no call is left at any server.
func TestStormOfEras(t *testing.T) {
	t.Parallel()
	clients, turns := 8, 12
	if *long {
		clients, turns = 24, 150
	}
	w := startStorm(t, 300*time.Millisecond)
	ctx := bounded(t)
	all := make([]*stormClient, clients)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			c := w.stormClient(t, ctx, i, i%4 < 2)
			all[i] = c
			var two sync.WaitGroup
			gate := make(chan struct{}, 2)
			for id := range turns {
				server := stormServers[c.rnd.IntN(len(stormServers))].name
				gate <- struct{}{}
				if c.rnd.IntN(2) == 0 { // the random choices must not depend on the order
					c.turn(ctx, id, server)
					<-gate
					continue
				}
				text := c.mark(id)
				answer := c.start(id, server+"__echo", fmt.Sprintf(`{"x":%q}`, text), "")
				two.Go(func() {
					c.answered(ctx, id, answer, text)
					<-gate
				})
			}
			two.Wait()
		})
	}
	wg.Wait()
	own := 0
	for _, c := range all {
		own += c.check()
	}
	if own < clients*turns/4 {
		t.Errorf("only %d messages had marks", own)
	}
	for i, s := range stormServers { // answered once nothing else runs there
		c := all[i%2]
		c.answered(ctx, 1000+i, c.start(1000+i, s.name+"__idle", "{}", ""), `"idle":true`)
	}
	for _, c := range all {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
