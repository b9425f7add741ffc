package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// crossing is a process of a server of the handshake era on stdio, which the test plays,
// and clients of the stateless era over HTTP.
type crossing struct {
	t    *testing.T
	url  string
	ln   net.Listener // further processes connect to it
	host *Host
	up   net.Conn
	in   *wire.Reader
}

// newCrossing starts a proxy with such a server. configure changes its configuration; nil:
// nothing.
func newCrossing(t *testing.T, configure func(*config.Config)) *crossing {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	up := upstreamOf("up", "relay")
	up.Args, up.Restart = []string{ln.Addr().String()}, config.RestartNever
	up.Protocol = config.Legacy // otherwise it is asked for the other era after a while
	cfg := testConfig(t, up)
	if configure != nil {
		configure(cfg)
	}
	proxy := serveProxy(t, combination{config.StreamableHTTP, config.Stdio}, nil, cfg)
	return (&crossing{t: t, url: proxy.url, ln: ln, host: proxy.host}).another()
}

// another waits for the next process of the server, and does its handshake.
func (c *crossing) another() *crossing {
	c.t.Helper()
	next := *c
	_ = c.ln.(*net.TCPListener).SetDeadline(time.Now().Add(maxWait))
	var err error
	if next.up, err = c.ln.Accept(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { next.up.Close() })
	next.in = wire.NewReader(next.up, 0)
	next.answer("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}`)
	next.next("notifications/initialized")
	next.answer("tools/list", `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
	return &next
}

// next returns the next message that the server gets, which must have that method, or be
// the answer to that id of the server.
func (c *crossing) next(what string) []byte {
	c.t.Helper()
	timer := time.AfterFunc(maxWait, func() { c.up.Close() })
	defer timer.Stop()
	raw, err := c.in.Read()
	method, _ := wire.GetString(raw, "method")
	id, _ := wire.GetString(raw, "id")
	if err != nil || method != what && id != what {
		c.t.Fatalf("want %s, the server gets %s %v", what, raw, err)
	}
	return raw
}

func (c *crossing) answer(method, result string) {
	c.t.Helper()
	id, _ := wire.Get(c.next(method), "id")
	c.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (c *crossing) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.up, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// ask lets the server ask something.
func (c *crossing) ask(id string) {
	c.send(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object"}}}`, id, id)
}

// begin makes a call with that number as argument, of which answer will get the answer,
// and returns the id with which the server has got it.
func (c *crossing) begin(ctx context.Context, number int) (id string, answer <-chan string) {
	c.t.Helper()
	answer = c.post(ctx, number, "")
	return c.called(number), answer
}

// called returns the id of the next call that the process gets, which has that number.
func (c *crossing) called(number int) (id string) {
	c.t.Helper()
	raw := c.next("tools/call")
	if got, _ := wire.Get(raw, "params", "arguments", "n"); string(got) != fmt.Sprint(number) {
		c.t.Fatalf("call %d: the server gets %s", number, raw)
	}
	got, _ := wire.Get(raw, "id")
	return string(got)
}

func (c *crossing) post(ctx context.Context, number int, members string) <-chan string {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__t","arguments":{"n":%d}%s,"_meta":%s}}`, number, members, clienttest.Envelope)
	answer := make(chan string, 1)
	go func() {
		_, text := postCall(ctx, c.url, "", "up__t", body)
		answer <- text
	}()
	return answer
}

// postCall sends a tools/call of the stateless era, and returns the status and the body of the answer.
// Without an answer, the text says why.
func postCall(ctx context.Context, url, token, tool string, body []byte) (status, text string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err.Error()
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		r.Header.Set(name, value)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err.Error()
	}
	defer resp.Body.Close()
	all, _ := io.ReadAll(resp.Body)
	return resp.Status, string(all)
}

// question checks that a client is asked that question, and returns its key and the state.
func (c *crossing) question(number int, question string, answer <-chan string) (key, state string) {
	c.t.Helper()
	text := <-answer
	found := regexp.MustCompile(`"(q[0-9]+)":\{"method":"elicitation/create","params":\{"message":"` + question + `".*"requestState":"([^"]+)"`).FindStringSubmatch(text)
	if found == nil {
		c.t.Fatalf("call %d is not asked %s: %s", number, question, text)
	}
	return found[1], found[2]
}

// repeat repeats a request with the answer to a question.
func (c *crossing) repeat(number int, key, state string) <-chan string {
	return c.post(context.Background(), number, fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"n":%d}}},"requestState":%q`, key, number, state))
}

// TestQuestionsOverHTTP checks that clients without a session can be asked by a shared
// server while other calls are in flight: a parked one, which has a process to itself, one
// that was cancelled, and one that ends. The question waits for the end of the last two.
// The answer reaches the question, and no client is asked for another's call.
func TestQuestionsOverHTTP(t *testing.T) {
	t.Parallel()
	own := newCrossing(t, nil)
	// A client is asked and does not come back.
	_, forgotten := own.begin(t.Context(), 1)
	own.ask("first")
	own.question(1, "first", forgotten)
	// Another one goes away. The server is told.
	ctx, leave := context.WithCancel(t.Context())
	left := own.post(ctx, 2, "")
	c := own.another()
	second := c.called(2)
	leave()
	<-left
	c.next("notifications/cancelled")
	// Two more call, and one of them is asked. The other call ends.
	third, busy := c.begin(t.Context(), 3)
	fourth, asked := c.begin(t.Context(), 4)
	c.ask("second")
	c.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"three"}]}}`, third)
	if text := <-busy; !strings.Contains(text, "three") {
		t.Errorf("call 3: %s", text)
	}
	c.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, second) // late
	key, state := c.question(4, "second", asked)
	retried := c.repeat(4, key, state)
	if answer := string(c.next("second")); !strings.Contains(answer, `"content":{"n":4}`) {
		t.Errorf("the server gets %s", answer)
	}
	c.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"four"}]}}`, fourth)
	if text := <-retried; !strings.Contains(text, "four") {
		t.Errorf("call 4: %s", text)
	}
	// What the server asks for the parked call reaches only its client.
	own.ask("third")
	_, calm := c.begin(t.Context(), 5)
	c.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) // of no interest
	c.ask("fourth")
	c.question(5, "fourth", calm)
}
