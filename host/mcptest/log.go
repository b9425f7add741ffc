package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// Entry is a received message.
type Entry struct {
	// Stream names the source: "stdio", a session of a server, or one of the streams of an HTTP
	// client ("get", "post 7", with the raw id).
	Stream string
	// Raw is the message without framing.
	Raw []byte
	// Msg is Raw parsed; zero if Raw is not a JSON-RPC message.
	Msg wire.Message
	// Header is from the HTTP request that carried the message to a server; otherwise nil.
	Header http.Header
}

// Log records the messages that a peer received, in order. A Log is safe for concurrent use.
type Log struct {
	// Each is called with every entry, in order, before Find returns the entry, and must not use
	// the Log. Forget keeps no entries. Both are set before the first entry.
	Each   func(Entry)
	Forget bool

	mu      sync.Mutex
	entries []Entry
	more    chan struct{} // closed at the next entry; nil if nothing waits
}

// add records a message; the Log keeps raw.
func (l *Log) add(stream string, raw []byte, header http.Header) Entry {
	e := Entry{Stream: stream, Raw: raw, Header: header}
	if m, err := wire.Parse(raw); err == nil {
		e.Msg = m
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Each != nil {
		l.Each(e)
	}
	if !l.Forget {
		l.entries = append(l.entries, e)
	}
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return e
}

// All returns the entries so far.
func (l *Log) All() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Len returns the number of entries so far, the index of the next entry.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Find waits for the first matching entry at or after index from, and returns the entry and the
// index after the entry. If ctx ends, the error wraps the cause and names wanted.
func (l *Log) Find(ctx context.Context, wanted string, from int, match func(Entry) bool) (Entry, int, error) {
	for {
		l.mu.Lock()
		for ; from < len(l.entries); from++ {
			if e := l.entries[from]; match(e) {
				l.mu.Unlock()
				return e, from + 1, nil
			}
		}
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return Entry{}, from, fmt.Errorf("wait for %s: %w", wanted, context.Cause(ctx))
		}
	}
}

// Method matches requests and notifications of a method.
func Method(name string) func(Entry) bool {
	return func(e Entry) bool { return e.Msg.Method == name }
}

// CallOf matches tools/call requests of a tool.
func CallOf(tool string) func(Entry) bool {
	return func(e Entry) bool {
		name, _ := wire.GetString(e.Msg.Params, "name")
		return e.Msg.Method == "tools/call" && name == tool
	}
}

// ResponseTo matches the response to a request with the raw id.
func ResponseTo(id string) func(Entry) bool {
	key := wire.IDKey([]byte(id))
	return func(e Entry) bool {
		return e.Msg.ID != nil && e.Msg.IsResponse() && wire.IDKey(e.Msg.ID) == key
	}
}

// ProgressWith matches progress with a raw token.
func ProgressWith(token string) func(Entry) bool {
	return func(e Entry) bool {
		got, _ := wire.Get(e.Msg.Params, "progressToken")
		return e.Msg.Method == "notifications/progress" && string(got) == token
	}
}

// methodClosed is the method of an entry in the log of a server, in the form of a
// notification: the client has closed the connection of a request of the stateless era.
const methodClosed = "(closed)"

// CancelOf matches the cancellation of a request that the server received.
func CancelOf(request Entry) func(Entry) bool {
	return func(e Entry) bool {
		id, _ := wire.Get(e.Msg.Params, "requestId")
		return (e.Msg.Method == "notifications/cancelled" || e.Msg.Method == methodClosed) && wire.IDKey(id) == wire.IDKey(request.Msg.ID)
	}
}

// Diff compares two JSON texts token by token. The order of members counts, and so do all digits of
// numbers. Strings are equal if they have the same value, even if escaped differently. White space
// between tokens is ignored. Diff returns "" for equal texts, else the first difference, with a
// JSON pointer (RFC 6901) and both values.
func Diff(want, got []byte) string {
	w, g := tokens(want), tokens(got)
	for {
		wantToken, wantErr := w.next()
		gotToken, gotErr := g.next()
		switch {
		case errors.Is(wantErr, io.EOF) && errors.Is(gotErr, io.EOF):
			return ""
		case wantErr != nil || gotErr != nil:
			return fmt.Sprintf("at %s: want %s, got %s", w.place(), describe(wantToken, wantErr), describe(gotToken, gotErr))
		case !sameToken(wantToken, gotToken):
			return fmt.Sprintf("at %s: want %s, got %s", w.place(), describe(wantToken, nil), describe(gotToken, nil))
		}
	}
}

type tokenReader struct{ *jsontext.Decoder }

func tokens(raw []byte) tokenReader {
	return tokenReader{jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// next returns the next token as written.
func (r tokenReader) next() ([]byte, error) {
	switch r.PeekKind() {
	case '{', '}', '[', ']':
		token, err := r.ReadToken()
		if err != nil {
			return nil, err
		}
		return []byte(token.String()), nil
	default:
		value, err := r.ReadValue()
		return bytes.Clone(value), err
	}
}

func (r tokenReader) place() string {
	if p := r.StackPointer(); p != "" {
		return string(p)
	}
	return "the top"
}

func sameToken(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) == 0 || len(b) == 0 || a[0] != '"' || b[0] != '"' {
		return false
	}
	// Invalid Unicode has no value to compare.
	x, errX := jsontext.AppendUnquote(nil, a)
	y, errY := jsontext.AppendUnquote(nil, b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func describe(token []byte, err error) string {
	const most = 200
	switch {
	case errors.Is(err, io.EOF):
		return "the end"
	case err != nil:
		return err.Error()
	case len(token) > most:
		return fmt.Sprintf("%s... (%d bytes)", token[:most], len(token))
	}
	return string(token)
}

// Observer records the messages that servers in other processes receive. Each process is a stream
// of the Log, "process 1" and so on. The first entry of a stream is "started"; "ended" is added
// once the process has ended.
type Observer struct {
	Log Log

	listener net.Listener
	work     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

// NewObserver listens on a local port. The caller must Close the Observer.
func NewObserver() (*Observer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &Observer{listener: l}
	o.work.Go(o.accept)
	return o, nil
}

// Addr returns the address for ServerOptions.Observer.
func (o *Observer) Addr() string { return o.listener.Addr().String() }

// Close stops listening and waits for the Observer's goroutines, but not for the processes.
func (o *Observer) Close() {
	_ = o.listener.Close()
	o.mu.Lock()
	for _, c := range o.conns {
		_ = c.Close()
	}
	o.mu.Unlock()
	o.work.Wait()
}

func (o *Observer) accept() {
	for n := 1; ; n++ {
		conn, err := o.listener.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		o.conns = append(o.conns, conn)
		o.mu.Unlock()
		name := fmt.Sprintf("process %d", n)
		o.Log.add(name, []byte("started"), nil)
		o.work.Go(func() {
			lines(bufio.NewReader(conn), func(line []byte) {
				o.Log.add(name, line, nil)
				_, _ = conn.Write([]byte{0}) // the server waits for this byte
			})
			o.Log.add(name, []byte("ended"), nil)
			_ = conn.Close()
		})
	}
}

// lines calls f with each line that is not blank, without surrounding space. f may keep the line.
func lines(r *bufio.Reader, f func([]byte)) {
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			f(line)
		}
		if err != nil {
			return
		}
	}
}

// patience returns how long a test waits for a necessary event: a minute, longer on a slow machine,
// much less than the time limit of go test.
func patience() time.Duration { return testenv.Deadline(time.Minute) }

// Bounded returns a context for waiting. The context ends after patience, so that a test fails
// where it waits in vain.
func Bounded(t testing.TB) context.Context {
	patience := patience()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("the test has waited for %v", patience))
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value from a channel. If none arrives within patience, the test fails
// and names the expected value.
func Receive[T any](t testing.TB, wanted string, from <-chan T) T {
	t.Helper()
	patience := patience()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case value := <-from:
		return value
	case <-late.C:
		t.Fatalf("%s: nothing after %v", wanted, patience)
		panic("unreachable")
	}
}

// Buffer collects written text, such as a log. A Buffer is safe for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns all text written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// LineWriter writes newline-delimited messages, each whole. A LineWriter is safe for concurrent
// use.
type LineWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewLineWriter returns a LineWriter to w.
func NewLineWriter(w io.Writer) *LineWriter { return &LineWriter{w: w} }

// Write writes a message and a newline.
func (w *LineWriter) Write(msg []byte) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _, w.buf, err = wire.WriteLines(w.w, w.buf, [][]byte{msg})
	return err
}
