package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// slow is a server that has run before and that starts when its gate is opened.
type slow struct {
	*testing.T
	*gate
	cfg *config.Config
}

// newSlow runs the server once. Then change edits what is remembered of it, as if the
// server had been different in that run.
func newSlow(t *testing.T, change ...string) *slow {
	g := newGate(t)
	u := upstreamOf("slow", "late")
	u.Args = []string{g.Addr().String()}
	cfg := testConfig(t, u)
	cfg.StartupWait = time.Hour
	s := &slow{t, g, cfg}
	s.Run("before", func(t *testing.T) {
		h, _ := startHostFor(t, cfg, OneClient)
		dialing := dialed(t, h)
		g.accept(t)
		g.conn.Close()
		(<-dialing).pid("slow__")
	}) // closing the Host has saved the lists
	if len(change) > 0 {
		s.rewrite(change...)
	}
	return s
}

// dialed is dial, but does not wait for the answer to initialize.
func dialed(t testing.TB, h *Host) <-chan *client {
	c := make(chan *client, 1)
	go func() { c <- dial(t, h) }()
	return c
}

func (s *slow) file() string { return filepath.Join(s.cfg.Store.Dir, "servers", "slow.json") }

// rewrite replaces texts in the remembered lists.
func (s *slow) rewrite(change ...string) {
	s.Helper()
	data, err := os.ReadFile(s.file())
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(string(data), change[i]) {
			s.Fatalf("no %s in %s", change[i], data)
		}
	}
	if err := os.WriteFile(s.file(), []byte(strings.NewReplacer(change...).Replace(string(data))), 0o600); err != nil {
		s.Fatal(err)
	}
}

// TestRequestsWhileStarting checks a server that has run before: the first requests are
// answered from remembered lists, calls wait for the server, and then everything is as
// it is now.
func TestRequestsWhileStarting(t *testing.T) {
	t.Parallel()
	s := newSlow(t, `"name":"pid"`, `"name":"older"`, `"capabilities":{"tools":{}}`,
		`"capabilities":{"tools":{},"prompts":{},"tasks":{"list":{}},"resources":{"subscribe":true}},"instructions":"as it was"`)
	h, log := startHostFor(t, s.cfg, OneClient)
	c := dial(t, h) // it does not start until the gate is opened
	answers := map[string]string{}
	for i, method := range []string{"tools/list", "prompts/list", "logging/setLevel"} {
		answers[method] = c.request(fmt.Sprint(i), method, `{"level":"info"}`)
	}
	if got := answers["tools/list"]; !strings.Contains(got, `"slow__older"`) || strings.Contains(got, `"slow__pid"`) {
		t.Errorf("tools: %s", got)
	}
	for method, want := range map[string]string{"prompts/list": `"result":{"prompts":[]}`, "logging/setLevel": `"result":{}`} {
		if got := answers[method]; !strings.Contains(got, want) {
			t.Errorf("%s: %s", method, got)
		}
	}
	c.say(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"slow__text","arguments":{"text":"at once"}}}`)
	c.say(`{"jsonrpc":"2.0","id":"script","method":"tools/call","params":{"name":"eval_starlark","arguments":{"code":"return slow.pid().pid"}}}`)
	s.accept(t)
	s.conn.Close()
	for range 2 {
		switch got := c.hear(); {
		case strings.Contains(got, `"id":"call"`):
			if !strings.Contains(got, `"text":"at once"`) {
				t.Errorf("call: %s", got)
			}
		case !strings.Contains(got, `"result":`) || strings.Contains(got, `"isError":true`):
			t.Errorf("script: %s", got)
		}
	}
	h.Upstreams(t.Context())
	if got := c.request("1", "tools/list", `{}`); strings.Contains(got, `"slow__older"`) || !strings.Contains(got, `"slow__pid"`) {
		t.Errorf("then: %s", got)
	}
	// What the server does not have, although clients were told so, is empty.
	for method, want := range map[string]string{
		"prompts/list": `"result":{"prompts":[]}`, "resources/list": `"result":{"resources":[]}`, "tasks/list": `"result":{"tasks":[]}`,
		"resources/read": `"resource not found: x://y"`, "resources/subscribe": `"resource not found: x://y"`, "completion/complete": "method not found",
	} {
		if got := c.request("1", method, `{"uri":"x://y"}`); !strings.Contains(got, want) {
			t.Errorf("%s: %s", method, got)
		}
	}
	if !strings.Contains(log.String(), "announces other capabilities or instructions") {
		t.Errorf("log: %s", log)
	}
}

// TestRememberedListsFollowTheConfiguration checks that a hidden tool stays hidden,
// although the remembered list has it, and that a script's call is checked against what
// the server says now.
func TestRememberedListsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	s := newSlow(t, `"name":"text","inputSchema":{"type":"object"}`, `"name":"text","inputSchema":{"type":"object","required":["other"]}`)
	s.cfg.Upstreams[0].Hide = []string{"pid"}
	h, _ := startHostFor(t, s.cfg, OneClient)
	c := dial(t, h)
	if got := c.request("1", "tools/list", `{}`); strings.Contains(got, `"slow__pid"`) || !strings.Contains(got, `"slow__text"`) {
		t.Errorf("tools: %s", got)
	}
	if got := c.call("eval_starlark", `{"code":"slow.pid()"}`); !strings.Contains(got, "the configuration hides it") {
		t.Errorf("script: %s", got)
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"eval_starlark","arguments":{"code":"return slow.text(text='fine')"}}}`)
	s.accept(t)
	s.conn.Close()
	if got := c.hear(); !strings.Contains(got, `"result":"fine"`) {
		t.Errorf("script: %s", got)
	}
}

// TestRememberedListsOfAnotherServer checks that the lists of a server that is started
// in another way, or that are in a damaged file, are not used.
func TestRememberedListsOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := newSlow(t)
	data, err := os.ReadFile(s.file())
	if err != nil {
		t.Fatal(err)
	}
	args := s.cfg.Upstreams[0].Args
	for name, change := range map[string]func(){
		"arguments": func() { s.cfg.Upstreams[0].Args = append(args[:1:1], "more") },
		"one name":  func() { s.rewrite(`"name":"pid"`, `"name":"text"`) },
		"no object": func() { s.rewrite(`"handshake":{`, `"handshake":[{`) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(s.file(), data, 0o600); err != nil {
				t.Fatal(err)
			}
			s.cfg.Upstreams[0].Args = args
			change()
			h, _ := startHostFor(t, s.cfg, OneClient)
			conn, ok := h.upstreams.For(nil, "slow")
			if !ok {
				t.Fatal("no connection")
			}
			if handshake, ok := conn.Server(); ok {
				t.Errorf("%s is remembered", handshake)
			}
			if names := h.catalog.Visible(wire.Tools); strings.Contains(fmt.Sprint(names), "slow__") {
				t.Errorf("it is listed: %q", names)
			}
			s.accept(t)
			s.conn.Close()
			dial(t, h).pid("slow__")
		})
	}
}

// TestRememberedListsNeedClient checks that a Host without clients does not use remembered lists.
func TestRememberedListsNeedClient(t *testing.T) {
	t.Parallel()
	s := newSlow(t, `"name":"pid"`, `"name":"older"`)
	h, _ := startHostFor(t, s.cfg, NoClient)
	if names := h.catalog.Visible(wire.Tools); strings.Contains(fmt.Sprint(names), "slow__") {
		t.Errorf("it is listed: %q", names)
	}
	s.accept(t)
	s.conn.Close()
	offer, err := h.Snapshot(t.Context(), "slow")
	if list := fmt.Sprintf("%s", offer.Lists[wire.Tools].Items); err != nil || strings.Contains(list, "older") {
		t.Errorf("%s %v", list, err)
	}
}
