//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
