package wire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

const (
	maxExcerpt = 256      // bytes kept of each end of an event above the limit
	windowSize = 16 << 10 // bytes read at a time
	maxEventID = 4 << 10  // bytes; a longer id could not be sent back in a header
	maxRetry   = 24 * time.Hour
)

// Event is a server-sent event with data, which may be empty.
type Event struct {
	Name string // "" if the server sent none, which means "message"
	Data []byte // the lines of data joined by \n; owned by the receiver
	// Head and Tail are the beginning and the end of the data of an event above the limit, at most
	// 256 bytes each. Data is then nil.
	Head, Tail []byte
}

// EventReader reads a text/event-stream (HTML standard, 9.2.6): lines ending in \n, \r\n or \r, a
// byte order mark at the start, comments, and the fields event, data, id and retry. An event cut
// off by the end of the stream is dropped together with the event's id. An EventReader is for one
// goroutine.
type EventReader struct {
	r   io.Reader
	max int // bytes of data of one event
	// budget is where large events are counted; nil: they are not counted.
	budget *ReadBudget
	// ofBudget is set if max follows from budget.
	ofBudget bool

	// LastID is the id of the last complete event, after which the stream can be
	// resumed; empty for none. Events without data count too (SEP-1699 uses them to
	// send the first id). The bytes are valid until the next event.
	LastID []byte
	// Retry is the time to wait before the next connection, as set by the server; negative if never
	// set.
	Retry time.Duration

	window     []byte // read from r
	start, end int    // the unused part of window
	newline    int    // the first \n after start, or end; before start if the search is still to be done
	begun      bool   // the start of the stream, where a byte order mark may be, has been read
	afterCR    bool   // the last line ended in \r; a \n that follows belongs to the same ending

	line    []byte // the beginning of the current line, if no longer in window
	cutting bool   // the current line is too long; line has only its head
	tail    []byte // the end of a line above the limit

	// Wasted is called with the number of bytes outside of events with data: comments, an excessive
	// number of fields, data above the limit. Wasted may be nil.
	Wasted func(bytes int)
	fields int // the number of lines of the current event without data

	// The current event.
	name  string
	data  []byte
	has   bool // the event has a data field
	large bool // more than max
	long  cutData
	id    []byte
	hasID bool

	lineHold, dataHold *budget.Hold // for line and data while they are large
}

var readers = sync.Pool{New: func() any { return &EventReader{window: make([]byte, windowSize)} }}

// NewEventReader returns an EventReader of r. max is the size limit of an event's data in bytes; 0:
// wire.DefaultMaxMessage. The caller must call Release.
func NewEventReader(r io.Reader, max int) *EventReader {
	if max <= 0 {
		max = DefaultMaxMessage
	}
	e := readers.Get().(*EventReader)
	e.r, e.max, e.Retry = r, max, -1
	return e
}

// After sets LastID, which is valid until the stream has another id.
func (e *EventReader) After(id string) *EventReader {
	e.LastID = append(e.LastID[:0], id...)
	return e
}

// WithBudget makes large events wait for memory in b, where they are counted.
func (e *EventReader) WithBudget(b *ReadBudget) *EventReader {
	e.budget = b
	e.max, e.ofBudget = b.Limit(e.max)
	return e
}

// count waits for memory for size bytes. The only error would be the end of the context, which also
// ends the stream; so count ignores the error.
func (e *EventReader) count(hold **budget.Hold, size int) {
	if e.budget == nil || size <= budget.Small {
		return
	}
	if *hold == nil {
		*hold = e.budget.Open()
	}
	_ = (*hold).Fit(e.budget.Context, size)
}

// counted ends the use of a hold: b is complete and counts until garbage collection. An empty b
// does not count.
func counted(hold **budget.Hold, b []byte) {
	if *hold != nil {
		(*hold).Attach(b[:min(len(b), 1)])
		*hold = nil
	}
}

// Release returns the reader to a pool. The reader must not be used afterwards.
func (e *EventReader) Release() {
	counted(&e.lineHold, nil)
	counted(&e.dataHold, nil)
	*e = EventReader{window: e.window, LastID: e.LastID[:0], id: e.id[:0]}
	readers.Put(e)
}

// Next returns the next event. With a *wire.TooLargeError, Next returns the Name, Head and Tail of
// the skipped event, and the next call returns the following event. Other errors come from the
// stream: io.EOF at the end.
func (e *EventReader) Next() (Event, error) {
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
		e.name, e.data, e.has, e.large, e.long, e.id, e.hasID = "", nil, false, false, cutData{}, e.id[:0], false
		switch {
		case large:
			return ev, &TooLargeError{Limit: e.max, Budget: e.ofBudget}
		case has:
			return ev, nil
		}
	}
}

// cutData is the beginning and the end of data above the limit.
type cutData struct{ head, tail []byte }

// eventLine is a line of the stream without its ending.
type eventLine struct {
	text []byte
	kept bool   // text may be kept; otherwise text is valid until the next read
	tail []byte // not nil if the line was too long; then text is only its head
}

// field handles a non-empty line.
func (e *EventReader) field(l eventLine) {
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

// usualFields is how many lines other than data an event may have before they count as
// wasted.
const usualFields = 8

func (e *EventReader) waste(bytes int) {
	if e.Wasted != nil {
		e.Wasted(bytes)
	}
}

// digits parses a number of milliseconds in ASCII digits, and returns at most maxRetry.
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

func (e *EventReader) addData(value []byte, l eventLine) {
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
		e.long = cutData{head: bytes.Clone(head[:min(len(head), maxExcerpt)]), tail: tail}
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
func (e *EventReader) readLine() (eventLine, error) {
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
		i := e.lineEnd() - e.start
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

// lineEnd returns the index in the window of the end of the current line, or -1. Each byte is
// searched once, for any number of lines.
func (e *EventReader) lineEnd() int {
	if e.newline < e.start {
		e.newline = e.end
		if i := bytes.IndexByte(e.window[e.start:e.end], '\n'); i >= 0 {
			e.newline = e.start + i
		}
	}
	switch i := bytes.IndexByte(e.window[e.start:e.newline], '\r'); {
	case i >= 0:
		return e.start + i
	case e.newline < e.end:
		return e.newline
	}
	return -1
}

// keep adds a part to the current line. Of a comment, only the head is kept.
func (e *EventReader) keep(part []byte) {
	const room = len("event: ") // at least the length of the name of each field in use
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
		if cap(e.line)-len(e.line) < len(part) { // doubles; append alone would copy a long line many times
			more := max(len(e.line), len(part))
			e.count(&e.lineHold, len(e.line)+more)
			e.line = slices.Grow(e.line, more)
		}
		e.line = append(e.line, part...)
	}
}

// fill reads into the empty window.
func (e *EventReader) fill() error {
	e.start, e.end, e.newline = 0, 0, -1
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

// ended is an io.Reader that always returns an error.
type ended struct{ err error }

func (e ended) Read([]byte) (int, error) { return 0, e.err }
