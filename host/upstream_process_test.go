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
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox/guestcache"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
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
	if name, ok := strings.CutPrefix(os.Getenv(upstreamEnv), "flow-"); ok {
		(&flowServer{name: name, out: mcptest.NewLineWriter(os.Stdout)}).serve()
		return
	}
	switch os.Getenv(upstreamEnv) {
	case "raw":
		(&rawServer{out: mcptest.NewLineWriter(os.Stdout)}).serve()
		return
	case "relay":
		relay()
		return
	case "typed":
		(&typedServer{}).serve()
		return
	case "late": // starts once the other end of a connection is closed
		conn, err := net.Dial("tcp", os.Args[1])
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(io.Discard, conn)
		(&rawServer{out: mcptest.NewLineWriter(os.Stdout)}).serve()
		return
	case "garbage":
		for range 1000 {
			fmt.Println("this is not JSON-RPC")
		}
		_, _ = os.Stdin.Read(make([]byte, 1<<20))
		return
	case "hang":
		select {}
	}
	guestCache = guestcache.Dir()
	_ = flag.Set("test.parallel", "4") // tests that are parallel wait most of the time
	sandboxtest.Main(m)
}

// guestCache keeps the compiled guest for all tests.
var guestCache string

// rawServer is an upstream that returns what it was sent, byte for byte.
type rawServer struct {
	out *mcptest.LineWriter

	mu        sync.Mutex
	cancelled [][]byte
	hung      []byte // id of the last call of hang
	gates     []net.Conn
}

func (s *rawServer) serve() {
	in := wire.NewReader(os.Stdin, 0)
	for {
		raw, err := in.Read()
		if err != nil {
			return
		}
		msg, err := wire.Parse(raw)
		switch {
		case err != nil:
		case msg.IsRequest():
			go s.answer(msg)
		case msg.Method == "notifications/cancelled":
			s.mu.Lock()
			s.cancelled = append(s.cancelled, msg.Params)
			s.mu.Unlock()
		}
	}
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
		reply(`{"content":[],"structuredContent":{"pid":%d}}`, os.Getpid())
	case "gate": // answered when the other end of a connection is closed; our end is closed when we are
		address, _ := wire.GetString(msg.Params, "arguments", "address")
		conn, err := net.Dial("tcp", address)
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(io.Discard, conn)
		reply(`{"content":[],"structuredContent":{"pid":%d}}`, os.Getpid())
		s.mu.Lock()
		s.gates = append(s.gates, conn)
		s.mu.Unlock()
	case "exit":
		fmt.Fprintln(os.Stderr, "raw: told to exit")
		os.Exit(3)
	}
}
