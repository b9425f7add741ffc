package rpc

import (
	"bytes"
	"io"
	"regexp"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// limiter lets 10 log records through in 10 seconds and counts the others.
type limiter struct {
	from    time.Time
	let     int
	skipped int
}

const (
	limiterBurst  = 10
	limiterWindow = 10 * time.Second
)

// allow tells whether to log now, and how many were not logged before.
func (l *limiter) allow() (skipped int, ok bool) {
	if now := time.Now(); now.Sub(l.from) >= limiterWindow {
		l.from, l.let = now, 0
	}
	if l.let == limiterBurst {
		l.skipped++
		return 0, false
	}
	l.let++
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}

// MaxExcerpt is how much is kept of each end of a message that is too long, in
// bytes.
const MaxExcerpt = 256

// Excerpt is the beginning and the end of a message that was skipped because it
// is too long, at most MaxExcerpt bytes each.
type Excerpt struct{ Head, Tail []byte }

// edges passes a stream on and keeps excerpts of the lines that wire.Reader,
// reading behind it, will skip as too long.
type edges struct {
	r     io.Reader
	limit int // bytes of a line, its ending included; as in wire.Reader
	n     int // bytes of the current line so far
	line  Excerpt
	long  []Excerpt // complete ones, oldest first
	blank bool      // there are only spaces in the current line

	// unasked is told of bytes that are of no message: blank lines, and what is over
	// the limit. Nil: nobody is.
	unasked func(bytes int)
}

func newEdges(r io.Reader, max int) *edges {
	if max <= 0 {
		max = wire.DefaultMaxMessage
	}
	return &edges{r: r, limit: max + len("\r\n"), blank: true}
}

func (e *edges) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		e.add(part)
		if whole {
			e.n++
			e.endLine()
		}
		rest = after
	}
	if err != nil {
		e.endLine()
	}
	return n, err
}

func (e *edges) add(part []byte) {
	if room := MaxExcerpt - len(e.line.Head); room > 0 {
		e.line.Head = append(e.line.Head, part[:min(room, len(part))]...)
	}
	before := e.n
	e.n += len(part)
	e.blank = e.blank && len(bytes.TrimSpace(part)) == 0
	if over := e.n - max(before, e.limit); over > 0 && e.unasked != nil {
		e.unasked(over)
	}
	if e.n > e.limit-MaxExcerpt {
		tail := append(e.line.Tail, part[max(0, len(part)-MaxExcerpt):]...)
		e.line.Tail = tail[max(0, len(tail)-MaxExcerpt):]
	}
}

func (e *edges) endLine() {
	if e.blank && e.n > 0 && e.unasked != nil {
		e.unasked(e.n)
	}
	e.blank = true
	if e.n > e.limit {
		e.long = append(e.long, e.line)
		e.line = Excerpt{}
	}
	e.n, e.line.Head, e.line.Tail = 0, e.line.Head[:0], e.line.Tail[:0]
}

// pop is the excerpt of the line that wire.Reader has just skipped.
func (e *edges) pop() Excerpt {
	if e == nil || len(e.long) == 0 {
		return Excerpt{}
	}
	x := e.long[0]
	e.long = e.long[1:]
	return x
}

// lastID matches the end of an object whose last member, or last but jsonrpc,
// is a numeric id. In valid JSON nothing inside a string or a nested value can
// look like it: the brace at the end is the message's own, and a quote within
// a string has a backslash before it.
var lastID = regexp.MustCompile(`,\s*"id"\s*:\s*([0-9]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// ResponseID is the id that we gave the request which the excerpt answers.
func (x Excerpt) ResponseID() (id int64, ok bool) { return ownID(x.responseID()) }

// responseID is the raw id of the response that the excerpt is of, or nil. It
// must be plain that it is a response: its result or error has begun within the
// head. Then the id is in the head too, or at the very end, where the
// TypeScript SDK writes it.
func (x Excerpt) responseID() []byte {
	var id []byte
	var name string
	d := jsontext.NewDecoder(bytes.NewReader(x.Head), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for first := true; ; first = false {
		tok, err := d.ReadToken()
		if err != nil || first != (tok.Kind() == '{') || !first && tok.Kind() != '"' {
			return nil
		}
		if first {
			continue
		}
		name = tok.String()
		value, err := d.ReadValue()
		if name == "method" {
			return nil
		}
		if err != nil {
			break // cut off within this member, the long one
		}
		if name == "id" {
			id = bytes.Clone(value)
		}
	}
	if name != "result" && name != "error" {
		return nil
	}
	if id != nil {
		return id
	}
	if m := lastID.FindSubmatch(x.Tail); m != nil {
		return m[1]
	}
	return nil
}
