package host

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// upstreamEnv makes the test binary a raw MCP server of the named kind.
const upstreamEnv = "METATOOL_TEST_UPSTREAM"

// complainArgument makes the test binary a command for a secret that fails.
const complainArgument = "complain"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == complainArgument {
		fmt.Fprintln(os.Stderr, vaultComplaint)
		os.Exit(3)
	}
	if kind := os.Getenv(upstreamEnv); kind != "" {
		serveKind(kind, upstreamOptions{args: os.Args[1:], flowFile: os.Getenv(flowEnv), in: os.Stdin, out: os.Stdout, process: true})
		return
	}
	maxWait = testenv.Deadline(maxWait)
	guestCache = guestcache.Dir()
	OpenStore = fleettest.Open
	_ = flag.Set("test.parallel", "4") // tests that are parallel wait most of the time
	sandboxtest.Main(m)
}

// guestCache keeps the compiled guest for all tests.
var guestCache string

// rawServer is an upstream that returns what it was sent, byte for byte.
type rawServer struct {
	out *mcptest.LineWriter
	id  int // of the process, or of the server in this one

	work      sync.WaitGroup
	mu        sync.Mutex
	cancelled [][]byte
	hung      []byte // id of the last call of hang
	gates     []net.Conn
	ended     bool
}

// serve answers until in ends. What it still writes then is lost, as at the end of a process.
func (s *rawServer) serve(in io.Reader) {
	lines := wire.NewReader(in, 0)
	for {
		raw, err := lines.Read()
		if err != nil {
			break
		}
		msg, err := wire.Parse(raw)
		switch {
		case err != nil:
		case msg.IsRequest():
			s.work.Go(func() { s.answer(msg) })
		case msg.Method == "notifications/cancelled":
			s.mu.Lock()
			s.cancelled = append(s.cancelled, msg.Params)
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	s.ended = true
	for _, gate := range s.gates {
		gate.Close()
	}
	s.mu.Unlock()
}

// rawTools is one page of definitions with everything that proxies with typed messages
// lose.
const rawTools = `{"name":"mirror","title":"M","inputSchema":{"type":"object","definitions":{"a":{"type":"integer","maximum":9007199254740993}},"properties":{"x":{"$ref":"#/definitions/a"}}},"annotations":{"readOnlyHint":false,"x-vendor":[1.0]},"_meta":{"v":1e2},"x-unknown":{"deep":12345678901234567890}},` +
	`{"name":"rpc-error","inputSchema":{"type":"object"}},{"name":"count","inputSchema":{"type":"object"}},` +
	`{"name":"hang","inputSchema":{"type":"object"}},{"name":"cancels","inputSchema":{"type":"object"}},` +
	`{"name":"exit","inputSchema":{"type":"object"}},{"name":"text","inputSchema":{"type":"object"}},` +
	`{"name":"pid","inputSchema":{"type":"object"}},{"name":"gate","inputSchema":{"type":"object"}}`

// rawResult has unknown content types and members, and numbers that doubles
// cannot hold.
const rawResult = `{"content":[{"type":"hologram","data":1e999,"_meta":{"k":null}}],"isError":false,"structuredContent":{"n":9007199254740993,"f":1.10},"_meta":{"a/b":-0},"future":[],"received":%s}`

func (s *rawServer) answer(msg wire.Message) {
	reply := func(result string, args ...any) {
		_ = s.out.Write(wire.Response(msg.ID, wire.Reply{Result: fmt.Appendf(nil, result, args...)}))
	}
	switch msg.Method {
	case "initialize":
		reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"0.1"}}`)
	case "ping":
		reply(`{}`)
	case "tools/list":
		reply(`{"tools":[%s]}`, rawTools)
	case "tools/call":
		s.call(msg, reply)
	}
}

func (s *rawServer) call(msg wire.Message, reply func(string, ...any)) {
	name, _ := wire.GetString(msg.Params, "name")
	switch name {
	case "mirror":
		reply(rawResult, msg.Params)
	case "text":
		text, _ := wire.Get(msg.Params, "arguments", "text")
		reply(`{"content":[{"type":"text","text":%s}]}`, text)
	case "rpc-error":
		_ = s.out.Write(wire.Response(msg.ID, wire.Reply{Error: []byte(`{"code":-32042,"message":"no <such> thing","data":{"n":9007199254740993},"x":1}`)}))
	case "count":
		token, _ := wire.Get(msg.Params, "_meta", "progressToken")
		raw, _ := wire.Get(msg.Params, "arguments", "times")
		times, _ := strconv.Atoi(string(raw))
		for i := range times {
			if token != nil {
				_ = s.out.Write(wire.Notification("notifications/progress",
					fmt.Appendf(nil, `{"progressToken":%s,"progress":%d,"total":%d,"x":9007199254740993}`, token, i+1, times)))
			}
		}
		reply(`{"content":[],"structuredContent":{"counted":%d}}`, times)
	case "hang":
		// It is ended only by a cancellation, which needs no answer.
		s.mu.Lock()
		s.hung = bytes.Clone(msg.ID)
		s.mu.Unlock()
		if token, ok := wire.Get(msg.Params, "_meta", "progressToken"); ok {
			_ = s.out.Write(wire.Notification("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":0}`, token)))
		}
	case "cancels":
		s.mu.Lock()
		all, hung := bytes.Join(s.cancelled, []byte(",")), cmp.Or(string(s.hung), "null")
		s.mu.Unlock()
		reply(`{"content":[],"structuredContent":{"cancelled":[%s],"hung":%s}}`, all, hung)
	case "pid":
		reply(`{"content":[],"structuredContent":{"pid":%d}}`, s.id)
	case "gate": // answered when the other end of a connection is closed; our end is closed when the server ends
		address, _ := wire.GetString(msg.Params, "arguments", "address")
		conn, err := net.Dial("tcp", address)
		if err != nil {
			panic(err)
		}
		s.mu.Lock()
		s.gates = append(s.gates, conn)
		ended := s.ended
		s.mu.Unlock()
		if ended {
			conn.Close()
			return
		}
		_, _ = io.Copy(io.Discard, conn)
		reply(`{"content":[],"structuredContent":{"pid":%d}}`, s.id)
	case "exit":
		fmt.Fprintln(os.Stderr, "raw: told to exit")
		os.Exit(3)
	}
}
