package host

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// taskMeta is the envelope of a request of a client that knows tasks.
const taskMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
	`{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// taskProcess is one of several processes with the same store: a proxy with HTTP clients,
// and a server that the test plays.
type taskProcess struct {
	*crossing
}

func newTaskProcess(t *testing.T, dir string) taskProcess {
	return taskProcess{newCrossing(t, func(cfg *config.Config) { setTaskProcess(cfg, dir) })}
}

func setTaskProcess(cfg *config.Config, dir string) {
	cfg.Store.Dir, cfg.Execution.TaskAfter, cfg.HTTP.Tokens = dir, time.Millisecond, bearerTokens("one-token", "other-token")
}

// open makes a request and returns the messages of its answer.
func (p taskProcess) open(token, method, name, params string) *bufio.Scanner {
	p.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":%s}}`, method, params, taskMeta)
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	timer := time.AfterFunc(maxWait, func() { resp.Body.Close() })
	p.t.Cleanup(func() {
		timer.Stop()
		resp.Body.Close()
	})
	messages := bufio.NewScanner(resp.Body)
	messages.Buffer(nil, 1<<20)
	return messages
}

// read returns the next message with a text in it.
func (p taskProcess) read(messages *bufio.Scanner, part string) string {
	p.t.Helper()
	for messages.Scan() {
		if text := strings.TrimPrefix(messages.Text(), "data: "); strings.HasPrefix(text, "{") && strings.Contains(text, part) {
			return text
		}
	}
	p.t.Fatalf("no %s: %v", part, messages.Err())
	return ""
}

// task calls a script and returns the id of its task, and a subscription to it.
func (p taskProcess) task(code string) (id string, changes *bufio.Scanner) {
	p.t.Helper()
	text := p.read(p.open("one-token", "tools/call", "eval_starlark", fmt.Sprintf(`"name":"eval_starlark","arguments":{"code":%q}`, code)), `"id":1`)
	id, ok := wire.GetString([]byte(text), "result", "taskId")
	if !ok {
		p.t.Fatal(text)
	}
	return id, p.listen(id)
}

func (p taskProcess) listen(id string) *bufio.Scanner {
	p.t.Helper()
	changes := p.open("one-token", "subscriptions/listen", "", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, id))
	p.read(changes, `"taskIds":["`+id+`"]`)
	return changes
}

// about makes a request about a task.
func (p taskProcess) about(token, method, id, more string) string {
	p.t.Helper()
	return p.read(p.open(token, method, id, fmt.Sprintf(`"taskId":%q%s`, id, more)), `"id":1`)
}

// TestTasksAfterRestart checks that the tasks of a process are there in another one with
// the same store: for the same credentials, and with what they have asked.
func TestTasksAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := newTaskProcess(t, dir), newTaskProcess(t, dir)
	testTasksElsewhere(t, first, second, func() {})
	runs, _ := first.task("return up.t(n=4)")
	first.next("tools/call")
	if got := second.about("one-token", "tasks/get", runs, ""); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("it runs in another process: %s", got)
	}
}

// testTasksElsewhere checks that a second process knows the outcome of the tasks of a first process,
// and continues the tasks with open questions. It calls gone after the last use of the first
// process.
func testTasksElsewhere(t *testing.T, first, second taskProcess, gone func()) {
	ended, changes := first.task("return up.t(n=1)")
	first.answer("tools/call", `{"content":[{"type":"text","text":"the end"}]}`)
	first.read(changes, `"status":"completed"`)

	asks, changes := first.task("a = up.t(n=2)\nreturn a + up.t(n=3)")
	first.answer("tools/call", `{"content":[{"type":"text","text":"two "}]}`)
	first.next("tools/call")
	first.ask("name?")
	first.read(changes, `"status":"input_required"`)
	for range 2 { // the call is cancelled, and the question is answered with an error
		if raw, err := first.in.Read(); err != nil || !strings.Contains(string(raw), "the run ended to ask the client something") && !strings.Contains(string(raw), "notifications/cancelled") {
			t.Fatalf("%s %v", raw, err)
		}
	}

	gone()
	if got := second.about("one-token", "tasks/get", asks, ""); !strings.Contains(got, `"inputRequests":{"1.question1":{"method":"elicitation/create","params":{"message":"name?"`) {
		t.Errorf("%s", got)
	}
	for _, id := range []string{ended, asks} {
		if got := second.about("other-token", "tasks/get", id, ""); !strings.Contains(got, `{"code":-32602,"message":"tasks/get: there is no such task"}`) {
			t.Errorf("another principal gets %s", got)
		}
	}
	changes = second.listen(asks)
	if got := second.about("one-token", "tasks/update", asks, `,"inputResponses":{"1.question1":{"action":"accept","content":{"n":1}}}`); !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("%s", got)
	}
	call := second.next("tools/call") // only the one that was not answered
	id, _ := wire.Get(call, "id")
	if !strings.Contains(string(call), `"n":3`) {
		t.Errorf("called %s", call)
	}
	second.ask("name?")
	if got := string(second.next("name?")); !strings.Contains(got, `"content":{"n":1}`) {
		t.Errorf("the server gets %s", got)
	}
	second.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"three"}]}}`, id)
	if got := second.read(changes, `"status":"completed"`); !strings.Contains(got, `"text":"two three"`) {
		t.Errorf("%s", got)
	}
	if got := second.about("one-token", "tasks/get", ended, ""); !strings.Contains(got, `"text":"the end"`) {
		t.Errorf("%s", got)
	}
}
