package mcptest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestStateless checks the server of the stateless era with the client of that era.
func TestStateless(t *testing.T) {
	for _, transport := range transports {
		if transport.name == "sse" {
			continue
		}
		for _, eras := range []string{EraModern, EraBoth} {
			t.Run(transport.name+" "+eras, func(t *testing.T) {
				ctx := testContext(t)
				c, received := transport.dial(t, ServerOptions{Eras: eras, HeaderTools: true}, ClientOptions{})
				defer c.Disconnect()
				id := 0
				ask := func(method, params string, e Envelope) string {
					t.Helper()
					id++
					answer, err := c.Request(ctx, fmt.Sprint(id), method, e.Params(params))
					var status *StatusError
					if errors.As(err, &status) {
						return fmt.Sprint(status.Code, " ", string(status.Body))
					}
					if err != nil {
						t.Fatal(err)
					}
					return string(answer.Raw)
				}
				all := Envelope{Capabilities: `{"elicitation":{},"sampling":{}}`, LogLevel: "info"}
				call := func(tool, arguments, more string) string {
					return fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, tool, arguments, more)
				}
				for _, test := range []struct {
					method, params string
					envelope       Envelope
					want           []string
				}{
					{"server/discover", "", Envelope{}, []string{`"supportedVersions":["2026-07-28"`, `serverInfo":{"name":"raw"`, `"ttlMs":60000`}},
					{"server/discover", "", Envelope{Version: "2099-01-01"}, []string{`-32022`, `"requested":"2099-01-01"`}},
					{"ping", "", Envelope{}, []string{`-32601`}},
					{"tools/list", "", Envelope{}, []string{`"resultType":"complete"`, `"cacheScope":"private"`}},
					{"tools/call", call("echo", `{}`, ""), all, []string{`"resultType":"complete"`, `"received"`}},
					{"tools/call", call("region", `{"region":"r"}`, ""), Envelope{}, nil},
					{"tools/call", call("ask", `{"method":"elicitation/create","params":{}}`, ""), Envelope{}, []string{`-32021`, `{"requiredCapabilities":{"elicitation":{}}}`}},
					{"tools/call", call("ask", `{"method":"elicitation/create","params":{"x":1}}`, ""), all, []string{`"resultType":"input_required"`, `"question":{"method":"elicitation/create","params":{"x":1}}`, `-1"`}},
					{"tools/call", call("ask", `{}`, `,"requestState":"no"`), all, []string{`-32602`}},
				} {
					got := ask(test.method, test.params, test.envelope)
					for _, want := range test.want {
						if !strings.Contains(got, want) {
							t.Errorf("%s %s: %s, want %s", test.method, test.params, got, want)
						}
					}
				}
				if received == nil {
					return
				}
				for _, e := range received.All() {
					if e.Header != nil && e.Header.Get("Mcp-Method") != e.Msg.Method {
						t.Errorf("%s: headers %v", e.Raw, e.Header)
					}
				}
			})
		}
	}
}

// TestAskModern checks the rounds of a call that asks the client.
func TestAskModern(t *testing.T) {
	ctx := testContext(t)
	c, _ := dialHTTP(t, ServerOptions{Eras: EraModern}, ClientOptions{})
	defer c.Disconnect()
	const arguments = `"name":"ask","arguments":{"method":"roots/list","times":2}`
	envelope := Envelope{Capabilities: `{"roots":{}}`}
	more := ""
	for round := 1; ; round++ {
		e, err := c.Request(ctx, fmt.Sprint(round), "tools/call", envelope.Params("{"+arguments+more+"}"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(e.Raw)
		if round == 3 {
			if !strings.Contains(text, `"result":{"roots":[]},"rounds":2`) {
				t.Error(text)
			}
			return
		}
		_, state, ok := strings.Cut(text, `"requestState":"`)
		if !ok {
			t.Fatal(text)
		}
		state, _, _ = strings.Cut(state, `"`)
		more = fmt.Sprintf(`,"requestState":%q,"inputResponses":{"question":{"roots":[]}}`, state)
	}
}

// TestListen checks subscriptions: their acknowledgement, filter, tags and ends.
func TestListen(t *testing.T) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			ctx := testContext(t)
			s := NewServer(ServerOptions{Eras: EraBoth})
			var c *Client
			if transport == "http" {
				c = NewHTTP(listen(t, s, s.HTTP()), ClientOptions{})
			} else {
				c = dialPipe(t, s)
			}
			defer c.Disconnect()
			open := func(id, filter string) <-chan Answer {
				t.Helper()
				from := c.Log.Len()
				answer := c.Start(id, "subscriptions/listen", Envelope{}.Params(`{"notifications":`+filter+`}`))
				if _, _, err := c.Log.Find(ctx, "acknowledgement", from, Method("notifications/subscriptions/acknowledged")); err != nil {
					t.Fatal(err)
				}
				return answer
			}
			tools := open(`"a"`, `{"toolsListChanged":true}`)
			open(`7`, `{"resourceSubscriptions":["f:1","unwatched:1"]}`)
			s.Publish("notifications/prompts/list_changed", "")
			s.Publish("notifications/tools/list_changed", "")
			s.Publish("notifications/resources/updated", `{"uri":"f:2"}`)
			s.Publish("notifications/resources/updated", `{"uri":"f:1"}`)
			e, _, err := c.Log.Find(ctx, "update", 0, Method("notifications/resources/updated"))
			if err != nil || !strings.Contains(string(e.Raw), `{"uri":"f:1","_meta":{"io.modelcontextprotocol/subscriptionId":7}}`) {
				t.Errorf("%s, %v", e.Raw, err)
			}
			e, _, err = c.Log.Find(ctx, "change", 0, Method("notifications/tools/list_changed"))
			if err != nil || !strings.Contains(string(e.Raw), `{"_meta":{"io.modelcontextprotocol/subscriptionId":"a"}}`) {
				t.Errorf("%s, %v", e.Raw, err)
			}
			s.EndSubscriptions()
			if a := <-tools; a.Err != nil || !strings.Contains(string(a.Raw), `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"a"}}`) {
				t.Errorf("%s, %v", a.Raw, a.Err)
			}
			for _, e := range c.Log.All() {
				if e.Msg.Method == "notifications/prompts/list_changed" || strings.Contains(string(e.Raw), "f:2") {
					t.Errorf("not asked for: %s", e.Raw)
				}
			}
		})
	}
}

// dialPipe connects a client to a server in this process.
func dialPipe(t testing.TB, s *Server) *Client {
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ServeStdio(serverIn, serverOut)
	}()
	t.Cleanup(func() { <-done })
	return NewStdio(clientIn, clientOut, ClientOptions{})
}
