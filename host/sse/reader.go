// Package sse reads streams of server-sent events (HTML standard, 9.2.6).
package sse

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/budget"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

const (
	maxExcerpt = 256      // bytes of each end of an event that is too large
	windowSize = 16 << 10 // bytes read at a time
	maxEventID = 4 << 10  // bytes; a longer id could not be sent back in a header
	maxRetry   = 24 * time.Hour
)

// Event is one server-sent event with data, perhaps empty.
type Event struct {
	Name string // "" where the server gave none, which means "message"
	Data []byte // the lines of data joined by \n; the receiver owns it
	// Head and Tail are the beginning and the end of the data of an event that is
	// too large, at most 256 bytes each; Data is nil then.
	Head, Tail []byte
}

// Reader reads a text/event-stream (HTML standard, 9.2.6): lines that end
// in \n, \r\n or \r, a byte order mark at the start, comments, the fields
// event, data, id and retry. An event that is cut off by the end of the stream is
// dropped, and so is its id. It is for one goroutine.
type Reader struct {
	r   io.Reader
	max int // bytes of data of one event
	// room is where large events are counted; nil: nowhere.
	room *wire.Room

	// LastID is the id of the last whole event, to resume behind it; empty for
	// none. An event without data counts as well (SEP-1699 primes with it). Its
	// bytes are good until the next event.
	LastID []byte
	// Retry is how long the server wants us to wait before we connect again;
	// negative while it has not said.
	Retry time.Duration

	window     []byte // read from r
	start, end int    // of what is not taken from window yet
	begun      bool   // a byte order mark can come no more
	afterCR    bool   // a \n now belongs to the line before

	line    []byte // the part of the current line that left the window
	cutting bool   // the current line is too long: line is its head only
	tail    []byte // and tail its end

	// Wasted is told of bytes that are of no event with data: comments, fields
	// without end, what is over the limit. Nil: nobody is.
	Wasted func(bytes int)
	fields int // lines of the event so far that are no data

	// The event so far.
	name  string
	data  []byte
	has   bool // a data field was there
	large bool // more than max
	long  excerpt
	id    []byte
	hasID bool

	lineHold, dataHold *budget.Hold // of line and data while they are large
}

var readers = sync.Pool{New: func() any { return &Reader{window: make([]byte, windowSize)} }}

// NewReader makes a reader of r whose events have at most max bytes of
// data. It must be released.
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = wire.DefaultMaxMessage
	}
	e := readers.Get().(*Reader)
	e.r, e.max, e.Retry = r, max, -1
	return e
}

// After sets the id that is valid until the stream brings another one.
func (e *Reader) After(id string) *Reader {
	e.LastID = append(e.LastID[:0], id...)
	return e
}

// Within makes large events wait for room before they are read.
func (e *Reader) Within(room *wire.Room) *Reader {
	e.room = room
	return e
}

// count waits for room for something of size bytes. An error would be the end of
// the context, which ends the stream too.
func (e *Reader) count(hold **budget.Hold, size int) {
	if e.room == nil || size <= budget.Small {
		return
	}
	if *hold == nil {
		*hold = e.room.Open()
	}
	_ = (*hold).Fit(e.room.Context, size)
}

// counted says that b is complete: it is counted until it is garbage. For an empty
// b nothing is counted any more.
func counted(hold **budget.Hold, b []byte) {
	if *hold != nil {
		(*hold).Attach(b[:min(len(b), 1)])
		*hold = nil
	}
}

// Release gives the reader back. It must not be used any more.
func (e *Reader) Release() {
	counted(&e.lineHold, nil)
	counted(&e.dataHold, nil)
	*e = Reader{window: e.window, LastID: e.LastID[:0], id: e.id[:0]}
	readers.Put(e)
}

// Next returns the next event. A *wire.TooLargeError comes with an event that
// tells what was skipped, and the next call goes on behind it. Other errors
// are those of the stream, io.EOF at its end.
func (e *Reader) Next() (Event, error) {
	for {
		l, err := e.readLine()
		switch {
		case err != nil:
			return Event{}, err
		case len(l.text) > 0:
			e.field(l)
			continue
		}
		if !e.has {
			e.waste(1)
		}
		e.fields = 0
		if e.hasID {
			e.LastID, e.id = e.id, e.LastID
		}
		counted(&e.dataHold, e.data)
		has, ev, large := e.has, Event{Name: e.name, Data: e.data, Head: e.long.head, Tail: e.long.tail}, e.large
		e.name, e.data, e.has, e.large, e.long, e.id, e.hasID = "", nil, false, false, excerpt{}, e.id[:0], false
		switch {
		case large:
			return ev, &wire.TooLargeError{Limit: e.max}
		case has:
			return ev, nil
		}
	}
}

// excerpt is the beginning and the end of data that is too large.
type excerpt struct{ head, tail []byte }

// eventLine is a line of the stream without its ending.
type eventLine struct {
	text []byte
	kept bool   // text is the receiver's; otherwise it is good until more is read
	tail []byte // not nil if the line was too long, and text is its head only
}

// field takes a line that is not empty.
func (e *Reader) field(l eventLine) {
	name, value, _ := bytes.Cut(l.text, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	if string(name) != "data" {
		if e.fields++; e.fields > usualFields || len(name) == 0 {
			e.waste(len(l.text))
		}
	}
	switch string(name) {
	case "data":
		e.addData(value, l)
	case "event":
		e.name = "message"
		if string(value) != e.name {
			e.name = string(value[:min(len(value), maxExcerpt)])
		}
	case "id":
		if l.tail == nil && len(value) <= maxEventID && bytes.IndexByte(value, 0) < 0 {
			e.id, e.hasID = append(e.id[:0], value...), true
		}
	case "retry":
		if ms, ok := digits(value); ok && l.tail == nil {
			e.Retry = min(time.Duration(ms)*time.Millisecond, maxRetry)
		}
	}
}

// usualFields is how many lines beside its data an event may have for free.
const usualFields = 8

func (e *Reader) waste(bytes int) {
	if e.Wasted != nil {
		e.Wasted(bytes)
	}
}

// digits reads a number of ASCII digits, and nothing else. Numbers above maxRetry
// are maxRetry.
func digits(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if errors.Is(err, strconv.ErrRange) || n > int64(maxRetry/time.Millisecond) {
		return int64(maxRetry / time.Millisecond), true
	}
	return n, err == nil
}

func (e *Reader) addData(value []byte, l eventLine) {
	tail := l.tail
	joined := len(value)
	if e.has {
		joined += len(e.data) + len("\n")
	}
	switch {
	case e.large:
		e.waste(len(value))
		if tail == nil {
			tail = value
		}
		e.long.tail = lastBytes(append(append(e.long.tail, '\n'), tail[max(0, len(tail)-maxExcerpt):]...))
	case tail != nil || joined > e.max:
		head := value
		if len(e.data) > 0 {
			head = e.data
		}
		if tail == nil {
			tail = lastBytes(value)
		}
		e.large, e.data = true, nil
		counted(&e.dataHold, nil)
		e.long = excerpt{head: bytes.Clone(head[:min(len(head), maxExcerpt)]), tail: tail}
	case !e.has && l.kept:
		e.data = value
	case !e.has:
		e.data = append(make([]byte, 0, len(value)), value...)
	default:
		if joined > cap(e.data) {
			e.count(&e.dataHold, 2*joined)
			e.data = slices.Grow(e.data, 2*joined-len(e.data))
		}
		e.data = append(append(e.data, '\n'), value...)
	}
	e.has = true
}

func lastBytes(b []byte) []byte { return bytes.Clone(b[max(0, len(b)-maxExcerpt):]) }

// readLine returns the next line.
func (e *Reader) readLine() (eventLine, error) {
	for {
		if e.start == e.end {
			if err := e.fill(); err != nil {
				return eventLine{}, err
			}
		}
		w := e.window[e.start:e.end]
		if e.afterCR {
			e.afterCR = false
			if w[0] == '\n' {
				e.start++
				continue
			}
		}
		i := lineEnd(w)
		if i < 0 {
			e.keep(w)
			e.start = e.end
			continue
		}
		e.afterCR = w[i] == '\r'
		e.start += i + 1
		if len(e.line) == 0 {
			return eventLine{text: w[:i]}, nil
		}
		e.keep(w[:i])
		counted(&e.lineHold, e.line)
		l := eventLine{text: e.line, kept: true, tail: e.tail}
		e.line, e.tail, e.cutting = nil, nil, false
		return l, nil
	}
}

// lineEnd is where the first line in w ends, or -1. A \r is looked for only
// before the first \n, so that a window of many lines is read once.
func lineEnd(w []byte) int {
	i := bytes.IndexByte(w, '\n')
	if i < 0 {
		return bytes.IndexByte(w, '\r')
	}
	if cr := bytes.IndexByte(w[:i], '\r'); cr >= 0 {
		return cr
	}
	return i
}

// keep adds a part to the current line. A comment is not worth keeping.
func (e *Reader) keep(part []byte) {
	const room = len("event: ") // more than any field that matters has before its value
	switch {
	case len(part) == 0:
	case e.cutting:
		e.waste(len(part))
		e.tail = lastBytes(append(e.tail, part[max(0, len(part)-maxExcerpt):]...))
	case len(e.line)+len(part) > e.max+room || len(e.line) > 0 && e.line[0] == ':':
		all := append(e.line, part[:min(len(part), 2*maxExcerpt)]...)
		e.tail = lastBytes(append(lastBytes(e.line), part[max(0, len(part)-maxExcerpt):]...))
		e.line = bytes.Clone(all[:min(len(all), maxExcerpt+room)])
		e.cutting = true
		counted(&e.lineHold, nil)
	case e.line == nil:
		e.line = bytes.Clone(part)
	default:
		if cap(e.line)-len(e.line) < len(part) { // append alone would copy a long line over and over
			more := max(len(e.line), len(part))
			e.count(&e.lineHold, len(e.line)+more)
			e.line = slices.Grow(e.line, more)
		}
		e.line = append(e.line, part...)
	}
}

// fill reads into the empty window.
func (e *Reader) fill() error {
	e.start, e.end = 0, 0
	for e.end == 0 || !e.begun && e.end < len(bom) {
		n, err := e.r.Read(e.window[e.end:])
		e.end += n
		if !e.begun && !bytes.HasPrefix(bom, e.window[:min(e.end, len(bom))]) {
			e.begun = true
		}
		if err != nil {
			if e.end > 0 {
				e.r = ended{err}
				break
			}
			return err
		}
	}
	if !e.begun {
		e.begun = true
		if bytes.HasPrefix(e.window[:e.end], bom) {
			e.start = len(bom)
			if e.start == e.end {
				return e.fill()
			}
		}
	}
	return nil
}

var bom = []byte("\xEF\xBB\xBF")

// ended is a reader that has nothing more.
type ended struct{ err error }

func (e ended) Read([]byte) (int, error) { return 0, e.err }
