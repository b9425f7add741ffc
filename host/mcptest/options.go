package mcptest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// ServerOptions configure how a Server behaves. The zero value is a server that declares
// all capabilities and makes no mistakes. It can be encoded as JSON; see Environ.
type ServerOptions struct {
	// Name is the name in its serverInfo; "raw" if empty.
	Name string
	// Hints are the cache hints of its results in the stateless era, each with a comma; "":
	// some of its own. Only for servers in the same process.
	Hints string
	// Revision is the revision it answers with; "" is the client's.
	Revision string
	// Capabilities is the raw object it declares; "" declares all.
	Capabilities string
	// Eras is what it speaks: EraLegacy, EraModern or EraBoth; "" is EraLegacy.
	Eras string
	// Versions are the revisions that it supports in the stateless era; nil: Modern, and
	// the newest of the other era with EraBoth.
	Versions []string
	// Discover is the raw result of server/discover; "" is a correct one.
	Discover string
	// Items replaces the items of its lists: raw definitions. The tools answer like echo.
	Items map[wire.Surface][]string
	// CallTool, if set, answers calls of tools in place of everything else. The zero Reply is
	// no answer. cancelled is closed when the call is cancelled. Only for servers in the same
	// process.
	CallTool func(cancelled <-chan struct{}, tool string, params []byte) wire.Reply `json:"-"`
	// HeaderTools adds a tool whose argument is repeated in a header, and one whose
	// annotation for that is invalid.
	HeaderTools bool
	// OneSubscription ends the subscription that goes on when another one begins.
	OneSubscription bool
	// SamplingTool adds a tool for a client that says at its initialize that it supports sampling.
	SamplingTool bool
	// SharedSubscription is how the Go SDK 1.8 has subscriptions: whatever the subscriptions of
	// a connection have asked for is sent for the newest one, and the end of any of them ends it.
	// One that was cancelled is answered. Only over stdio.
	SharedSubscription bool
	// RefusesSubscription, if set, says for which resources subscriptions are refused.
	RefusesSubscription func(uri string) bool `json:"-"`
	// PageSize is the number of items on a page of a list; 0 is 3.
	PageSize int
	// StringIDs makes the ids of its own requests strings. Otherwise they are
	// numbers from 1, like those of many clients.
	StringIDs bool
	// Faults are the faults by method ("initialize") or tool name.
	Faults map[string]Fault
	// ExitOnStart is how many processes exit before they read anything. StartsFile
	// is a file that counts the starts.
	ExitOnStart int
	StartsFile  string
	// Observer is the address of an Observer, for servers with their own process.
	Observer string

	// Answers is the form of HTTP answers: "" is an event stream; "json" is JSON,
	// and messages before the answer go to the GET stream; "auto" is JSON if there
	// are no messages before the answer.
	Answers string
	// EarlyHeader begins the event stream of each answer at once, as most servers do,
	// and not with its first message.
	EarlyHeader bool
	// CutAfter is after how many events the connection ends, but not the stream,
	// which clients have to resume; 0 is never.
	CutAfter int
	// NoSessions sends HTTP clients no session id: all of them share one session.
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
	WrongID        = "wrong-id"     // an answer to a request that was not made, then the right one
	OnlyWrongID    = "only-wrong-id"
	Duplicate      = "duplicate"       // the answer Count times (2 if 0)
	AfterCancel    = "after-cancel"    // an answer once the request has been cancelled
	CloseStdout    = "close-stdout"    // no more output, but the process runs on; HTTP: streams break
	IgnoreShutdown = "ignore-shutdown" // the answer; then it stops reading and ignores the end of input and SIGTERM (stdio)
)

// Fault is a mistake that the server makes when it answers a request. The tool
// "fault" takes one as its arguments.
type Fault struct {
	Kind  string `json:"kind"`
	Count int    `json:"count,omitempty"`
	Size  int    `json:"size,omitempty"`  // bytes
	Pause int    `json:"pause,omitempty"` // ms
	// Times is how often a process makes the mistake, 0 for always; Skip is how
	// many requests it answers correctly first.
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
		panic(err) // all its fields can be encoded
	}
	return map[string]string{Env: string(raw)}
}

// Main runs a server on standard input and output, and exits, if Env is set;
// otherwise it does nothing. Call it first in TestMain, main or init.
func Main() {
	if raw, ok := os.LookupEnv(Env); ok {
		os.Exit(serve(raw, os.Stdin, os.Stdout, true))
	}
}

// Serve does the same in this process, until in ends; env is the value of Env. A server that would
// exit closes in and out.
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

// show sends a message to an Observer, and waits until the Observer's Log has it. So when the server
// has answered a request, the Log has all messages that the server received before.
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
