package host

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestTasksAfterReload checks that tasks go on after a reload of the configuration, and keep
// their ids and those who watch them: a run that waits for a call whose tool is hidden now, and
// one that has asked something.
func TestTasksAfterReload(t *testing.T) {
	t.Parallel()
	p := newTaskProcess(t, t.TempDir())
	asks, asked := p.task("a = up.t(n=1)\nreturn a")
	p.next("tools/call")
	p.ask("name?")
	p.read(asked, `"status":"input_required"`)
	for range 2 { // the call is cancelled, and the question is answered with an error
		if _, err := p.in.Read(); err != nil {
			t.Fatal(err)
		}
	}
	waits, changes := p.task("return up.t(n=2)")
	call := p.next("tools/call")
	reload(t, p.host, func(cfg *config.Config) { cfg.Journal.MaxAge += time.Hour })
	if got := p.about("one-token", "tasks/update", asks, `,"inputResponses":{"1.question1":{"action":"accept","content":{"n":1}}}`); !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("answered: %s", got)
	}
	again := p.next("tools/call")
	reload(t, p.host, func(cfg *config.Config) { cfg.Upstreams[0].Hide = []string{"t"} })
	for _, one := range []struct {
		call    []byte
		id      string
		changes interface {
			Scan() bool
			Text() string
		}
		text string
	}{{call, waits, changes, "two"}, {again, asks, asked, "one"}} {
		id, _ := wire.Get(one.call, "id")
		p.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, one.text)
		for seen := ""; !strings.Contains(seen, `"status":"completed"`); seen = one.changes.Text() {
			if !one.changes.Scan() {
				t.Fatalf("%s: the end is not announced", one.text)
			}
		}
		if got := p.about("one-token", "tasks/get", one.id, ""); !strings.Contains(got, `"status":"completed"`) || !strings.Contains(got, `"text":"`+one.text+`"`) {
			t.Errorf("%s: %s", one.text, got)
		}
	}
}

// TestServerTasksAfterReload checks that a task that a server has made is found after a reload
// that hides its tool.
func TestServerTasksAfterReload(t *testing.T) {
	t.Parallel()
	server := mcptest.NewServer(mcptest.ServerOptions{Eras: mcptest.EraModern})
	cfg := testConfig(t, config.Upstream{
		Name: "raw", URL: listenHTTP(t, server, server.HTTP()), Transport: config.StreamableHTTP, Timeout: maxWait, MaxTimeout: maxWait,
		Restart: config.RestartAlways, Isolation: config.Shared, Start: config.Eager,
	})
	cfg.HTTP.Tokens = bearerTokens("one-token")
	proxy := serveProxy(t, combination{config.StreamableHTTP, config.StreamableHTTP}, server.Received, cfg)
	p := taskProcess{&crossing{t: t, url: proxy.url, host: proxy.host}}
	made := p.read(p.open("one-token", "tools/call", "task", `"name":"task","arguments":{}`), `"id":1`)
	id, ok := wire.GetString([]byte(made), "result", "taskId")
	if !ok {
		t.Fatal(made)
	}
	p.about("one-token", "tasks/get", id, "")
	e, _, err := server.Received.Find(mcptest.Bounded(t), "tasks/get", 0, mcptest.Method("tasks/get"))
	if err != nil {
		t.Fatal(err)
	}
	own, _ := wire.GetString(e.Msg.Params, "taskId")
	reload(t, p.host, func(cfg *config.Config) {
		cfg.Journal.MaxAge += time.Hour
		cfg.Upstreams[0].Hide = []string{"task"}
	})
	server.SetTask(own, `"status":"completed","result":{"content":[],"n":1.0}`)
	if got := p.about("one-token", "tasks/get", id, ""); !strings.Contains(got, `"result":{"content":[],"n":1.0}`) {
		t.Error(got)
	}
}
