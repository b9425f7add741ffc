package servers

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// serverEnv makes the test binary an MCP server in the mode that its value names; see
// serverMain. monitorEnv is the address of a processMonitor.
const (
	serverEnv  = "UPSTREAM_TEST_SERVER"
	monitorEnv = "UPSTREAM_TEST_MONITOR"
	startsEnv  = "UPSTREAM_TEST_STARTS" // a file that grows by a byte with each start
)

func TestMain(m *testing.M) {
	mcptest.Main()
	if mode := os.Getenv(serverEnv); mode != "" {
		serverMain(mode)
		os.Exit(0)
	}
	exitWait = time.Minute             // so that EndReason always has the exit status
	_ = flag.Set("test.parallel", "4") // parallel tests wait most of the time
	goleak.VerifyTestMain(m)
}

// rawServer is an MCP server that uses no code of the package under test.
type rawServer struct {
	in  *bufio.Reader
	mu  sync.Mutex
	out io.Writer

	tools     []string
	prompts   int
	params    json.RawMessage // params of initialize
	start     int             // the number of this start, from 1; 0 if starts are not counted
	calls     int
	lists     int
	held      []rawMessage // the first requests for lists, if they are answered together
	cancelled []json.RawMessage
	waiting   map[string]json.RawMessage // id by tool name, of calls left unanswered
	replies   chan json.RawMessage       // answers to our own requests
}

// rawMessage is any JSON-RPC message.
type rawMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// serverMain is the program of a server in some mode, and of the processes that it
// starts.
func serverMain(mode string) {
	if mode == "forker" { // leaves an orphan
		startDaemon()
		return
	}
	monitor := connectMonitor()
	switch mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot open the database")
		os.Exit(3)
	case "hang":
		fmt.Fprintln(os.Stderr, "not answering")
		io.Copy(io.Discard, os.Stdin)
		return
	case "grandchild", "daemon": // ends only with the monitor's connection, or by SIGKILL
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		io.Copy(io.Discard, monitor)
		return
	case "parent", "parent of scatters":
		child := map[string]string{"parent": "stubborn", "parent of scatters": "scatters"}[mode]
		start(spec(child, monitorEnv+"="+os.Getenv(monitorEnv)), Options{}, fastTimings)
		hang()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "terminates":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		go func() { <-c; fmt.Fprintln(os.Stderr, "got SIGTERM"); os.Exit(0) }()
	case "family":
		startChild("grandchild")
	case "daemonizes":
		startDaemon()
	case "self-replacer": // starts a copy of itself and exits, again and again
		startDetached("self-replacer")
		return
	case "starts a self-replacer":
		startDetached("self-replacer")
	case "scatters": // starts processes in its group, outside it, and without a parent
		startChild("grandchild")
		startDaemon()
		_ = startChild("forker").Wait()
	}
	starts := countStart()
	switch {
	case mode == "third start works" && starts < 3, mode == "starts once" && starts > 1:
		fmt.Fprintln(os.Stderr, "not this time")
		os.Exit(4)
	case mode == "hangs the second time" && starts > 1:
		io.Copy(io.Discard, os.Stdin)
		return
	}
	serve(mode, os.Stdin, os.Stdout, starts)
	if mode == "stubborn" || mode == "terminates" {
		hang()
	}
}

// serve is a server in some mode, until its input ends.
func serve(mode string, in io.Reader, out io.Writer, starts int) {
	s := &rawServer{in: bufio.NewReader(in), out: out, tools: []string{"a", "b"}, start: starts,
		waiting: map[string]json.RawMessage{}, replies: make(chan json.RawMessage, 1)}
	for {
		line, err := s.in.ReadBytes('\n')
		if err != nil {
			break
		}
		var m rawMessage
		if json.Unmarshal(line, &m) != nil {
			panic(fmt.Sprintf("not a message: %.80q", line))
		}
		s.handle(mode, m)
	}
}

// startChild starts a process in our process group, with our pipes.
func startChild(mode string) *exec.Cmd {
	child := exec.Command(os.Args[0])
	child.Env = []string{serverEnv + "=" + mode, monitorEnv + "=" + os.Getenv(monitorEnv)}
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		panic(err)
	}
	return child
}

// hang blocks forever. An empty select could end in a deadlock panic.
func hang() {
	r, w, err := os.Pipe()
	if err == nil {
		_, _ = r.Read(make([]byte, 1)) // no peer writes
	}
	runtime.KeepAlive(w)
}

// connectMonitor connects to the processMonitor, if there is one, and sends the mode.
func connectMonitor() net.Conn {
	addr := os.Getenv(monitorEnv)
	if addr == "" {
		return nil
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(conn, "%s\n", os.Getenv(serverEnv))
	return conn
}

func (s *rawServer) write(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *rawServer) result(id json.RawMessage, result string) {
	s.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (s *rawServer) handle(mode string, m rawMessage) {
	if strings.HasSuffix(m.Method, "/list") && (s.listLong(mode, m) || s.listTogether(mode, m)) {
		return
	}
	switch m.Method {
	case "initialize":
		s.params = m.Params
		s.initialize(mode, m.ID)
	case "notifications/cancelled":
		s.cancelled = append(s.cancelled, m.Params)
		if id, ok := s.waiting["late"]; ok {
			s.result(id, `{"late":true}`)
		}
	case "tools/list":
		s.list(mode, m)
	case "tools/call":
		s.calls++
		if mode == "third call kills" && s.calls == 3 {
			fmt.Fprintln(os.Stderr, "\x1b[31mout of \xff luck\x1b[0m")
			os.Exit(7)
		}
		var p struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Meta      struct {
				ProgressToken json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			panic(err)
		}
		s.call(m, p.Name, p.Meta.ProgressToken)
	case "":
		s.replies <- m.Result
	default:
		s.listMore(mode, m)
	}
}

func (s *rawServer) initialize(mode string, id json.RawMessage) {
	version, capabilities := "2025-06-18", `{"tools":{"listChanged":true}}`
	switch mode {
	case "refuses":
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no licence"}}`, id)
		return
	case "old":
		version = "1999-01-01"
	case "no tools":
		capabilities = `{"x":{}}`
	case "surfaces", "refuses templates", "resources fail", "resources hang", "lists together", "long page", "long last page":
		capabilities = `{"tools":{},"resources":{},"prompts":{}}`
	case "chatty":
		s.write("Server is starting on stdio...")
	}
	s.result(id, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"raw","version":"1.2"}}`, version, capabilities))
}

func (s *rawServer) list(mode string, m rawMessage) {
	var p struct{ Cursor string }
	_ = json.Unmarshal(m.Params, &p)
	s.lists++
	switch {
	case mode == "second list fails" && s.lists == 2:
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"backend gone"}}`, m.ID)
		s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	case mode == "second list large" && s.lists == 2:
		s.result(m.ID, `{"tools":[{"name":"a"},{"name":"c","description":"`+strings.Repeat("x", 10_000)+`"}]}`)
		s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	case mode == "list fails":
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"backend gone"}}`, m.ID)
	case mode == "paged" && p.Cursor == "":
		s.result(m.ID, `{"tools":[{"name":"one","x":9007199254740993}],"nextCursor":"p\u00322"}`)
	case mode == "paged" && p.Cursor == "p22":
		s.result(m.ID, `{"tools":[ {"name":"two"} ,5,{"title":"nameless"},{"name":""},{"name":"one"}],"nextCursor":""}`)
	case mode == "looping":
		next := map[string]string{"": "A", "A": "B", "B": "A"}[p.Cursor]
		s.result(m.ID, fmt.Sprintf(`{"tools":[{"name":"t%s"}],"nextCursor":%q}`, p.Cursor, next))
	case mode == "endless":
		s.result(m.ID, fmt.Sprintf(`{"tools":[{"name":"t%s"}],"nextCursor":"%sx"}`, p.Cursor, p.Cursor))
	default:
		var defs []string
		for _, name := range s.tools {
			defs = append(defs, fmt.Sprintf(`{"name":%q}`, name))
		}
		s.result(m.ID, `{"tools":[`+strings.Join(defs, ",")+`]}`)
	}
}

func (s *rawServer) call(m rawMessage, name string, token json.RawMessage) {
	switch name {
	case "echo":
		s.result(m.ID, string(m.Params))
	case "env":
		env, _ := json.Marshal(os.Environ())
		dir, _ := os.Getwd()
		s.result(m.ID, fmt.Sprintf(`{"env":%s,"dir":%q}`, env, dir))
	case "flood":
		for i := range 2000 {
			s.write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i)
		}
		s.result(m.ID, `{}`)
	case "hang", "late":
		s.waiting[name] = m.ID
		s.write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"hanging"}}`)
	case "cancelled":
		list, _ := json.Marshal(s.cancelled)
		s.result(m.ID, fmt.Sprintf(`{"late":%q,"hang":%q,"params":%s}`, s.waiting["late"], s.waiting["hang"], list))
	case "ask":
		s.write(`{"jsonrpc":"2.0","id":"q1","method":"ping"}`)
		go func() { s.result(m.ID, string(<-s.replies)) }()
	case "ask roots":
		s.write(`{"jsonrpc":"2.0","id":"q2","method":"roots/list","params":{"x":1e400}}`)
		go func() { s.result(m.ID, string(<-s.replies)) }()
	case "change once":
		s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.result(m.ID, `{}`)
	case "change":
		s.tools = append(s.tools, fmt.Sprintf("new%d", s.calls))
		for range 50 {
			s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		s.result(m.ID, `{}`)
	case "answer resources":
		s.result(s.waiting["resources/list"], `{"resources":[{"uri":"file:///late"}]}`)
		s.result(m.ID, `{}`)
	case "first lists":
		var methods []string
		for _, held := range s.held {
			methods = append(methods, held.Method)
		}
		s.result(m.ID, fmt.Sprintf("%q", strings.Join(methods, " ")))
	case "who":
		s.result(m.ID, fmt.Sprintf(`{"start":%d,"params":%s}`, s.start, s.params))
	case "crash":
		os.Exit(9)
	case "more prompts":
		s.prompts++
		s.write(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
		s.result(m.ID, `{}`)
	case "half line":
		fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"resu`, m.ID)
		os.Exit(0)
	case "closes stdout":
		os.Stdout.Close()
	case "closes stdin":
		os.Stdin.Close()
		s.result(m.ID, `{}`)
		hang()
	case "stop reading":
		s.result(m.ID, `{}`)
		hang()
	default:
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool","data":{"n":9007199254740993}}}`, m.ID)
	}
}

// processMonitor accepts a connection from each process of a test. The connection ends
// when the process does.
type processMonitor struct {
	t *testing.T
	l net.Listener
}

func newProcessMonitor(t *testing.T) *processMonitor {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &processMonitor{t, l}
}

func (b *processMonitor) env() string { return monitorEnv + "=" + b.l.Addr().String() }

// next waits for the next process to start. It returns the process's mode, and a
// connection that ends with the process.
func (b *processMonitor) next() (mode string, conn net.Conn, r *bufio.Reader) {
	b.t.Helper()
	conn, err := b.l.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	r = bufio.NewReader(conn)
	mode, err = r.ReadString('\n')
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSuffix(mode, "\n"), conn, r
}

// awaitEnd waits for the end of a process, given its connection.
func awaitEnd(r *bufio.Reader) { _, _ = r.ReadByte() }
