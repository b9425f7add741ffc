package rpc

import (
	"bytes"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// limiter allows 10 log records in 10 seconds and counts the rest.
type limiter struct {
	from    time.Time // start of the current window
	allowed int       // in the current window
	skipped int       // since the last record
}

const (
	limiterBurst  = 10
	limiterWindow = 10 * time.Second
)

// allow reports whether to log now, and how many records were skipped before.
func (l *limiter) allow() (skipped int, ok bool) {
	if now := time.Now(); now.Sub(l.from) >= limiterWindow {
		l.from, l.allowed = now, 0
	}
	if l.allowed == limiterBurst {
		l.skipped++
		return 0, false
	}
	l.allowed++
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}

// MaxExcerpt is the number of bytes kept of each end of an oversized message.
const MaxExcerpt = 256

// Excerpt is the beginning and the end of a skipped, oversized message, at most MaxExcerpt bytes
// each.
type Excerpt struct{ Head, Tail []byte }

// lineSampler is an io.Reader that passes a stream on to a wire.Reader, and keeps excerpts of the
// oversized lines that the wire.Reader will skip.
type lineSampler struct {
	r     io.Reader
	limit int // bytes of a line including the ending, as in wire.Reader
	n     int // bytes of the current line so far
	line  Excerpt
	long  []Excerpt // complete ones, oldest first
	blank bool      // the current line has only white space so far

	// unsolicited is called with the number of bytes outside of messages: blank lines, and bytes
	// above the limit. May be nil.
	unsolicited func(bytes int)
}

func newLineSampler(r io.Reader, max int) *lineSampler {
	if max <= 0 {
		max = wire.DefaultMaxMessage
	}
	return &lineSampler{r: r, limit: max + len("\r\n"), blank: true}
}

func (l *lineSampler) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		l.add(part)
		if whole {
			l.n++
			l.endLine()
		}
		rest = after
	}
	if err != nil {
		l.endLine()
	}
	return n, err
}

func (l *lineSampler) add(part []byte) {
	if room := MaxExcerpt - len(l.line.Head); room > 0 {
		l.line.Head = append(l.line.Head, part[:min(room, len(part))]...)
	}
	before := l.n
	l.n += len(part)
	l.blank = l.blank && len(bytes.TrimSpace(part)) == 0
	if over := l.n - max(before, l.limit); over > 0 && l.unsolicited != nil {
		l.unsolicited(over)
	}
	if l.n > l.limit-MaxExcerpt {
		tail := append(l.line.Tail, part[max(0, len(part)-MaxExcerpt):]...)
		l.line.Tail = tail[max(0, len(tail)-MaxExcerpt):]
	}
}

func (l *lineSampler) endLine() {
	if l.blank && l.n > 0 && l.unsolicited != nil {
		l.unsolicited(l.n)
	}
	l.blank = true
	if l.n > l.limit {
		l.long = append(l.long, l.line)
		l.line = Excerpt{}
	}
	l.n, l.line.Head, l.line.Tail = 0, l.line.Head[:0], l.line.Tail[:0]
}

// pop returns the excerpt of the line just skipped by the wire.Reader.
func (l *lineSampler) pop() Excerpt {
	if l == nil || len(l.long) == 0 {
		return Excerpt{}
	}
	x := l.long[0]
	l.long = l.long[1:]
	return x
}

// lastID matches the end of an object in which a numeric id is the last member, or the last before
// jsonrpc. In valid JSON no text inside a string or a nested value can match: the closing brace
// belongs to the message, and a quote inside a string has a backslash before it.
var lastID = lazyregexp.New(`,\s*"id"\s*:\s*("?[0-9][0-9.eE+]*"?)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// ResponseID returns the id of the proxy's request that the message answers.
func (x Excerpt) ResponseID() (id int64, ok bool) { return ownID(x.responseID()) }

// responseID returns the raw id if the excerpt belongs to a response, or nil. In a response, result
// or error begins within the head. The id is then in the head too, or at the very end, where the
// TypeScript SDK writes the id.
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
			break // the excerpt ends within this long member
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
