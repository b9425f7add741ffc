package mcptest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
)

// Switches say how a Server behaves. The zero value is a server that has
// everything and does nothing wrong. It can be encoded as JSON, see Environ.
type Switches struct {
	// Name in its serverInfo; "raw" if empty.
	Name string
	// Revision it answers with; "" is the client's.
	Revision string
	// Capabilities is the raw object it declares; "" for all there are.
	Capabilities string
	// PageSize is the number of items on a page of a list; 0 is 3.
	PageSize int
	// StringIDs gives its own requests ids that are strings. They are numbers
	// from 1 on otherwise, like those of many clients.
	StringIDs bool
	// Faults by method ("initialize") or name of a tool.
	Faults map[string]Fault
	// ExitOnStart makes that many processes exit before they read anything;
	// StartsFile counts them.
	ExitOnStart int
	StartsFile  string
	// Observer is the address of an Observer, for servers in processes.
	Observer string

	// Answers is the form of HTTP answers: "" is an event stream, "json" JSON
	// (what comes before the answer goes to the GET stream), "auto" JSON where
	// nothing comes before the answer.
	Answers string
	// CutAfter ends the connection, not the stream, after each so many events;
	// clients have to resume it. 0 never does.
	CutAfter int
	// NoSessions gives HTTP clients no session id: all of them are one session.
	NoSessions bool
	// NoListening refuses the GET stream with 405.
	NoListening bool
}

// Kinds of faults. Where "the connection" is said: over stdio, the process
// exits with status 3 (in process: both pipes are closed); over HTTP, all
// connections of the session break, and it is unknown from then on (404).
const (
	CrashBefore  = "crash-before" // the connection ends instead of an answer
	CrashDuring  = "crash-during" // it ends in the middle of one
	CrashAfter   = "crash-after"  // it ends after one
	Hang         = "hang"         // no answer, ever, not even to a cancellation
	Deaf         = "deaf"         // no answer, and nothing is read any more (stdio)
	Slow         = "slow"         // Size bytes at a time, every Pause ms
	HalfLine     = "half-line"    // half an answer, without its end
	Garbage      = "garbage"      // Count messages that are not JSON, then the answer
	Flood        = "flood"        // Count notifications of Size bytes, then the answer
	HugeLine     = "huge-line"    // a notification of Size bytes, then the answer
	WrongID      = "wrong-id"     // an answer to a request that nobody made, then the right one
	OnlyWrongID  = "only-wrong-id"
	Duplicate    = "duplicate"     // the answer Count times (2 if 0)
	AfterCancel  = "after-cancel"  // an answer once the request has been cancelled
	CloseStdout  = "close-stdout"  // no more output, but alive; HTTP: streams break
	StubbornExit = "stubborn-exit" // the answer; nothing is read any more, and neither end of input nor SIGTERM ends it (stdio)
)

// Fault is something done wrong with the answer to a request. The tool "fault"
// takes one as its arguments.
type Fault struct {
	Kind  string `json:"kind"`
	Count int    `json:"count,omitempty"`
	Size  int    `json:"size,omitempty"`  // bytes
	Pause int    `json:"pause,omitempty"` // ms
	// Times is how often a process does it, 0 for always; Skip is how often it
	// behaves well before.
	Times int `json:"times,omitempty"`
	Skip  int `json:"skip,omitempty"`
}

// Env is the environment variable that makes a test binary a server.
const Env = "MCP_PEERTEST_SERVER"

// Environ is the environment of a process whose Main is to be a server with
// these switches.
func (sw Switches) Environ() map[string]string {
	raw, err := json.Marshal(sw)
	if err != nil {
		panic(err) // it has nothing that cannot be encoded
	}
	return map[string]string{Env: string(raw)}
}

// Main runs a server on standard input and output and exits, in a process with
// Env; in others it does nothing. Call it first thing in TestMain, main or
// init.
func Main() {
	raw, ok := os.LookupEnv(Env)
	if !ok {
		return
	}
	var sw Switches
	if err := json.Unmarshal([]byte(raw), &sw); err != nil {
		fmt.Fprintf(os.Stderr, "mcptest: %s: %v\n", Env, err)
		os.Exit(2)
	}
	if exitAtStart(sw) {
		fmt.Fprintln(os.Stderr, "mcptest: told to exit at start")
		os.Exit(4)
	}
	s := NewServer(sw)
	if sw.Observer != "" {
		conn, err := net.Dial("tcp", sw.Observer)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mcptest: observer: %v\n", err)
			os.Exit(2)
		}
		s.Received.Each = func(e Entry) { _, _ = conn.Write(append(e.Raw[:len(e.Raw):len(e.Raw)], '\n')) }
		s.Received.Forget = true
	}
	s.process = true
	s.ServeStdio(os.Stdin, os.Stdout)
	os.Exit(0)
}

// exitAtStart counts a start.
func exitAtStart(sw Switches) bool {
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
