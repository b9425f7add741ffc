package host

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// policyOf reads a policy.
func policyOf(t *testing.T, text string) config.Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{Context: t.Context(), Flag: path, Policies: compile.Policy})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Policy
}

const askText = `
[[policy.rule]]
name = "asked"
tools = ["tools.*", "raw.pid"]
action = "ask"
`

// waysOfWaiting returns how the calls of a case wait: in one way, or in all with -long.
func waysOfWaiting(name string) []string {
	all := []string{byQueue, byForm, byResult}
	if *long {
		return all
	}
	return all[len(name)%len(all):][:1]
}

// TestChangesWhileACallWaits checks that a call which a person allows is not made if what the
// person was asked about has changed meanwhile, and that it is made if nothing has, however the
// person was asked.
func TestChangesWhileACallWaits(t *testing.T) {
	t.Parallel() // it mostly waits
	const direct, saved = `{"name":"raw__pid","arguments":{}}`, `{"name":"asked","arguments":{}}`
	script := `{"name":"eval_starlark","arguments":{"code":"return tools.asked()"}}`
	save := func(t *testing.T, h *Host, change func(*tools.Definition)) {
		def, err := h.shared.Get("asked")
		if err != nil {
			t.Fatal(err)
		}
		change(&def)
		if _, _, err := h.shared.Save(def); err != nil {
			t.Fatal(err)
		}
	}
	other := func(def *tools.Definition) { def.Code = "return 2" }
	limits := func(def *tools.Definition) { def.Limits.Calls = 7 }
	input := func(def *tools.Definition) { def.InputSchema = []byte(`{"type":"object","properties":{"x":{}}}`) }
	output := func(def *tools.Definition) { def.OutputSchema = []byte(`{"type":"integer"}`) }
	for name, c := range map[string]struct {
		call   string
		change func(t *testing.T, h *Host)
		want   string
	}{
		"nothing, direct":      {direct, func(*testing.T, *Host) {}, `"pid":`},
		"nothing, saved":       {saved, func(*testing.T, *Host) {}, `"result":1`},
		"nothing, script":      {script, func(*testing.T, *Host) {}, `"result":1`},
		"code":                 {saved, func(t *testing.T, h *Host) { save(t, h, other) }, `policy asks for the approval of tools.asked`},
		"code, for a script":   {script, func(t *testing.T, h *Host) { save(t, h, other) }, `policy asks for the approval of tools.asked`},
		"limits":               {saved, func(t *testing.T, h *Host) { save(t, h, limits) }, `policy asks for the approval of tools.asked`},
		"schema":               {saved, func(t *testing.T, h *Host) { save(t, h, input) }, `policy asks for the approval of tools.asked`},
		"schema, for a script": {script, func(t *testing.T, h *Host) { save(t, h, output) }, `policy asks for the approval of tools.asked`},
		"tool deleted":         {saved, func(t *testing.T, h *Host) { _ = h.shared.Delete("asked") }, `policy asks for the approval of tools.asked`},
		"policy denies":        {direct, func(t *testing.T, h *Host) { repolicy(t, h, strings.Replace(askText, `"ask"`, `"deny"`, 1)) }, `policy denies raw.pid`},
		"policy denies saved":  {saved, func(t *testing.T, h *Host) { repolicy(t, h, strings.Replace(askText, `"ask"`, `"deny"`, 1)) }, `policy denies tools.asked`},
		"another rule asks":    {direct, func(t *testing.T, h *Host) { repolicy(t, h, strings.Replace(askText, `"asked"`, `"other"`, 1)) }, `policy asks for the approval of raw.pid`},
		"hidden": {direct, func(t *testing.T, h *Host) {
			reload(t, h, func(cfg *config.Config) { cfg.Upstreams[0].Hide = []string{"pid"} })
		}, `may not be called`},
		"server removed":  {direct, func(t *testing.T, h *Host) { reload(t, h, func(cfg *config.Config) { cfg.Upstreams = nil }) }, `was replaced|may not be called`},
		"server replaced": {direct, func(t *testing.T, h *Host) { reload(t, h, func(cfg *config.Config) { another(&cfg.Upstreams[0]) }) }, `was replaced`},
	} {
		for _, by := range waysOfWaiting(name) {
			t.Run(name+", by "+by, func(t *testing.T) {
				t.Parallel()
				cfg := testConfig(t, upstreamOf("raw", "raw"))
				cfg.Policy = policyOf(t, askText)
				cfg.Approval = config.Approval{By: config.ApprovalByQueue, Wait: config.ApprovalHold, Timeout: time.Minute, MaxWaiting: 9}
				if by != byQueue {
					cfg.Approval.By = config.ApprovalByClient
				}
				cfg.InputTimeout, cfg.Journal.MaxAge = time.Minute, time.Minute
				h, _ := startHostFor(t, cfg, OneClient)
				w := &waitingCall{t: t, host: h, by: by, agent: dialBare(t, h)}
				if by != byResult {
					w.agent.initialize(`{"elicitation":{}}`)
				}
				w.call(1, `{"name":"save_tool","arguments":{"name":"asked","description":"d","inputSchema":{"type":"object"},"code":"return 1"}}`)
				if got := w.agent.answerTo("1"); !strings.Contains(got, "created") {
					t.Fatalf("save_tool: %s", got)
				}
				w.begin(c.call)
				c.change(t, h)
				got := w.allow()
				want := c.want
				if by == byResult && c.call == script && strings.Contains(want, "asks for") { // the run continues from its journal
					want = "what the client was asked to approve of server \\\"tools\\\" was changed meanwhile"
				}
				if !containsAny(got, strings.Split(want, "|")) {
					t.Errorf("want %s: %s", want, got)
				}
			})
		}
	}
}

// How a person is asked about a waitingCall.
const (
	byQueue  = "queue"
	byForm   = "form"   // by a request of the handshake era
	byResult = "result" // by a result of the stateless era
)

// waitingCall is a call of a client that waits for a person.
type waitingCall struct {
	t     *testing.T
	host  *Host
	by    string
	agent *client
	made  string // the params of the call
	id    string // of the approval, or of the request that asks
	more  string // members of the request that answers
}

// call sends a call of a tool with an id.
func (w *waitingCall) call(id int, params string) {
	w.t.Helper()
	more := w.more
	if w.by == byResult {
		more += `,"_meta":` + clienttest.Envelope
	}
	w.agent.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s%s}}`, id, strings.TrimSuffix(params, "}"), more))
}

var asksByResult = regexp.MustCompile(`"inputRequests":\{"(\w+)":.*"requestState":("[^"]+")`)

// begin makes a call, and returns when it waits.
func (w *waitingCall) begin(params string) {
	w.t.Helper()
	w.made = params
	w.call(2, params)
	switch w.by {
	case byQueue:
		w.id = nextWaiting(w.t, w.host)
	case byForm:
		for w.id == "" {
			if got := w.agent.hear(); strings.Contains(got, `"method":"elicitation/create"`) {
				id, _ := wire.Get([]byte(got), "id")
				w.id = string(id)
			}
		}
	case byResult:
		got := w.agent.answerTo("2")
		found := asksByResult.FindStringSubmatch(got)
		if found == nil {
			w.t.Fatalf("nobody is asked: %s", got)
		}
		w.more = fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"decision":"allow once"}}},"requestState":%s`, found[1], found[2])
	}
}

// allow allows the call, and returns its answer.
func (w *waitingCall) allow() string {
	w.t.Helper()
	switch w.by {
	case byQueue:
		if _, err := w.host.approvals.Decide(w.t.Context(), w.id, approval.Verdict{Allow: true, By: "me"}, approval.HowQueue, 0); err != nil {
			w.t.Fatal(err)
		}
	case byForm:
		w.agent.say(`{"jsonrpc":"2.0","id":` + w.id + `,"result":{"action":"accept","content":{"decision":"allow once"}}}`)
	case byResult:
		w.call(3, w.made)
		return w.agent.answerTo("3")
	}
	return w.agent.answerTo("2")
}

func containsAny(text string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// repolicy changes the policy of a running Host.
func repolicy(t *testing.T, h *Host, text string) {
	reload(t, h, func(cfg *config.Config) { cfg.Policy = policyOf(t, text) })
}

// nextWaiting waits until a call waits in the queue of a Host, and returns its id.
func nextWaiting(t *testing.T, h *Host) (id string) {
	t.Helper()
	awaitQueue(t, h.config().Store.Dir, h.approvals, "a call that waits", func(list []approval.Listed) bool {
		for _, e := range list {
			if e.State == approval.Open && e.Waits {
				id = e.ID
			}
		}
		return id != ""
	})
	return id
}

// answerTo returns the response with an id, past other messages.
func (c *client) answerTo(id string) string {
	for {
		got := c.hear()
		of, _ := wire.Get([]byte(got), "id")
		if _, request := wire.Get([]byte(got), "method"); string(of) == id && !request {
			return got
		}
	}
}
