package host

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/pins"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// TestPinsOfRememberedLists checks that what a server was remembered to have is pinned, and
// that a call which waits for the start of the server does not reach a tool that is another
// one by then.
func TestPinsOfRememberedLists(t *testing.T) {
	t.Parallel()
	s := newSlow(t, `"name":"pid"`, `"name":"pid","title":"older"`)
	s.cfg.Pins = config.PinsEnforce
	s.cfg.Upstreams[0].Start = config.Lazy
	h, _ := startHostFor(t, s.cfg, OneClient)
	c := dial(t, h)
	if got := c.request("0", "tools/list", `{}`); !strings.Contains(got, `"title":"older"`) {
		t.Fatalf("tools: %s", got)
	}
	if text, err := os.ReadFile(s.cfg.PinsPath()); err != nil || !strings.Contains(string(text), `"title": "older"`) {
		t.Fatalf("%v: pinned is %s", err, text)
	}
	c.say(`{"jsonrpc":"2.0","id":"pid","method":"tools/call","params":{"name":"slow__pid"}}`)
	c.say(`{"jsonrpc":"2.0","id":"text","method":"tools/call","params":{"name":"slow__text","arguments":{"text":"as it was"}}}`)
	c.say(`{"jsonrpc":"2.0","id":"script","method":"tools/call","params":{"name":"eval_starlark","arguments":{"code":"return slow.pid().pid"}}}`)
	s.accept(t)
	s.conn.Close()
	for answers := 0; answers < 3; {
		got := c.hear()
		switch {
		case strings.Contains(got, `"id":"text"`):
			if !strings.Contains(got, `"text":"as it was"`) {
				t.Errorf("a tool as it was pinned: %s", got)
			}
		case strings.Contains(got, `"id":`):
			if !strings.Contains(got, "its definition has changed since it was pinned") {
				t.Errorf("a tool that is another one: %s", got)
			}
		default:
			continue // a notification
		}
		answers++
	}
}

// TestPinsUnderReload checks that pins which are switched on while a server runs hold for
// what it has offered before, and that other pins are used without a restart.
func TestPinsUnderReload(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, upstreamOf("one", "raw"))
	h, _ := startHostFor(t, cfg, OneClient)
	c := dial(t, h)
	h.Upstreams(t.Context())
	reload(t, h, func(cfg *config.Config) { cfg.Pins = config.PinsEnforce })
	at := regular.Place{Name: cfg.PinsPath()}
	accepted, err := pins.Read(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.call("one__pid", `{}`); strings.Contains(got, `"isError":true`) {
		t.Errorf("as it was pinned: %s", got)
	}
	other := accepted.Clone()
	if err := other.Set("one", pins.Lists{wire.Tools: []byte(`[{"name":"pid","title":"another one"}]`)}); err != nil {
		t.Fatal(err)
	}
	if err := other.Write(at); err != nil {
		t.Fatal(err)
	}
	c.listed("one__pid", false)
	if got := c.call("one__pid", `{}`); !strings.Contains(got, "its definition has changed since it was pinned") {
		t.Errorf("not as it is pinned: %s", got)
	}
	if err := accepted.Write(at); err != nil {
		t.Fatal(err)
	}
	c.listed("one__pid", true)
	if got := c.call("one__pid", `{}`); strings.Contains(got, `"isError":true`) {
		t.Errorf("accepted: %s", got)
	}
}

// listed asks until a tool is in the list, or is not.
func (c *client) listed(tool string, is bool) {
	c.t.Helper()
	for late := time.Now().Add(maxWait); ; {
		c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}`)
		list := c.hear()
		if strings.Contains(list, strconv.Quote(tool)) == is {
			return
		}
		if time.Now().After(late) {
			c.t.Fatalf("the list did not change: %s", list)
		}
	}
}
