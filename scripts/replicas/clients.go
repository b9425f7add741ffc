//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// mistakes are the plantable mistakes, each once: a call sent twice, a dropped answer, an ended
// session, and a forgotten run.
var mistakes = []string{"twice", "lose", "session", "run"}

// crowd has all clients.
type crowd struct {
	t        *trial
	balancer *balancer
	stop     context.CancelFunc
	working  sync.WaitGroup // clients, until stop
	settling sync.WaitGroup // goroutines waiting for the ends of runs
	waiting  chan struct{}  // a token for each awaited run
	settle   context.Context
	over     context.CancelFunc
}

func newCrowd(t *trial) *crowd {
	return &crowd{t: t, balancer: newBalancer(t), waiting: make(chan struct{}, 30)}
}

// lives are the clients by kind: their number, and the repeated action of each.
var lives = []struct {
	clients int
	live    func(c *crowd, ctx context.Context, no int, rnd *rand.Rand)
}{
	{4, (*crowd).modernCalls}, {4, (*crowd).legacySession}, {2, (*crowd).composites},
	{3, (*crowd).durablePays}, {2, (*crowd).durableCharges}, {2, (*crowd).durableReads},
	{2, (*crowd).asked}, {2, (*crowd).queued}, {1, (*crowd).approver},
}

// start starts all clients.
func (c *crowd) start(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	c.settle, c.over = context.WithCancel(context.Background())
	no := 0
	for _, l := range lives {
		for range l.clients {
			no++
			no := no
			rnd := rand.New(rand.NewPCG(c.t.seed, uint64(no)))
			c.working.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					l.live(c, ctx, no*1_000_000+n, rnd)
					pause(ctx, time.Duration(rnd.IntN(60))*time.Millisecond)
				}
			})
		}
	}
}

// settleTime is how long runs may take to end after the load.
const settleTime = 3 * time.Minute

// end ends all clients, and waits for the runs begun by them.
func (c *crowd) end() {
	c.stop()
	c.working.Wait()
	late := time.AfterFunc(settleTime, c.over)
	c.settling.Wait()
	late.Stop()
	c.over()
}

// check compares the ledger with the expected counts.
func (c *crowd) check() {
	t := c.t.tally
	for _, k := range t.keys {
		n := c.t.fleet.ledger.count(k.key)
		switch {
		case n > k.most:
			t.of(k.kind, func(c *counts) { c.twice++ })
			t.fail("%s: %s was called %d times; the client was told: %s", k.kind, k.key, n, k.said)
		case n < k.least:
			t.lost(k.kind, "%s was answered, and the ledger has %d calls", k.key, n)
		}
	}
}

// modern returns a client of the stateless era, whose requests go to any replica.
func (c *crowd) modern() *mcptest.Client {
	return mcptest.NewHTTP("http://fleet/mcp", mcptest.ClientOptions{Forget: true, Transport: c.balancer})
}

// sticky returns a client whose requests all go to a single replica.
func (c *crowd) sticky(replica int) *mcptest.Client {
	return mcptest.NewHTTP("http://fleet/mcp", mcptest.ClientOptions{
		Forget: true, Transport: c.balancer, Header: map[string]string{stickyHeader: strconv.Itoa(replica)},
	})
}

// envelope is the envelope of modern clients.
var envelope = mcptest.Envelope{Capabilities: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, ClientInfo: `{"name":"fleet","version":"1"}`}

// reply is how a request ended.
type reply struct {
	result  []byte // nil: an error
	failed  bool   // isError
	raw     []byte
	err     error  // set without an answer
	excused string // the fault that has ended the replica of a request without an answer
}

func (r reply) ok() bool { return r.result != nil && !r.failed }

// ask sends a request of the stateless era and waits for the answer.
func ask(client *mcptest.Client, id int, method, params string) reply {
	return await(client, client.Start(strconv.Itoa(id), method, envelope.Params(params)))
}

// await waits for an answer.
func await(client *mcptest.Client, answer <-chan mcptest.Answer) reply {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
		return reply{err: fmt.Errorf("no answer within %v", patience)}
	case a := <-answer:
		var status *mcptest.StatusError
		var lost *lostError
		switch {
		case errors.As(a.Err, &status):
			if m, err := wire.Parse(status.Body); err == nil && m.IsResponse() {
				return reply{raw: status.Body}
			}
			return reply{err: a.Err}
		case errors.As(a.Err, &lost):
			return reply{err: a.Err, excused: lost.fault}
		case a.Err != nil:
			return reply{err: a.Err}
		}
		failed, _ := wire.Get(a.Msg.Result, "isError")
		return reply{result: a.Msg.Result, failed: string(failed) == "true", raw: a.Raw}
	}
}

// ended reports whether the answer comes from a replica that was told to end. A script only reports
// its cancellation, which has no other cause here.
func (r reply) ended() bool {
	return r.failed && (bytes.Contains(r.result, []byte("ended by signal")) || bytes.Contains(r.result, []byte("the request was cancelled")))
}

// String describes an unexpected answer.
func (r reply) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return string(r.raw)
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Kinds of requests.
const (
	kindModern    = "proxied calls, modern"
	kindLegacy    = "proxied calls, legacy"
	kindSession   = "sessions, legacy"
	kindComposite = "composite tools"
)

// charge returns the parameters of a call of the ledger.
func charge(tool, key string, ms int) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"key":%q,"ms":%d}}`, tool, key, ms)
}

// slow returns how long a call takes: mostly very short, sometimes so long that faults hit the
// call.
func slow(rnd *rand.Rand) int {
	if rnd.IntN(10) == 0 {
		return rnd.IntN(1500)
	}
	return 0
}

// modernCalls makes some calls, each through another replica.
func (c *crowd) modernCalls(ctx context.Context, no int, rnd *rand.Rand) {
	client := c.modern()
	defer client.Disconnect()
	for n := range 20 {
		if ctx.Err() != nil {
			return
		}
		key := fmt.Sprintf("m%d.%d", no, n)
		params := charge("ledger__charge", key, slow(rnd))
		c.t.tally.sent(kindModern)
		if c.t.plant == "twice" && c.t.tally.plant("twice") {
			ask(client, 1_000_000, "tools/call", params)
		}
		got := ask(client, n+1, "tools/call", params)
		if c.t.plant == "lose" && c.t.tally.plant("lose") {
			got = reply{err: fmt.Errorf("planted")}
		}
		c.judge(kindModern, key, got)
	}
}

// judge counts the answer to a call that charges a key. A call is made at most once, even if the
// answer is lost.
func (c *crowd) judge(kind, key string, got reply) {
	t := c.t.tally
	least, most := 0, 1
	switch {
	case got.ok() && bytes.Contains(got.result, []byte(key)):
		t.answered(kind)
		least = 1
	case got.failed && bytes.Contains(got.result, []byte("the store of the fleet")):
		t.excused(kind, "refused, since the store is away")
		most = 0
	case got.excused != "":
		t.excused(kind, got.excused)
	case got.ended():
		t.excused(kind, "SIGTERM, said")
	case bytes.Contains(got.raw, []byte("was lost: the request may have been carried out")),
		bytes.Contains(got.raw, []byte("the replica that worked on this request was lost")):
		t.excused(kind, "the replica that it was passed on to, said")
	case got.failed && bytes.Contains(got.result, []byte("this process was taken for dead")):
		t.excused(kind, "its replica was silent, and the others took it out of the queue, said")
		most = 0
	case got.silent():
		t.excused(kind, "the replica where it waits is silent, said")
	case bytes.Contains(got.raw, []byte("the call waited for answers in a process that is ending")):
		t.excused(kind, "SIGTERM, said")
	case bytes.Contains(got.raw, []byte("the call waited for answers in replica")):
		t.excused(kind, "the replica where it waited, said")
	default:
		t.lost(kind, "%s: %v", key, got)
	}
	t.expect(kind, key, least, most)
}

// composites calls a saved tool that charges three keys.
func (c *crowd) composites(_ context.Context, no int, rnd *rand.Rand) {
	client := c.modern()
	defer client.Disconnect()
	key := fmt.Sprintf("c%d", no)
	t := c.t.tally
	t.sent(kindComposite)
	got := await(client, client.Start("1", "tools/call", mcptest.Envelope{}.Params(runOf(toolPlain, key, 3, slow(rnd)))))
	least := 0
	switch {
	case got.ok() && bytes.Contains(got.result, []byte("done "+key)):
		t.answered(kindComposite)
		least = 1
	case got.excused != "":
		t.excused(kindComposite, got.excused)
	case got.ended():
		t.excused(kindComposite, "SIGTERM, said")
	default:
		t.lost(kindComposite, "%s: %v", key, got)
	}
	for n := range 3 {
		t.expect(kindComposite, fmt.Sprintf("%s.%d", key, n), least, 1)
	}
}

// legacySession is a session with some calls, each through another replica. The session survives
// the deaths of replicas.
func (c *crowd) legacySession(ctx context.Context, no int, rnd *rand.Rand) {
	t := c.t.tally
	client := c.modern()
	troubled := t.troubled()
	begin, cancel := context.WithTimeout(context.Background(), patience)
	_, err := client.Initialize(begin, mcptest.ClientParams)
	cancel()
	if err != nil {
		defer client.Disconnect()
		var lost *lostError
		t.sent(kindSession)
		switch {
		case errors.As(err, &lost) && lost.fault != "":
			t.excused(kindSession, "it did not begin: "+lost.fault)
		case notFound(err) && (troubled || t.troubled()):
			t.excused(kindSession, "begun while the store was away")
		default:
			t.lost(kindSession, "session %d does not begin: %v", no, err)
		}
		return
	}
	t.sent(kindSession)
	for n := range 20 {
		if ctx.Err() != nil {
			break
		}
		if c.t.plant == "session" && t.plant("session") {
			end, cancel := context.WithTimeout(context.Background(), patience)
			_ = client.Close(end)
			cancel()
		}
		key := fmt.Sprintf("l%d.%d", no, n)
		t.sent(kindLegacy)
		got := c.legacyCall(client, n, key, rnd)
		if !bytes.Contains(got.raw, []byte("session not found")) && !notFound(got.err) {
			c.judge(kindLegacy, key, got)
			continue
		}
		client.Disconnect()
		if troubled {
			t.excused(kindLegacy, "in a session that was begun while the store was away")
			t.excused(kindSession, "begun while the store was away")
		} else {
			t.of(kindSession, func(c *counts) { c.sessions++ })
			t.fail("session %d was lost: %v", no, got)
		}
		t.expect(kindLegacy, key, 0, 0)
		return
	}
	end, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var lost *lostError
	switch err := client.Close(end); {
	case errors.As(err, &lost) && lost.fault != "":
		t.excused(kindSession, "the answer to its end: "+lost.fault)
	case notFound(err) && troubled:
		t.excused(kindSession, "begun while the store was away")
	case err != nil:
		t.lost(kindSession, "session %d does not end: %v", no, err)
	default:
		t.answered(kindSession)
	}
}

// notFound reports whether a replica does not know a session.
func notFound(err error) bool {
	var status *mcptest.StatusError
	return errors.As(err, &status) && status.Code == http.StatusNotFound
}

// legacyCall makes a call in a session.
func (c *crowd) legacyCall(client *mcptest.Client, n int, key string, rnd *rand.Rand) reply {
	return await(client, client.Start(strconv.Itoa(n+1), "tools/call", charge("ledger__charge", key, slow(rnd))))
}

// prepare waits until all replicas reach the ledger, and saves the tools.
func (c *crowd) prepare(ctx context.Context) error {
	for _, r := range c.t.fleet.replicas {
		if err := c.prepareReplica(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) prepareReplica(ctx context.Context, r *replica) error {
	client := c.sticky(r.no)
	defer client.Disconnect()
	return c.prepareOne(ctx, client, r)
}

func (c *crowd) prepareOne(ctx context.Context, client *mcptest.Client, r *replica) error {
	var got reply
	for n := 1; ; n++ {
		if got = ask(client, n, "tools/call", charge("ledger__read", "ready", 0)); got.ok() {
			break
		}
		if n > 600 || ctx.Err() != nil {
			return fmt.Errorf("%s does not reach the ledger: %v", r.name, got)
		}
		pause(ctx, 100*time.Millisecond)
	}
	for n, tool := range savedTools {
		params := fmt.Sprintf(`{"name":"save_tool","arguments":{"name":%q,"description":"x","durable":%t,"code":%s,"inputSchema":{"type":"object"}}}`,
			tool.name, tool.durable, wire.Quote(tool.code))
		for try := 0; ; try++ {
			if got = ask(client, 1000+100*try+n, "tools/call", params); got.ok() {
				break
			}
			if try > 100 || ctx.Err() != nil {
				return fmt.Errorf("%s does not save %s: %v", r.name, tool.name, got)
			}
			pause(ctx, 300*time.Millisecond) // the store may not have answered yet
		}
	}
	return nil
}

// ledger is an MCP server that counts the calls by key. The tools are
//
// charge not idempotent: called twice with a key, charges twice danger is charge, and policy asks
// about the call read only reads quick only reads, and does not wait pay is charge, but only once
// for each idempotency key
type ledger struct {
	t    *trial
	url  string
	http *http.Server
	over sync.WaitGroup

	mu      sync.Mutex      // guards the fields below
	calls   map[string]int  // by key: the calls of charge and read, and the payments of pay
	paid    map[string]bool // idempotency keys
	repeats int             // calls of pay with a key paid before
}

const ledgerTools = `{"tools":[
{"name":"charge","inputSchema":{"type":"object","properties":{"key":{"type":"string"},"ms":{"type":"integer"}},"required":["key"]}},
{"name":"read","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"key":{"type":"string"},"ms":{"type":"integer"}},"required":["key"]}},
{"name":"danger","inputSchema":{"type":"object","properties":{"key":{"type":"string"},"ms":{"type":"integer"}},"required":["key"]}},
{"name":"quick","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"key":{"type":"string"},"ms":{"type":"integer"}},"required":["key"]}},
{"name":"pay","annotations":{"idempotentHint":true},"inputSchema":{"type":"object","properties":{"key":{"type":"string"},"ms":{"type":"integer"}},"required":["key"]}}
]}`

func newLedger(t *trial) (*ledger, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &ledger{t: t, url: "http://" + ln.Addr().String() + "/mcp", calls: map[string]int{}, paid: map[string]bool{}}
	l.http = &http.Server{Handler: l, ReadHeaderTimeout: time.Minute}
	l.over.Go(func() { _ = l.http.Serve(ln) })
	return l, nil
}

func (l *ledger) close() {
	_ = l.http.Close()
	l.over.Wait()
}

// ServeHTTP answers a message, without sessions.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	m, err := wire.Parse(body)
	if err != nil || !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := wire.Reply{Result: []byte(`{}`)}
	switch m.Method {
	case "initialize":
		answer.Result = []byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"ledger","version":"1"}}`)
	case "tools/list":
		answer.Result = []byte(ledgerTools)
	case "tools/call":
		answer.Result = l.call(m.Params)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(wire.Response(m.ID, answer))
}

// call counts a call before answering, like a server whose answer can be lost.
func (l *ledger) call(params []byte) []byte {
	tool, _ := wire.GetString(params, "name")
	key, _ := wire.GetString(params, "arguments", "key")
	once, _ := wire.GetString(params, "_meta", "io.github.mcp-metatool/idempotencyKey")
	raw, _ := wire.Get(params, "arguments", "ms")
	var ms int
	_ = json.Unmarshal(raw, &ms)
	l.mu.Lock()
	switch {
	case tool == "pay" && once != "" && l.paid[once]:
		l.repeats++
	case tool == "pay" && once != "":
		l.paid[once] = true
		l.calls[key]++
	default:
		l.calls[key]++
	}
	n := l.calls[key]
	l.mu.Unlock()
	if tool != "quick" {
		time.Sleep(time.Duration(ms)*time.Millisecond + time.Duration(rand.IntN(3000))*time.Microsecond)
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":"{\"key\":%s,\"n\":%d}"}]}`, escaped(key), n)
}

// escaped returns a string for a JSON string within another string.
func escaped(s string) string {
	inner, _ := json.Marshal(s)
	outer, _ := json.Marshal(string(inner))
	return string(outer[1 : len(outer)-1])
}

// count returns how often a key was used.
func (l *ledger) count(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[key]
}

// repeated returns how often something was to be paid again with the same idempotency key.
func (l *ledger) repeated() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.repeats
}
