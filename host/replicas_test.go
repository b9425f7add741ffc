package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// replicaWithServer starts a replica of the fleet with a store at url, with a server on stdio that the test
// plays.
func replicaWithServer(t *testing.T, url string) taskProcess {
	return taskProcess{newCrossing(t, func(cfg *config.Config) {
		cfg.Execution.TaskAfter, cfg.HTTP.Tokens = 50*time.Millisecond, bearerTokens("one-token", "other-token")
		cfg.Store.NATS, cfg.Store.Prefix, cfg.Store.Replicas = []string{url}, "f", 1
		cfg.Store.Keys = []sealed.Key{{ID: "1", Secret: [sealed.KeySize]byte{1}}}
		cfg.Store.PeerListen = config.DefaultPeerListen
	})}
}

// knows waits until a replica knows another one as wanted.
func (p taskProcess) knows(other *Host, wanted func(r fleet.Replica) bool) {
	p.t.Helper()
	news := make(chan struct{}, 1)
	defer p.host.fleet.OnChange(func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})()
	late := time.After(maxWait)
	for !wanted(p.host.fleet.Replica(other.fleet.ID())) {
		select {
		case <-news:
		case <-late:
			p.t.Fatalf("it knows %+v", p.host.fleet.Replica(other.fleet.ID()))
		}
	}
}

// askMeta is the envelope of a request of a client that does not know tasks.
var askMeta = strings.Replace(taskMeta, `,"extensions":{"io.modelcontextprotocol/tasks":{}}`, "", 1)

// call calls a tool. The channel gets the whole answer, or the error. more are further members of
// the params.
func (p taskProcess) call(ctx context.Context, token, tool, arguments, more string) <-chan string {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s%s,"_meta":{"progressToken":"p",%s}}`, tool, arguments, more, askMeta[1:])
	answer := make(chan string, 1)
	go func() {
		status, text := postCall(ctx, p.url, token, tool, body)
		answer <- status + " " + text
	}()
	return answer
}

// expect checks that an answer has these parts, and returns it.
func (p taskProcess) expect(what string, answer <-chan string, want ...string) (got string) {
	p.t.Helper()
	select {
	case got = <-answer:
	case <-time.After(maxWait):
		p.t.Fatalf("%s: no answer", what)
	}
	for _, part := range want {
		if !strings.Contains(got, part) {
			p.t.Errorf("%s: got %s, want %s", what, got, part)
		}
	}
	return got
}

// retry returns the members of a request that answers the question in an answer.
func (p taskProcess) retry(what string, answer <-chan string) string {
	p.t.Helper()
	got := p.expect(what, answer, `"resultType":"input_required"`)
	for line := range strings.Lines(got) { // it may be the last of several events
		if i := strings.Index(line, "{"); i >= 0 && strings.Contains(line, "input_required") {
			got = line[i:]
		}
	}
	requests, _ := wire.Get([]byte(got), "result", "inputRequests")
	all, _ := wire.Members(requests)
	state, ok := wire.GetString([]byte(got), "result", "requestState")
	if len(all) != 1 || !ok {
		p.t.Fatalf("%s: %s", what, got)
	}
	return fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"n":5}}},"requestState":%q`, all[0].Name, state)
}

// TestReplicasAnswer checks that a client of the stateless era can go on at another replica than
// that where it began: with calls that wait there for its answers, with questions of scripts, and
// with tasks. Each answer is used once. When that replica has ended, the other one says what is
// lost.
func TestReplicasAnswer(t *testing.T) {
	place := fleettest.New(t, *long)
	b := replicaWithServer(t, place.URL())
	var ended *Host
	var retry, task string
	t.Run("both", func(t *testing.T) {
		a := replicaWithServer(t, place.URL())
		b := taskProcess{&crossing{t: t, url: b.url, ln: b.ln, host: b.host, up: b.up, in: b.in}}
		ended = a.host
		a.knows(b.host, func(r fleet.Replica) bool { return r.Peer != "" })
		b.knows(a.host, func(r fleet.Replica) bool { return r.Peer != "" })
		heldAt(t, a, b)
		scriptAt(t, a, b)
		taskAt(t, a, b)
		tokenOf(t, a, b)
		session := a.beginSession("one-token", "secret client")
		nothingReadable(t, place, session, "secret client", "return [up.t(n=10)", "eleven", "the end", "who?", "up.t")
		answer := a.call(t.Context(), "one-token", "up__t", `{"n":80}`, "")
		a.next("tools/call")
		a.ask("when?")
		retry = a.retry("a call", answer)
		task, _ = a.task("return up.t(n=70)")
		a.next("tools/call")
	})
	if t.Failed() {
		return
	}
	b.knows(ended, func(r fleet.Replica) bool { return r.State == fleet.Gone })
	b.expect("a held call", b.call(t.Context(), "one-token", "up__t", `{"n":80}`, retry),
		"-32602", "the call waited for answers in replica "+ended.fleet.ID(), "which has ended: the call is lost", "begin again without requestState")
	// The run has ended with its server or its replica; the record of that may have reached the store.
	got := b.about("one-token", "tasks/get", task, "")
	if !slices.ContainsFunc([]string{"it closed its output", "the server is shutting down", "the run of this task was in replica " + ended.fleet.ID()},
		func(part string) bool { return strings.Contains(got, part) }) {
		t.Errorf("a task: %s", got)
	}
}

// heldAt lets a server of a ask in the middle of a call, and the client answer b.
func heldAt(t *testing.T, a, b taskProcess) {
	answer := a.call(t.Context(), "one-token", "up__t", `{"n":1}`, "")
	call := a.next("tools/call")
	a.ask("who?")
	retry := a.retry("a call", answer)
	// What the client of b says is for the same request of the same client only.
	b.expect("another client", b.call(t.Context(), "other-token", "up__t", `{"n":1}`, retry), "-32602", "requestState is not valid")
	b.expect("another request", b.call(t.Context(), "one-token", "up__t", `{"n":2}`, retry), "-32602", "requestState is not valid")
	answer = b.call(t.Context(), "one-token", "up__t", `{"n":1}`, retry)
	if got := string(a.next("who?")); !strings.Contains(got, `"content":{"n":5}`) {
		t.Errorf("the server gets %s", got)
	}
	token, _ := wire.Get(call, "params", "_meta", "progressToken")
	id, _ := wire.Get(call, "id")
	a.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"half"}}`, token)
	b.expect("while it is answered", b.call(t.Context(), "one-token", "up__t", `{"n":1}`, retry), "-32602", "requestState is not valid")
	a.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hello"}]}}`, id)
	b.expect("the answer", answer, "200 OK", `"progressToken":"p"`, `"message":"half"`, `"text":"hello"`)
	for _, at := range []taskProcess{a, b} {
		at.expect("again", at.call(t.Context(), "one-token", "up__t", `{"n":1}`, retry), "-32602", "requestState is not valid")
	}
	// The client goes away from b while it waits for the end of the call at a.
	answer = a.call(t.Context(), "one-token", "up__t", `{"n":3}`, "")
	id, _ = wire.Get(a.next("tools/call"), "id")
	a.ask("why?")
	retry = a.retry("a call", answer)
	ctx, leave := context.WithCancel(t.Context())
	answer = b.call(ctx, "one-token", "up__t", `{"n":3}`, retry)
	a.next("why?")
	leave()
	a.next("notifications/cancelled")
	a.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id) // late
	<-answer
}

// scriptAt lets a server of a ask in the middle of a script, and the client answer b.
func scriptAt(t *testing.T, a, b taskProcess) {
	code := `{"code":"return [up.t(n=10), up.t(n=11)]"}`
	answer := a.call(t.Context(), "one-token", "eval_starlark", code, "")
	a.answer("tools/call", `{"content":[{"type":"text","text":"ten"}]}`)
	asking, _ := wire.Get(a.next("tools/call"), "id")
	a.ask("who?")
	retry := a.retry("a script", answer)
	for range 2 { // the call is cancelled, and the question is answered with an error
		if raw, err := a.in.Read(); err != nil || !strings.Contains(string(raw), "the run ended to ask the client something") && !strings.Contains(string(raw), "notifications/cancelled") {
			t.Fatalf("%s %v", raw, err)
		}
	}
	a.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, asking) // late
	answers := make([]<-chan string, 4)                                 // at the same time, at both replicas
	for i := range answers {
		at := []taskProcess{a, b}[i%2]
		answers[i] = at.call(t.Context(), "one-token", "eval_starlark", code, retry)
	}
	id, _ := wire.Get(a.next("tools/call"), "id") // only the one that was not answered, once
	a.ask("who?")
	a.next("who?")
	a.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"eleven"}]}}`, id)
	used, refused := 0, 0
	for _, answer := range answers {
		switch got := b.expect("a script", answer); {
		case strings.Contains(got, `[\"ten\",\"eleven\"]`), strings.Contains(got, "eleven"):
			used++
		case strings.Contains(got, "answers are used once"):
			refused++
		default:
			t.Errorf("a script: %s", got)
		}
	}
	if used != 1 || refused != 3 {
		t.Errorf("%d answers were used, and %d refused", used, refused)
	}
}

// taskAt asks b about tasks of a.
func taskAt(t *testing.T, a, b taskProcess) {
	id, changes := a.task("return up.t(n=20)")
	call, _ := wire.Get(a.next("tools/call"), "id")
	if got := b.about("one-token", "tasks/get", id, ""); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("it runs: %s", got)
	}
	if got := b.about("other-token", "tasks/get", id, ""); !strings.Contains(got, "there is no such task") {
		t.Errorf("another client: %s", got)
	}
	atB := b.listen(id)
	a.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"the end"}]}}`, call)
	for _, heard := range []string{a.read(changes, `"status":"completed"`), b.read(atB, `"status":"completed"`)} {
		if !strings.Contains(heard, "the end") || !strings.Contains(heard, id) {
			t.Errorf("heard %s", heard)
		}
	}
	if got := b.about("one-token", "tasks/get", id, ""); !strings.Contains(got, `"status":"completed"`) || !strings.Contains(got, "the end") {
		t.Errorf("it has ended: %s", got)
	}
	id, _ = a.task("return up.t(n=21)")
	call, _ = wire.Get(a.next("tools/call"), "id")
	atB = b.listen(id)
	b.about("one-token", "tasks/cancel", id, "")
	a.next("notifications/cancelled")
	a.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, call) // late
	b.read(atB, `"status":"cancelled"`)
}

// tokenOf takes a token away from a only, which has what the client asks b for.
func tokenOf(t *testing.T, a, b taskProcess) {
	id, _ := a.task("return up.t(n=30)")
	call, _ := wire.Get(a.next("tools/call"), "id")
	a.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, call)
	all := *a.host.config()
	without := all
	without.HTTP.Tokens = bearerTokens("other-token")
	if _, err := a.host.Reload(&without); err != nil {
		t.Fatal(err)
	}
	if text := b.aboutText("one-token", "tasks/get", id); !strings.Contains(text, "a valid bearer token is required") {
		t.Errorf("a token that the replica with the task does not accept: %s", text)
	}
	if _, err := a.host.Reload(&all); err != nil {
		t.Fatal(err)
	}
}

// aboutText is about for an answer that may have no id.
func (p taskProcess) aboutText(token, method, id string) string {
	p.t.Helper()
	return p.read(p.open(token, method, id, fmt.Sprintf(`"taskId":%q`, id)), `"jsonrpc"`)
}
