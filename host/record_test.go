package host

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// journaled is testConfig with a journal that has the default settings.
func journaled(t testing.TB, upstreams ...config.Upstream) *config.Config {
	cfg := testConfig(t, upstreams...)
	cfg.Journal = config.Journal{Enabled: true, Proxied: config.ProxiedSummary, Sync: config.SyncNever}
	return cfg
}

func runsIn(t *testing.T, cfg *config.Config) []journal.Record {
	t.Helper()
	var all []journal.Record
	for rec, err := range journal.Scan(t.Context(), cfg.JournalDir(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

func proxiedIn(t *testing.T, cfg *config.Config) []journal.Proxied {
	t.Helper()
	var all []journal.Proxied
	for p, err := range journal.ScanProxied(t.Context(), cfg.JournalDir(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// TestJournal checks that runs are in the journal before their results are returned,
// with their client, and that proxied calls are recorded as the current configuration
// says.
func TestJournal(t *testing.T) {
	t.Parallel()
	cfg := journaled(t, upstreamOf("raw", "raw"))
	h, _ := startHost(t, cfg)
	c := dial(t, h)
	result := c.call("eval_starlark", `{"code":"raw.text(text='hello')\nprint('noted')\nreturn params.n","params":{"n":7}}`)
	run, _ := wire.GetString([]byte(result), "_meta", "io.github.mcp-metatool/receipt", "run")
	runs := runsIn(t, cfg)
	if len(runs) != 1 || runs[0].ID != run || !runs[0].Done {
		t.Fatalf("%s\n%+v", result, runs)
	}
	r := runs[0]
	if r.Client.Name != "t" || r.Client.Session == "" || string(r.Params) != `{"n":7}` || string(r.Outcome.Result) != "7" ||
		len(r.Calls) != 1 || r.Calls[0].Server != "raw" || !strings.Contains(string(r.Calls[0].Answer.Result), "hello") || r.Logs[0].Text != "noted" {
		t.Errorf("%+v", r)
	}
	if list := c.call("list_runs", `{}`); !strings.Contains(list, run) {
		t.Errorf("list_runs: %s", list)
	}
	if other := dial(t, h).call("list_runs", `{}`); strings.Contains(other, run) {
		t.Errorf("another session's list_runs: %s", other)
	}

	c.call("raw__text", `{"text":"passed on"}`)
	got := proxiedIn(t, cfg)
	if len(got) != 1 || got[0].Client != r.Client || got[0].Server != "raw" || got[0].Tool != "text" || got[0].Outcome != journal.OK ||
		got[0].Duration <= 0 || got[0].Sent == 0 || got[0].Received == 0 || got[0].Params != nil {
		t.Errorf("%+v", got)
	}
	changes := reload(t, h, func(cfg *config.Config) {
		cfg.Journal.Proxied = config.ProxiedFull
		cfg.Journal.Redact = []*regexp.Regexp{regexp.MustCompile("n[u]mber [0-9]+")}
		cfg.Secrets = []string{"new-secret"}
		cfg.Journal.Dir = t.TempDir()
	})
	if s := strings.Join(changes.Lines(), "\n"); s != "journal.redact: changed\njournal.proxied: changed\njournal.dir: needs a restart" {
		t.Errorf("changes: %s", s)
	}
	c.call("raw__text", `{"text":"it is new-secret, number 12"}`)
	got = proxiedIn(t, cfg)
	if len(got) != 2 || !strings.Contains(string(got[0].Params), "it is ****, ****") || !strings.Contains(string(got[0].Result), "it is ****, ****") || !got[0].Redacted {
		t.Errorf("%+v", got)
	}
	reload(t, h, func(cfg *config.Config) { cfg.Journal.Proxied = config.ProxiedOff })
	c.call("raw__text", `{"text":"unseen"}`)
	if got := proxiedIn(t, cfg); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestCancelledProxiedCall checks that the record of a cancelled call has no answer.
// The reply to such a call is not the upstream's.
func TestCancelledProxiedCall(t *testing.T) {
	t.Parallel()
	cfg := journaled(t, upstreamOf("raw", "raw"))
	cfg.Journal.Proxied = config.ProxiedFull
	h, _ := startHost(t, cfg)
	c := dial(t, h)
	c.call("raw__text", `{"text":"warm"}`)
	c.say(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"raw__hang","_meta":{"progressToken":1}}}`)
	c.hear() // progress
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`)
	got := proxiedIn(t, cfg)
	for len(got) < 2 {
		c.request("2", "ping", `{}`)
		got = proxiedIn(t, cfg)
	}
	if p := got[0]; p.Tool != "hang" || p.Outcome != "cancelled" || p.Sent == 0 || p.Params == nil || p.Received != 0 || p.Result != nil || p.RPCError != nil {
		t.Errorf("%+v", p)
	}
}

// TestJournalHasWhatWasSent checks that the recorded params are those that the server
// got, not those that the client sent.
func TestJournalHasWhatWasSent(t *testing.T) {
	t.Parallel()
	cfg := journaled(t, upstreamOf("raw", "raw"))
	cfg.Journal.Proxied = config.ProxiedFull
	h, _ := startHost(t, cfg)
	c := dial(t, h)
	for i, params := range []string{
		`{"name":"raw__mirror","arguments":{"name":"raw__mirror"}}`,
		`{"x":1.0, "name":"raw__m\u0069rror","arguments":null,"_meta":{"k":1,"progressToken":{}}}`,
		`{"name":"raw__mirror","_meta":{"k":1,"progressToken":"p"}}`,
	} {
		reply := []byte(c.request("1", "tools/call", params))
		received, ok := wire.Get(reply, "result", "received")
		if !ok {
			t.Fatalf("%s: %s", params, reply)
		}
		got := proxiedIn(t, cfg)
		for len(got) <= i {
			c.request("2", "ping", `{}`)
			got = proxiedIn(t, cfg)
		}
		if string(got[0].Params) != string(received) || got[0].Sent != len(received) {
			t.Errorf("%s\nrecorded  %s\nreceived  %s", params, got[0].Params, received)
		}
	}
}

// TestJournalOff checks that nothing is written, and that list_runs is not offered.
func TestJournalOff(t *testing.T) {
	t.Parallel()
	cfg := journaled(t)
	cfg.Journal.Enabled = false
	h, _ := startHost(t, cfg)
	c := dial(t, h)
	c.call("eval_starlark", `{"code":"return 1"}`)
	if _, err := os.Stat(cfg.JournalDir()); !os.IsNotExist(err) {
		t.Errorf("the journal is there: %v", err)
	}
	if list := c.request("1", "tools/list", `{}`); strings.Contains(list, "list_runs") {
		t.Error("list_runs is there")
	}
}

// TestJournalTrouble checks that clients that listen are told once that calls are not
// recorded, and that runs are refused if the journal is required.
func TestJournalTrouble(t *testing.T) {
	t.Parallel()
	cfg := journaled(t, upstreamOf("raw", "raw"))
	cfg.Journal.Dir = filepath.Join(cfg.Store.Dir, "file")
	if err := os.WriteFile(cfg.Journal.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, log := startHost(t, cfg)
	deaf, c := dial(t, h), dial(t, h)
	c.request("1", "logging/setLevel", `{"level":"warning"}`)
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"eval_starlark","arguments":{"code":"return 1"}}}`)
	if got := c.hear(); !strings.Contains(got, `"method":"notifications/message"`) || !strings.Contains(got, `"level":"error"`) ||
		!strings.Contains(got, "calls are not recorded") || !strings.Contains(got, cfg.Journal.Dir) {
		t.Errorf("told %s", got)
	}
	if got := c.hear(); !strings.Contains(got, `"result":1`) {
		t.Errorf("not required, and yet: %s", got)
	}
	c.call("raw__text", `{"text":"no more messages"}`)
	if got := deaf.call("eval_starlark", `{"code":"return 2"}`); !strings.Contains(got, `"result":2`) {
		t.Errorf("to a session that did not ask: %s", got)
	}
	if n := strings.Count(log.String(), "the journal cannot be written to"); n != 1 {
		t.Errorf("%d entries in the log", n)
	}

	reload(t, h, func(cfg *config.Config) { cfg.Journal.Required = true })
	got := c.call("eval_starlark", `{"code":"return 3"}`)
	if want := fmt.Sprintf("eval_starlark was not run: the journal in %s cannot be written to", cfg.Journal.Dir); !strings.Contains(got, want) || !strings.Contains(got, `"isError":true`) {
		t.Errorf("got %s, want %s", got, want)
	}
}
