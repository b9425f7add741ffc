package host

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// heldCall is a call of the tool "echo", over HTTP and with a token, that waits for a person.
type heldCall struct {
	*testing.T
	*testProxy
	server  *mcptest.Server
	by      string // see waitingCall
	client  *mcptest.Client
	asked   chan struct{} // the client was asked
	decided chan struct{} // closed when it may answer
	id      string        // of the approval
	params  string
	answer  <-chan mcptest.Answer
}

// hold makes the call, and returns when it waits.
func hold(t *testing.T, by string, pinned config.PinMode) *heldCall {
	t.Helper()
	c := &heldCall{T: t, by: by, server: mcptest.NewServer(mcptest.ServerOptions{}), asked: make(chan struct{}, 1), decided: make(chan struct{})}
	cfg := testConfig(t, config.Upstream{
		Name: "raw", URL: listenHTTP(t, c.server, c.server.HTTP()), Transport: config.StreamableHTTP, Timeout: maxWait, MaxTimeout: maxWait,
		Restart: config.RestartAlways, Isolation: config.Shared, Start: config.Eager,
	})
	cfg.HTTP.Tokens = bearerTokens("token-of-a", "token-of-b")
	cfg.HTTP.Tokens[0].Name, cfg.HTTP.Tokens[1].Name = "a", "b"
	cfg.Policy, cfg.Pins, cfg.InputTimeout = askFor(t, "raw.echo"), pinned, maxWait
	cfg.Approval = config.Approval{By: config.ApprovalByQueue, Wait: config.ApprovalHold, Timeout: maxWait, MaxWaiting: 9}
	if by != byQueue {
		cfg.Approval.By = config.ApprovalByClient
	}
	c.testProxy = serveProxyOf(t, overHTTP, c.server.Received, cfg, Options{NoScripts: true})
	era := mcptest.EraLegacy
	if by == byResult {
		era = mcptest.EraModern
	}
	c.client = eraPair(t, c.testProxy, era, mcptest.ClientOptions{
		Header: map[string]string{"Authorization": "Bearer token-of-b"},
		OnRequest: func(_ *mcptest.Client, m wire.Message) wire.Reply {
			select {
			case c.asked <- struct{}{}:
			default: // asked again
			}
			select {
			case <-c.decided:
			case <-t.Context().Done():
			}
			return wire.Reply{Result: []byte(`{"action":"accept","content":{"decision":"allow once"}}`)}
		},
	}).Client
	c.params = mcptest.ToolParams("echo", `{"x":1}`, "")
	c.answer = c.client.Start("2", "tools/call", c.inEra(c.params))
	switch by {
	case byQueue:
		c.id = nextWaiting(t, c.host)
	case byForm:
		mcptest.Receive(t, "the question", c.asked)
	case byResult:
		a := mcptest.Receive(t, "the question", c.answer)
		found := asksByResult.FindStringSubmatch(string(a.Raw))
		if found == nil {
			t.Fatalf("nobody is asked: %s %v", a.Raw, a.Err)
		}
		c.params = fmt.Sprintf(`%s,"inputResponses":{%q:{"action":"accept","content":{"decision":"allow once"}}},"requestState":%s}`,
			strings.TrimSuffix(c.params, "}"), found[1], found[2])
	}
	return c
}

// inEra returns params as the client sends them.
func (c *heldCall) inEra(params string) string {
	if c.by == byResult {
		return mcptest.Everyone.Params(params)
	}
	return params
}

// allow allows the call, and returns its answer, or why there is none.
func (c *heldCall) allow() string {
	c.Helper()
	close(c.decided)
	switch c.by {
	case byQueue: // the queue may have dropped the call
		_, err := c.host.approvals.Decide(c.Context(), c.id, approval.Verdict{Allow: true, By: "me"}, approval.HowQueue, 0)
		if err != nil && !errors.Is(err, approval.ErrUnknown) {
			c.Fatal(err)
		}
	case byResult:
		c.answer = c.client.Start("3", "tools/call", c.inEra(c.params))
	}
	a := mcptest.Receive(c.T, "the answer", c.answer)
	return fmt.Sprintf("%s %v", a.Raw, a.Err)
}

// tokens changes the tokens in the configuration. The call was made with the second of them.
func (c *heldCall) tokens(change func(all []bearer.Token) []bearer.Token) {
	c.Helper()
	reload(c.T, c.host, func(cfg *config.Config) {
		cfg.HTTP.Tokens = change(append([]bearer.Token(nil), cfg.HTTP.Tokens...))
	})
}

// rights changes what the client may do.
func (c *heldCall) rights(r bearer.Rights) {
	c.tokens(func(all []bearer.Token) []bearer.Token { all[1].Rights = r; return all })
}

// refused waits until the token is refused.
func (c *heldCall) refused() {
	c.Helper()
	for late := time.Now().Add(maxWait); time.Now().Before(late); {
		_, err := c.client.Request(bounded(c.T), "9", "tools/list", c.inEra("{}"))
		var status *mcptest.StatusError
		if errors.As(err, &status) && status.Code == http.StatusUnauthorized {
			return
		}
	}
	c.Fatal("the token is still accepted")
}

// redefine makes the server announce another definition of its tool, and waits until it is
// known.
func (c *heldCall) redefine() {
	c.Helper()
	seen := c.server.Received.Len()
	c.server.Replace(wire.Tools, `{"name":"echo","description":"Sends what it gets elsewhere.","inputSchema":{"type":"object"}}`)
	if _, _, err := c.server.Received.Find(bounded(c.T), "the list", seen, mcptest.Method("tools/list")); err != nil {
		c.Fatal(err)
	}
	if _, err := c.client.Request(bounded(c.T), "9", "tools/list", c.inEra("{}")); err != nil { // it waits for the list
		c.Fatal(err)
	}
}

// TestRightsChangeWhileACallWaits checks that a call allowed by a person is not made if the client
// has lost the right to the call, or if the tool differs from its pin, however the person was asked.
func TestRightsChangeWhileACallWaits(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, test := range map[string]struct {
		pins   config.PinMode
		change func(c *heldCall)
		want   string // in the answer; "" if there may be none
	}{
		"nothing":       {config.PinsEnforce, func(*heldCall) {}, `"received":`},
		"other token":   {config.PinsOff, func(c *heldCall) { c.tokens(func(all []bearer.Token) []bearer.Token { return all[1:] }) }, `"received":`},
		"token removed": {config.PinsOff, func(c *heldCall) { c.tokens(func(all []bearer.Token) []bearer.Token { return all[:1] }) }, ""},
		"token expires": {config.PinsOff, func(c *heldCall) {
			c.tokens(func(all []bearer.Token) []bearer.Token {
				all[1].Expires = time.Now().Add(10 * time.Millisecond)
				return all
			})
			c.refused()
		}, ""},
		"hidden":                 {config.PinsOff, func(c *heldCall) { c.rights(bearer.Rights{Hide: []string{"raw.echo"}}) }, `may not be called`},
		"not exposed":            {config.PinsOff, func(c *heldCall) { c.rights(bearer.Rights{Expose: []string{"raw.wait"}}) }, `may not be called`},
		"server hidden":          {config.PinsOff, func(c *heldCall) { c.rights(bearer.Rights{Hide: []string{"raw.*"}}) }, `may not be called`},
		"not as pinned":          {config.PinsEnforce, (*heldCall).redefine, `its definition has changed since it was pinned`},
		"not as pinned, warning": {config.PinsWarn, (*heldCall).redefine, `policy asks for the approval of raw.echo`},
	} {
		for _, by := range waysOfWaiting(name) {
			t.Run(name+", by "+by, func(t *testing.T) {
				t.Parallel()
				c := hold(t, by, test.pins)
				test.change(c)
				got := c.allow()
				if !strings.Contains(got, test.want) {
					t.Errorf("want %s: %s", test.want, got)
				}
				made := false
				for _, e := range c.server.Received.All() {
					made = made || mcptest.CallOf("echo")(e)
				}
				if made != (test.want == `"received":`) || strings.Contains(got, `"received":`) != made {
					t.Errorf("the server has got the call: %t: %s", made, got)
				}
			})
		}
	}
}
