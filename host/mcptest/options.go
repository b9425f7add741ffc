package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// ServerOptions configure the behaviour of a Server. The zero value is a server that declares all
// capabilities and makes no mistakes. ServerOptions can be encoded as JSON; see Environ.
type ServerOptions struct {
	// Name is the name in serverInfo; "raw" if empty.
	Name string
	// Hints are the cache hints of results in the stateless era, each with a comma; "": the default
	// hints. Only for servers in the same process.
	Hints string
	// Revision is the revision in the answer to initialize; "" is the client's.
	Revision string
	// Capabilities is the raw object of declared capabilities; "" declares all.
	Capabilities string
	// Eras are the spoken eras: EraLegacy, EraModern or EraBoth; "" is EraLegacy.
	Eras string
	// Versions are the supported revisions of the stateless era; nil: Modern, and the newest of the
	// other era with EraBoth.
	Versions []string
	// Discover is the raw result of server/discover; "" is a correct result.
	Discover string
	// Items replaces the items of lists: raw definitions. The tools answer like echo.
	Items map[wire.Surface][]string
	// CallTool, if set, answers calls of tools in place of everything else. The zero Reply is
	// no answer. cancelled is closed when the call is cancelled. Only for servers in the same
	// process.
	CallTool func(cancelled <-chan struct{}, tool string, params []byte) wire.Reply `json:"-"`
	// HeaderTools adds a tool whose argument is repeated in a header, and a tool whose annotation
	// for the header is invalid.
	HeaderTools bool
	// OneSubscription ends the current subscription when another one begins.
	OneSubscription bool
	// SamplingTool adds a tool for clients that declare sampling at initialize.
	SamplingTool bool
	// SharedSubscription has subscriptions as in the Go SDK 1.8: all notifications that the
	// subscriptions of a connection have asked for are sent for the newest subscription, and the
	// end of any subscription ends the newest. A cancelled subscription is answered. Only over
	// stdio.
	SharedSubscription bool
	// RefusesSubscription, if set, says for which resources subscriptions are refused.
	RefusesSubscription func(uri string) bool `json:"-"`
	// PageSize is the number of items on a page of a list; 0 is 3.
	PageSize int
	// StringIDs makes the ids of the server's own requests strings. Otherwise they are numbers from
	// 1, like the ids of many clients.
	StringIDs bool
	// Faults are the faults by method ("initialize") or tool name.
	Faults map[string]Fault
	// ExitOnStart is the number of processes that exit before reading anything. StartsFile is a
	// file that counts the starts.
	ExitOnStart int
	StartsFile  string
	// Observer is the address of an Observer, for servers with their own process.
	Observer string

	// Answers is the form of HTTP answers: "" is an event stream; "json" is JSON, with earlier
	// messages on the GET stream; "auto" is JSON if no messages come before the answer.
	Answers string
	// EarlyHeader begins the event stream of each answer at once, as most servers do, instead of
	// with the first message.
	EarlyHeader bool
	// CutAfter is after how many events the connection ends, but not the stream,
	// which clients have to resume; 0 is never.
	CutAfter int
	// NoSessions sends HTTP clients no session id: all of them share a session.
	NoSessions bool
	// NoGETStream refuses the GET stream with 405.
	NoGETStream bool
}

// Kinds of faults. The connection ends like this: over stdio, the process exits
// with status 3 (in process, both pipes are closed); over HTTP, all connections of
// the session break, and from then on the session is unknown (404).
const (
	CrashBefore    = "crash-before" // the connection ends instead of an answer
	CrashDuring    = "crash-during" // the connection ends in the middle of an answer
	CrashAfter     = "crash-after"  // the connection ends after an answer
	Hang           = "hang"         // no answer, ever, not even to a cancellation
	StopReading    = "stop-reading" // no answer, and the server stops reading (stdio)
	Slow           = "slow"         // Size bytes at a time, every Pause ms
	HalfLine       = "half-line"    // half an answer, without a newline
	Garbage        = "garbage"      // Count messages that are not JSON, then the answer
	Flood          = "flood"        // Count notifications of Size bytes, then the answer
	HugeLine       = "huge-line"    // a notification of Size bytes, then the answer
	WrongID        = "wrong-id"     // an answer to an unknown request, then the right one
	OnlyWrongID    = "only-wrong-id"
	Duplicate      = "duplicate"       // the answer Count times (2 if 0)
	AfterCancel    = "after-cancel"    // an answer once the request has been cancelled
	CloseStdout    = "close-stdout"    // no more output, but the process runs on; HTTP: streams break
	IgnoreShutdown = "ignore-shutdown" // the answer; then the server stops reading and ignores the end of input and SIGTERM (stdio)
)

// Fault is a mistake of the server in the answer to a request. The arguments of the tool "fault"
// are a Fault.
type Fault struct {
	Kind  string `json:"kind"`
	Count int    `json:"count,omitempty"`
	Size  int    `json:"size,omitempty"`  // bytes
	Pause int    `json:"pause,omitempty"` // ms
	// Times is the number of mistakes of a process, 0 for no limit; Skip is the number of correct
	// answers before the first mistake.
	Times int `json:"times,omitempty"`
	Skip  int `json:"skip,omitempty"`
}

// Env is the environment variable that makes a test binary a server.
const Env = "MCPTEST_SERVER"

// Environ returns the environment variables for a process in which Main runs a
// server with these options.
func (sw ServerOptions) Environ() map[string]string {
	raw, err := json.Marshal(sw)
	if err != nil {
		panic(err) // all fields can be encoded
	}
	return map[string]string{Env: string(raw)}
}

// Main runs a server on standard input and output, and exits, if Env is set; otherwise Main does
// nothing. TestMain, main or init call Main first.
func Main() {
	if raw, ok := os.LookupEnv(Env); ok {
		os.Exit(serve(raw, os.Stdin, os.Stdout, true))
	}
}

// Serve is Main in this process, until in ends; env is the value of Env. A server that would exit
// closes in and out.
func Serve(env string, in io.ReadCloser, out io.WriteCloser) {
	defer in.Close()
	defer out.Close()
	serve(env, in, out, false)
}

// serve returns the status with which a process exits.
func serve(env string, in io.Reader, out io.Writer, process bool) int {
	var sw ServerOptions
	if err := json.Unmarshal([]byte(env), &sw); err != nil {
		fmt.Fprintf(os.Stderr, "mcptest: %s: %v\n", Env, err)
		return 2
	}
	if exitAtStart(sw) {
		fmt.Fprintln(os.Stderr, "mcptest: told to exit at start")
		return 4
	}
	s := NewServer(sw)
	if sw.Observer != "" {
		conn, err := net.Dial("tcp", sw.Observer)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mcptest: observer: %v\n", err)
			return 2
		}
		defer conn.Close()
		s.Received.Each = func(e Entry) { show(conn, e.Raw) }
		s.Received.Forget = true
	}
	s.process = process
	s.ServeStdio(in, out)
	return 0
}

// show sends a message to an Observer, and waits until the Observer's Log has the message. So when
// the server has answered a request, the Log has all earlier messages to the server.
func show(observer net.Conn, raw []byte) {
	if _, err := observer.Write(append(raw[:len(raw):len(raw)], '\n')); err == nil {
		_, _ = observer.Read(make([]byte, 1))
	}
}

// exitAtStart counts a start, and reports whether the process has to exit.
func exitAtStart(sw ServerOptions) bool {
	if sw.ExitOnStart == 0 {
		return false
	}
	f, err := os.OpenFile(sw.StartsFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mcptest: count starts: %v\n", err)
		os.Exit(2)
	}
	defer f.Close()
	_, _ = f.WriteString("x")
	info, err := f.Stat()
	return err == nil && info.Size() <= int64(sw.ExitOnStart)
}

// fault returns the fault to inject into a call.
func (s *Server) fault(c *call) Fault {
	name := c.msg.Method
	if c.tool != "" {
		name = c.tool
	}
	f := s.sw.Faults[name]
	if c.tool == "fault" {
		f = faultOf(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[name]++
	if n := s.served[name] - f.Skip; n <= 0 || f.Times > 0 && n > f.Times {
		return Fault{}
	}
	return f
}

// faultOf reads the arguments of the tool "fault".
func faultOf(c *call) Fault {
	kind, _ := wire.GetString(c.msg.Params, "arguments", "kind")
	return Fault{Kind: kind, Count: c.number("count"), Size: c.number("size"), Pause: c.number("pause")}
}

// deliver writes the answer, with the fault.
func (c *call) deliver(reply wire.Reply, f Fault) {
	msg := wire.Response(c.msg.ID, reply)
	switch f.Kind {
	case CrashDuring, HalfLine:
		framed := c.out.frame(msg)
		c.out.write(framed[:len(framed)/2], 0, nil)
		if f.Kind == CrashDuring {
			c.crash()
			return
		}
		<-c.cancelled
	case CrashAfter:
		c.out.send(msg, true)
		c.crash()
	case Hang, StopReading:
		<-c.ctx.Done()
	case Slow:
		c.writeSlowly(c.out.frame(msg), f)
	case CloseStdout:
		c.closeOutput()
		<-c.ctx.Done()
	case AfterCancel:
		<-c.cancelled
		c.out.send(msg, true)
	case OnlyWrongID:
		c.out.send(wire.Response([]byte("987654321"), reply), true)
	default:
		c.answerWith(msg, reply, f)
	}
}

// answerWith injects the faults that end with the right answer.
func (c *call) answerWith(msg []byte, reply wire.Reply, f Fault) {
	switch f.Kind {
	case Garbage:
		for range max(f.Count, 1) {
			c.out.send([]byte("this is not JSON-RPC"), false)
		}
	case Flood:
		filler := wire.Quote(string(bytes.Repeat([]byte("x"), f.Size)))
		for range max(f.Count, 1) {
			c.notify("notifications/message", append(append([]byte(`{"level":"debug","data":`), filler...), '}'))
		}
	case HugeLine:
		c.notify("notifications/huge", append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), f.Size)...), `"}`...))
	case WrongID:
		c.out.send(wire.Response([]byte("987654321"), reply), false)
	case Duplicate:
		for range max(f.Count, 2) - 1 {
			c.out.send(msg, false)
		}
	case IgnoreShutdown:
		signal.Ignore(syscall.SIGTERM)
	}
	c.out.send(msg, true)
}

// writeSlowly writes a few bytes at a time, for as long as the session lasts.
func (c *call) writeSlowly(b []byte, f Fault) {
	ticker := time.NewTicker(max(time.Duration(f.Pause)*time.Millisecond, time.Microsecond))
	defer ticker.Stop()
	c.out.write(b, max(f.Size, 1), func() bool {
		select {
		case <-ticker.C:
			return true
		case <-c.ctx.Done():
			return false
		}
	})
}

// closeOutput closes standard output and leaves the process running.
func (c *call) closeOutput() {
	if c.srv.process {
		_ = os.Stdout.Close()
		return
	}
	c.out.abort()
	c.general.abort()
}
