package host

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

const flowLeak = "m = mail.list()\nprint(m)\nchat.post({'text': m.mails[0].body})\nreturn 1"

// TestFlowDenial checks a leak between real servers: the call is not made, and nothing of the run
// is in what the agent gets of it, now or later.
func TestFlowDenial(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := dial(t, h.Host)
	got := c.eval(flowLeak)
	if !strings.Contains(got, `"type":"permission"`) || !strings.Contains(got, `"reason":"flow"`) || len(h.calls("chat.post")) != 0 {
		t.Fatalf("%s\n%q", got, h.calls("chat.post"))
	}
	run, _ := wire.GetString([]byte(got), "_meta", "io.github.mcp-metatool/receipt", "run")
	shown := c.call("show_run", fmt.Sprintf(`{"run":%q}`, run))
	for what, text := range map[string]string{
		"reply": got, "show_run": shown, "a call": c.call("show_run", fmt.Sprintf(`{"run":%q,"call":"1"}`, run)),
		"the log": c.call("show_run", fmt.Sprintf(`{"run":%q,"log":1}`, run)), "list_runs": c.call("list_runs", `{}`),
	} {
		if strings.Contains(text, flowSecret) {
			t.Errorf("%s has the secret: %s", what, text)
		}
		for _, figure := range []string{`"fuel"`, `"memory"`, `"executionTime"`, `"duration"`} {
			if strings.Contains(text, figure) {
				t.Errorf("%s has %s: %s", what, figure, text)
			}
		}
	}
	if !strings.Contains(shown, "withheld") {
		t.Errorf("show_run says %s", shown)
	}
	// The journal, which the user of the program reads, has everything.
	found := false
	for rec, err := range journal.Scan(t.Context(), h.cfg.JournalDir(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || rec.Flows(journal.FlowDeny) && strings.Contains(string(rec.Calls[0].Answer.Value), flowSecret)
	}
	if !found {
		t.Error("the journal does not have the denial")
	}
}

// TestFlowResults checks the labels of results, and that a public one has no figures of the run.
func TestFlowResults(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := dial(t, h.Host)
	if got := c.eval("return notes.get({})"); strings.Contains(got, `"ifc"`) {
		t.Errorf("without labels: %s", got)
	}
	got := c.eval("m = mail.list()\nreturn m")
	if !strings.Contains(got, `"confidentiality":"private"`) || !strings.Contains(got, flowSecret) {
		t.Errorf("private: %s", got)
	}
	got = c.eval("m = mail.list()\nchat.post({'text': 'x'})\nreturn 'ok'")
	if !strings.Contains(got, `"confidentiality":"public"`) || strings.Contains(got, flowSecret) || strings.Contains(got, `"fuel"`) || strings.Contains(got, "toolCalls") {
		t.Errorf("public: %s", got)
	}
	shown := c.call("show_run", `{}`) // it has the answer, and says so
	if !strings.Contains(shown, flowSecret) || !strings.Contains(shown, `"confidentiality":"private"`) {
		t.Errorf("show_run: %s", shown)
	}
}

// flowPolicy denies what reaches chat in a session that was given private answers.
func flowPolicy(t *testing.T, action policy.Action) config.Policy {
	return flowPolicyWhen(t, action, "session.private")
}

func flowPolicyWhen(t *testing.T, action policy.Action, when string) config.Policy {
	t.Helper()
	cfg, _, err := config.Parse(config.LoadOptions{Getenv: noVariables, Policies: compile.Policy}, "config.toml", fmt.Appendf(nil, `
[[policy.rule]]
name = "no mixing"
tools = ["chat.*"]
when = %q
action = %q
[upstream.mail]
command = "x"
[upstream.chat]
command = "x"
`, when, action))
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Policy
}

func noVariables(string) (string, bool) { return "", false }

// TestFlowSessions checks that what a session was given by a direct call, by a result and by
// show_run counts in policy.
func TestFlowSessions(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(c *client){
		"a direct call": func(c *client) { c.call("mail__list", `{}`) },
		"a result":      func(c *client) { c.eval("return mail.list()") },
		"show_run": func(c *client) {
			c.eval("m = mail.list()\nchat.post({'text': 'x'})\nreturn 'ok'")
			c.call("show_run", `{}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, func(cfg *config.Config) { cfg.Policy = flowPolicy(t, policy.Deny) })
			c := dial(t, h.Host)
			if got := c.call("chat__post", `{"text":"before"}`); strings.Contains(got, "isError\":true") {
				t.Fatalf("before: %s", got)
			}
			give(c)
			if got := c.call("chat__post", `{"text":"after"}`); !strings.Contains(got, "no mixing") {
				t.Errorf("after: %s", got)
			}
			if got := c.eval("chat.post({'text': 'after'})"); !strings.Contains(got, "no mixing") {
				t.Errorf("after, by a script: %s", got)
			}
		})
	}
}

// TestFlowSavedTools checks that a tool has the labels of the session that saves it, so that it
// can send nothing in another one, until a person has looked at it.
func TestFlowSavedTools(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	save := func(c *client, name string) string {
		return c.call("save_tool", fmt.Sprintf(`{"name":%q,"description":"d","inputSchema":{"type":"object"},"code":"return chat.post({'text': 'x'})"}`, name))
	}
	c := dial(t, h.Host)
	if got := save(c, "before"); strings.Contains(got, `"labels"`) {
		t.Errorf("before: %s", got)
	}
	c.call("mail__list", `{}`)
	if got := save(c, "after"); !strings.Contains(got, `"labels":["private"]`) {
		t.Fatalf("after: %s", got)
	}
	other := dial(t, h.Host)
	if got := other.call("before", `{}`); strings.Contains(got, `"isError":true`) {
		t.Errorf("before: %s", got)
	}
	got := other.call("after", `{}`)
	if !strings.Contains(got, `"type":"permission"`) || len(h.calls("chat.post")) != 1 {
		t.Errorf("after: %s\n%q", got, h.calls("chat.post"))
	}
	if got := other.call("show_saved_tool", `{"name":"after"}`); !strings.Contains(got, `"confidentiality":"private"`) {
		t.Errorf("show_saved_tool: %s", got)
	}
}

// TestFlowAcrossRuns checks that a server which was given a secret has its label in a later
// process.
func TestFlowAcrossRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHouse(t, func(cfg *config.Config) { cfg.Store.Dir = dir })
	c := dial(t, h.Host)
	if got := c.eval("m = mail.list()\nnotes.set({'v': m.mails[0].body})\nreturn 1"); strings.Contains(got, `"isError":true`) {
		t.Fatal(got)
	}
	later := newHouse(t, func(cfg *config.Config) { cfg.Store.Dir = dir })
	c = dial(t, later.Host)
	if got := c.eval("n = notes.get()\nchat.post({'text': n.note})\nreturn 1"); !strings.Contains(got, `"type":"permission"`) {
		t.Errorf("later: %s", got)
	}
	if had, err := later.flow.servers.Remove(t.Context(), "notes"); !had || err != nil {
		t.Fatal(had, err)
	}
	if got := c.eval("n = notes.get()\nchat.post({'text': n.note})\nreturn 1"); strings.Contains(got, `"isError":true`) {
		t.Errorf("after the label was removed: %s", got)
	}
}

// TestFlowAsksPerson checks action "ask" with the queue of approvals.
func TestFlowAsksPerson(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(cfg *config.Config) {
		cfg.Flow.Action = flow.Ask
		cfg.Approval = config.Approval{By: config.ApprovalByQueue, Wait: config.ApprovalHold, Timeout: time.Minute, MaxWaiting: 9}
	})
	queue := approval.OpenQueue(h.cfg.Store.Dir, slog.New(slog.DiscardHandler))
	defer queue.Close()
	c := dial(t, h.Host)
	for verdict, want := range map[string]int{"deny": 0, "allow": 1} {
		decided := make(chan struct{})
		go func() {
			defer close(decided)
			decideNext(t, h.cfg.Store.Dir, queue, verdict)
		}()
		got := c.eval(flowLeak)
		<-decided
		if n := len(h.calls("chat.post")); verdict == "allow" && n == 0 || verdict == "deny" && !strings.Contains(got, `"type":"permission"`) {
			t.Errorf("%s: %d calls, want %d: %s", verdict, n, want, got)
		}
		if verdict == "deny" && strings.Contains(got, flowSecret) {
			t.Errorf("%s: %s", verdict, got)
		}
	}
}

// TestFlowReload checks that a reload changes what is followed.
func TestFlowReload(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := dial(t, h.Host)
	next := *h.cfg
	next.Flow = nil
	if _, err := h.Reload(&next); err != nil {
		t.Fatal(err)
	}
	if got := c.eval(flowLeak); strings.Contains(got, `"isError":true`) {
		t.Errorf("without [flow]: %s", got)
	}
	if _, err := h.Reload(h.cfg); err != nil {
		t.Fatal(err)
	}
	if got := c.eval(flowLeak); !strings.Contains(got, `"type":"permission"`) {
		t.Errorf("with [flow]: %s", got)
	}
}
