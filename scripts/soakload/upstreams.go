package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// origin is a server behind the proxy.
type origin struct {
	name      string
	transport string // "stdio", "http", "sse"
	calm      bool   // no client asks for faults
	own       bool   // each session has a process of its own
	extra     string // more lines of the configuration
	switches  mcptest.ServerOptions
}

// origins are all origins. The tools of each begin with the origin's name.
var origins = []origin{
	{name: "calm", transport: "stdio", calm: true},
	{name: "calmweb", transport: "http", calm: true},
	{name: "wild", transport: "stdio"},
	{name: "slowstart", transport: "stdio", switches: mcptest.ServerOptions{ // the faults happen at each start
		StringIDs: true,
		Faults: map[string]mcptest.Fault{
			"initialize":     {Kind: mcptest.Slow, Size: 40, Pause: 1},
			"tools/list":     {Kind: mcptest.Duplicate},
			"resources/list": {Kind: mcptest.Garbage, Count: 20},
			"prompts/list":   {Kind: mcptest.WrongID},
		},
	}},
	{name: "wildweb", transport: "http", switches: mcptest.ServerOptions{Answers: "auto", CutAfter: 40}},
	{name: "plainweb", transport: "http", switches: mcptest.ServerOptions{Answers: "json", NoGETStream: true}},
	{name: "wildsse", transport: "sse"},
	{name: "own", transport: "stdio", own: true, extra: "isolation = \"session\"\n"},
	{name: "lazy", transport: "stdio", extra: "start = \"lazy\"\n"},
	{name: "flaky", transport: "stdio", calm: true, switches: mcptest.ServerOptions{ExitOnStart: 3}},
	{name: "newweb", transport: "http", calm: true, switches: mcptest.ServerOptions{Eras: mcptest.EraModern}},
	{name: "new", transport: "stdio", switches: mcptest.ServerOptions{Eras: mcptest.EraModern}},
	{name: "newjson", transport: "http", calm: true, switches: mcptest.ServerOptions{Eras: mcptest.EraBoth, Answers: "auto"}},
}

// exact reports whether a question of the server always belongs to a known call, also if several
// clients share the server.
func (o origin) exact() bool { return o.name == "calmweb" || o.switches.Eras != "" }

// farm has the servers. HTTP servers run in this process; the proxy starts the others.
type farm struct {
	config string // of the proxy for HTTP
	small  string // of the binary for a client over stdio
	mark   string // in the environment of each server's process

	servers map[string]*mcptest.Server
	web     []*http.Server
}

// markEnv is the environment variable with the mark.
const markEnv = "MCP_METATOOL_SOAK"

func newFarm(dir string) (*farm, error) {
	f := &farm{
		config: filepath.Join(dir, "config.toml"), small: filepath.Join(dir, "small.toml"),
		mark: filepath.Base(dir), servers: map[string]*mcptest.Server{},
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("startup_wait = \"5s\"\ninput_timeout = \"2s\"\n[store]\ndir = %q\n[http]\nsession_ttl = \"5s\"\nresume_window = \"1s\"\nmax_sessions = 150\n",
		filepath.Join(dir, "store"))
	whole, part := head, head
	for _, o := range origins {
		text := fmt.Sprintf("[upstream.%s]\n%s", o.name, o.extra)
		if o.calm {
			text += "timeout = \"20s\"\n"
		} else {
			text += "timeout = \"2s\"\nmax_timeout = \"6s\"\n"
		}
		sw := o.switches
		sw.Name = o.name
		if o.transport == "stdio" {
			sw.StartsFile = filepath.Join(dir, o.name+".starts")
			text += fmt.Sprintf("command = %q\nenv = { %s = %q, %s = '''%s''' }\n", self, markEnv, f.mark, mcptest.Env, sw.Environ()[mcptest.Env])
		} else {
			address, err := f.serve(o, sw)
			if err != nil {
				f.close()
				return nil, err
			}
			text += fmt.Sprintf("url = %q\ntransport = %q\n", address, o.transport)
		}
		whole += text
		if slices.Contains(small, o.name) {
			part += text
		}
	}
	return f, firstError(os.WriteFile(f.config, []byte(whole), 0o600), os.WriteFile(f.small, []byte(part), 0o600))
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server with an address.
func (f *farm) serve(o origin, sw mcptest.ServerOptions) (address string, err error) {
	server := mcptest.NewServer(sw)
	server.Received.Forget = true
	f.servers[o.name] = server
	handler := server.HTTP()
	if o.transport == "sse" {
		handler = server.SSE()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	web := &http.Server{Handler: handler}
	f.web = append(f.web, web)
	go func() { _ = web.Serve(ln) }() // until close
	return "http://" + ln.Addr().String() + "/mcp", nil
}

// closeIdle closes idle connections.
func (f *farm) closeIdle() {
	for _, web := range f.web {
		web.SetKeepAlivesEnabled(false)
		web.SetKeepAlivesEnabled(true)
	}
}

func (f *farm) close() {
	for _, web := range f.web {
		_ = web.Close()
	}
	for _, server := range f.servers {
		server.Close()
	}
}

// processes returns the ids of all processes of servers.
func (f *farm) processes() []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	want := []byte(markEnv + "=" + f.mark + "\x00")
	for _, name := range names {
		if env, err := os.ReadFile(name); err == nil && bytes.Contains(append(env, 0), want) {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// shared returns the number of server processes while no client is connected,
// once all idle servers have been started.
func (f *farm) shared() int {
	n := 0
	for _, o := range origins {
		if o.transport == "stdio" && !o.own {
			n++
		}
	}
	return n
}

// settled waits until the number of processes is as expected.
func (f *farm) settled(d time.Duration) (pids []int) {
	for end := time.Now().Add(d); ; time.Sleep(100 * time.Millisecond) {
		if pids = f.processes(); len(pids) == f.shared() || time.Now().After(end) {
			return pids
		}
	}
}
