package host

import (
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// inProcess is the command of servers that run in the process of the tests, over pipes like
// those of a process: starting a process takes longer than most tests. inOwnProcess gives a
// server a process where a test is about that.
const inProcess = "in the process of the tests"

func inOwnProcess(u config.Upstream) config.Upstream {
	u.Command = os.Args[0]
	return u
}

// serversHere returns servers.Options.Streams for servers with the command inProcess. When the
// test ends, it waits for them.
func serversHere(t testing.TB) func(servers.Spec) (io.ReadCloser, io.WriteCloser, bool) {
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	return func(spec servers.Spec) (io.ReadCloser, io.WriteCloser, bool) {
		if spec.Command != inProcess {
			return nil, nil, false
		}
		in, toServer, err := os.Pipe()
		if err != nil {
			t.Error(err)
			return nil, nil, false
		}
		fromServer, out, err := os.Pipe()
		if err != nil {
			t.Error(err)
			return nil, nil, false
		}
		env := func(name string) string {
			i := slices.IndexFunc(spec.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
			if i < 0 {
				return ""
			}
			return spec.Env[i][len(name)+1:]
		}
		all.Go(func() {
			if kind := env(upstreamEnv); kind != "" {
				serveKind(kind, upstreamOptions{args: spec.Args, flowFile: env(flowEnv), in: in, out: out})
				return
			}
			mcptest.Serve(env(mcptest.Env), in, out)
		})
		return fromServer, toServer, true
	}
}

// upstreamOptions are what a server of serveKind gets.
type upstreamOptions struct {
	args     []string
	flowFile string
	in, out  *os.File // closed at its end
	process  bool     // the server has a process of its own
}

// started counts the servers of kind raw in this process.
var started atomic.Int64

// serveKind is a raw MCP server of the named kind, until its input ends.
func serveKind(kind string, o upstreamOptions) {
	defer o.in.Close()
	defer o.out.Close()
	lines := mcptest.NewLineWriter(o.out)
	if name, ok := strings.CutPrefix(kind, "flow-"); ok {
		(&flowServer{name: name, out: lines, file: o.flowFile}).serve(o.in)
		return
	}
	switch kind {
	case "late": // starts once the other end of a connection is closed
		conn, err := net.Dial("tcp", o.args[0])
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(io.Discard, conn)
		fallthrough
	case "raw":
		raw := &rawServer{out: lines, id: int(started.Add(1))}
		if o.process {
			raw.id = os.Getpid()
			raw.serve(o.in)
			return // and do not wait for calls
		}
		raw.serve(o.in)
		o.out.Close()
		raw.work.Wait()
	case "relay":
		relay(o)
	case "typed":
		(&typedServer{out: o.out}).serve(o.in)
	case "garbage":
		for range 1000 {
			_, _ = io.WriteString(o.out, "this is not JSON-RPC\n")
		}
		_, _ = o.in.Read(make([]byte, 1<<20))
	case "busy":
		serveBusy(o.in, lines)
	case "hang":
		select {}
	}
}
