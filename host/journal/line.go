package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Redactor removes secrets from text and JSON. The methods are safe for concurrent use; changed
// reports whether a secret was removed.
type Redactor interface {
	Text(s string) (_ string, changed bool)
	// JSON takes and returns valid JSON. Without a change, the result is raw itself.
	JSON(raw []byte) (_ []byte, changed bool)
}

// Masked replaces each removed secret in a record.
const Masked = "****"

// line builds a line, a JSON object, by appending.
type line struct {
	b        []byte
	redactor Redactor // nil: everything is written
	redacted bool     // something was removed
	whole    bool     // permissions include the members that only a continuing run needs
	from     int      // where the line begins
	chain    *digests // of the run; nil: the events have no digests
	ends     []ending // ended runs and calls
}

// digests is how far the chain of a run's events is.
type digests struct {
	events int
	head   seal.Digest // of the last event
}

// ending is the end of a run requested by a client, or of a call without a script, in the buffer of
// a line: the ending gets a link in the write.
type ending struct {
	at   int // position of the last brace of the line
	head seal.Digest
	seal *seal.Seal // nil for none
}

// Suffixes of the names of members with a JSON value in another form: as text because of line
// breaks or invalid JSON, or in base64 because of invalid UTF-8.
const (
	asText   = "Text"
	asBase64 = "Base64"
)

// start begins a line. Readers rely on t and run being first, in this form.
func (l *line) start(kind, run string) {
	l.redacted, l.from = false, len(l.b)
	l.b = append(l.b, `{"t":"`...)
	l.b = append(l.b, kind...)
	l.b = append(l.b, `","run":"`...)
	l.b = append(l.b, run...)
	l.b = append(l.b, '"')
}

// finish ends a line.
func (l *line) finish() {
	if l.redacted {
		l.flag("redacted", true)
	}
	if c := l.chain; c != nil && c.events > 0 {
		l.digest("prev", c.head)
	}
	l.b = append(l.b, '}')
	if c := l.chain; c != nil {
		c.events, c.head = c.events+1, seal.Event(l.b[l.from:])
	}
	l.b = append(l.b, '\n')
}

// digest adds a digest.
func (l *line) digest(name string, d seal.Digest) {
	l.name(name, "")
	l.b = append(d.Append(append(l.b, '"')), '"')
}

// ended marks the last finished line as the end of a run or call.
func (l *line) ended(head seal.Digest, s *seal.Seal) {
	l.ends = append(l.ends, ending{len(l.b) - len("}\n"), head, s})
}

// seal adds a seal to the last finished line.
func (l *line) seal(s *seal.Seal) {
	l.b = append(seal.AppendSeal(l.b[:len(l.b)-len("}\n")], s), "}\n"...)
}

// reset forgets lines that were written, or could not be written.
func (l *line) reset() {
	l.ends = l.ends[:0]
	if l.b = l.b[:0]; cap(l.b) > maxReused {
		l.b = nil
	}
}

// name begins a member, or an element when name is "".
func (l *line) name(name, ending string) {
	if last := l.b[len(l.b)-1]; last != '{' && last != '[' {
		l.b = append(l.b, ',')
	}
	if name != "" {
		l.b = append(l.b, '"')
		l.b = append(l.b, name...)
		l.b = append(l.b, ending...)
		l.b = append(l.b, '"', ':')
	}
}

func (l *line) open(name string, bracket byte) {
	l.name(name, "")
	l.b = append(l.b, bracket)
}

func (l *line) close(bracket byte) { l.b = append(l.b, bracket) }

// plain adds our own text, which needs no redaction and no escapes.
func (l *line) plain(name, value string) {
	l.name(name, "")
	l.b = append(l.b, '"')
	l.b = append(l.b, value...)
	l.b = append(l.b, '"')
}

// text adds a text, unless empty.
func (l *line) text(name, value string) {
	if value == "" {
		return
	}
	if l.redactor != nil {
		var changed bool
		value, changed = l.redactor.Text(value)
		l.redacted = l.redacted || changed
	}
	if !utf8.ValidString(value) {
		l.base64(name, []byte(value))
		return
	}
	l.name(name, "")
	l.b = wire.AppendQuote(l.b, value)
}

// raw adds raw JSON, unless empty.
func (l *line) raw(name string, value []byte) {
	if len(value) == 0 {
		return
	}
	if l.redactor != nil {
		var changed bool
		value, changed = l.redactor.JSON(value)
		l.redacted = l.redacted || changed
	}
	switch {
	case !utf8.Valid(value):
		l.base64(name, value)
	case bytes.IndexByte(value, '\n') >= 0 || bytes.IndexByte(value, '\r') >= 0 || !valid(value):
		l.name(name, asText)
		l.b = append(l.b, wire.Quote(string(value))...)
	default:
		l.name(name, "")
		l.b = append(l.b, value...)
	}
}

// valid reports whether raw is a single JSON value. Callers have checked raw before, but the
// following lines of the journal depend on this check.
func valid(raw []byte) bool {
	if raw[0] == '{' {
		return wire.IsObject(raw)
	}
	return json.Valid(raw)
}

func (l *line) base64(name string, value []byte) {
	l.name(name, asBase64)
	l.b = append(l.b, '"')
	l.b = base64.StdEncoding.AppendEncode(l.b, value)
	l.b = append(l.b, '"')
}

// number adds a number, unless 0.
func (l *line) number(name string, n int64) {
	if n != 0 {
		l.name(name, "")
		l.b = strconv.AppendInt(l.b, n, 10)
	}
}

// count is number for an unsigned value.
func (l *line) count(name string, n uint64) {
	if n != 0 {
		l.name(name, "")
		l.b = strconv.AppendUint(l.b, n, 10)
	}
}

// seconds is number for a value with a fraction.
func (l *line) seconds(name string, n float64) {
	if n != 0 {
		l.name(name, "")
		l.b = strconv.AppendFloat(l.b, n, 'g', -1, 64)
	}
}

// flag adds true if on is set.
func (l *line) flag(name string, on bool) {
	if on {
		l.name(name, "")
		l.b = append(l.b, "true"...)
	}
}
