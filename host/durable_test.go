package host

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// newDurableProcess is newTaskProcess with a durable tool.
func newDurableProcess(t *testing.T, dir string, change ...func(*config.Config)) taskProcess {
	p := taskProcess{newCrossing(t, func(cfg *config.Config) {
		cfg.Store.Dir, cfg.Execution.TaskAfter, cfg.HTTP.Tokens = dir, time.Millisecond, bearerTokens("one-token", "other-token")
		cfg.Durable.Idempotent = []string{"up.t"}
		for _, c := range change {
			c(cfg)
		}
	})}
	_, _, err := p.host.shared.Save(tools.Definition{
		Name: "job", Description: "x", InputSchema: []byte(`{"type":"object"}`), Durability: tools.Durability{Durable: true},
		Code: "a = up.t(n=1, of=params.of)\nreturn a + up.t(n=2, of=params.of)",
	})
	if err != nil {
		t.Fatal(err)
	}
	p.host.refresh(p.host.shared)
	return p
}

// TestDurableTasks checks that the tasks of durable runs go on in another process, and that they
// can be cancelled there.
func TestDurableTasks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := newDurableProcess(t, dir)
	ids := map[string]string{}
	for _, of := range []string{"ends", "cancelled"} {
		text := first.read(first.open("one-token", "tools/call", "job", `"name":"job","arguments":{"of":"`+of+`"}`), `"id":1`)
		id, ok := wire.GetString([]byte(text), "result", "taskId")
		if !ok {
			t.Fatal(text)
		}
		ids[of] = id
		first.answer("tools/call", `{"content":[{"type":"text","text":"one "}]}`)
		first.next("tools/call")
	}
	if err := first.host.durable.close(t.Context()); err != nil { // as at the end of the process
		t.Fatal(err)
	}
	second := newDurableProcess(t, dir)
	if got := second.about("other-token", "tasks/get", ids["ends"], ""); !strings.Contains(got, "there is no such task") {
		t.Errorf("another principal gets %s", got)
	}
	calls := [][]byte{second.next("tools/call"), second.next("tools/call")} // only those that were not answered
	for _, call := range calls {
		if n, _ := wire.Get(call, "params", "arguments", "n"); string(n) != "2" {
			t.Errorf("called %s", call)
		}
		of, _ := wire.GetString(call, "params", "arguments", "of")
		if got := second.about("one-token", "tasks/get", ids[of], ""); !strings.Contains(got, `"status":"working"`) {
			t.Errorf("%s: %s", of, got)
		}
		if of == "cancelled" {
			second.about("one-token", "tasks/cancel", ids[of], "")
			second.next("notifications/cancelled")
			continue
		}
		id, _ := wire.Get(call, "id")
		second.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"two"}]}}`, id)
	}
	second.await(ids["ends"], `"status":"completed"`, `"text":"one two"`)
	second.await(ids["cancelled"], `"status":"cancelled"`, "cancelled by its id")
}

// await waits until a task has a status, and then expects a text in it.
func (p taskProcess) await(id, status, text string) {
	p.t.Helper()
	p.awaitFor("one-token", id, status, text)
}

func (p taskProcess) awaitFor(token, id, status, text string) {
	p.t.Helper()
	for deadline := time.Now().Add(maxWait); ; time.Sleep(20 * time.Millisecond) {
		got := p.about(token, "tasks/get", id, "")
		if strings.Contains(got, status) {
			if !strings.Contains(got, text) {
				p.t.Errorf("%s", got)
			}
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the task does not get %s: %s", status, got)
		}
	}
}

// TestDurableTaskWithoutRecord checks that a task is found by the log of its run where the journal
// has no record of it, as on another machine.
func TestDurableTaskWithoutRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := newDurableProcess(t, dir)
	text := first.read(first.open("one-token", "tools/call", "job", `"name":"job","arguments":{"of":"x"}`), `"id":1`)
	id, ok := wire.GetString([]byte(text), "result", "taskId")
	if !ok {
		t.Fatal(text)
	}
	first.answer("tools/call", `{"content":[{"type":"text","text":"one "}]}`)
	first.next("tools/call")
	second := newDurableProcess(t, dir, func(cfg *config.Config) { cfg.Journal.Dir = t.TempDir() })
	if got := second.about("one-token", "tasks/get", id, ""); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("in another process: %s", got)
	}
}

// TestAbsentClients checks with which rights a durable run of a client that has gone goes on.
func TestAbsentClients(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	narrow := bearer.Token{Digest: bearer.DigestOf("narrow"), Name: "ci", Rights: bearer.Rights{Hide: []string{"up.*"}}}
	expired := bearer.Token{Digest: bearer.DigestOf("expired"), Expires: time.Now().Add(-time.Hour)}
	cfg.HTTP.Tokens = []bearer.Token{narrow, expired}
	over, _ := startHostFor(t, cfg, ManyClients)
	local, _ := startHostFor(t, testConfig(t), OneClient)
	state := func(digest bearer.Digest) *durable.State {
		return &durable.State{About: durable.About{Principal: digest.Principal(), Token: "ci"}}
	}
	s, err := over.absent(state(narrow.Digest))
	if err != nil || !s.Rights().Hides("up", "t") || s.TokenName() != "ci" {
		t.Errorf("%+v, %v", s, err)
	}
	for name, digest := range map[string]bearer.Digest{"expired": expired.Digest, "unknown": bearer.DigestOf("x")} {
		if _, err := over.absent(state(digest)); err == nil {
			t.Errorf("a run of a client with an %s token goes on", name)
		}
	}
	if _, err := local.absent(state(narrow.Digest)); err == nil {
		t.Error("a run of a client with a token goes on in a process without tokens")
	}
	for _, h := range []*Host{over, local} {
		if s, err := h.absent(state(bearer.Digest{})); err != nil || s.Rights().Narrows() {
			t.Errorf("a run of a client without a token: %v", err)
		}
	}
}
