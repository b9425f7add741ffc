package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// version is the version of the format. The first event of a run has the version; readers refuse
// later versions.
const version = 1

// The kinds of events; see docs/journal.md.
const (
	eventBegin   = "begin"
	eventCall    = "call"
	eventAnswer  = "answer"
	eventUndo    = "undo"
	eventLog     = "log"
	eventInput   = "input"
	eventEnd     = "end"
	eventProxied = "proxied"

	eventCheckpoint = "checkpoint"
)

// kinds are the kinds of events of a run known to this program. The verification of a run refuses
// unknown kinds, since they may change the meaning of the run.
var kinds = map[string]bool{
	eventBegin: true, eventCall: true, eventAnswer: true, eventUndo: true, eventLog: true, eventInput: true, eventEnd: true,
}

// IsKind reports whether runs can have events of the given kind.
func IsKind(kind string) bool { return kinds[kind] }

// begin writes the first event of a run. missing are the gaps of the record.
func (l *line) begin(id string, start time.Time, b *Begin, missing gaps) {
	l.start(eventBegin, id)
	l.redacted = missing.redacted
	if b.Parent != nil { // first, because readHead expects the parent as the first member
		l.open("parent", '{')
		l.plain("run", b.Parent.Run)
		l.number("call", int64(b.Parent.Call))
		l.close('}')
	}
	if b.Continues != "" { // for the same reason
		l.plain("continues", b.Continues)
	}
	if b.First != "" {
		l.plain("first", b.First)
	}
	l.number("v", version)
	l.time("time", start)
	l.text("tool", b.Definition.Name)
	l.plain("version", b.Definition.Hash())
	l.flag("saved", b.Saved)
	l.text("guest", b.Guest)
	l.client(&b.Client)
	if p := b.Plan; p != nil {
		l.open("plan", '{')
		l.text("makes", p.Makes)
		l.text("applies", p.Applies)
		l.text("digest", p.Digest)
		l.text("marker", p.Marker)
		l.close('}')
	}
	l.raw("params", b.Params)
	l.raw("meta", b.Meta)
	l.definition(&b.Definition)
	l.limits(&b.Limits)
	l.texts("servers", b.Servers)
	l.texts("agentTools", b.AgentTools)
	l.number("now", b.Now)
	l.count("seed", b.Seed)
	if b.Continues != "" {
		l.number("elapsed", int64(b.Elapsed))
		l.text("continuesHead", b.ContinuesHead)
	}
	l.flag("incomplete", missing.incomplete)
	l.finish()
}

// gaps are the gaps of a record; see Record.
type gaps struct{ redacted, incomplete bool }

// texts adds an array of strings, unless list is nil.
func (l *line) texts(name string, list []string) {
	if list == nil {
		return
	}
	l.open(name, '[')
	for _, s := range list {
		l.element(s)
	}
	l.close(']')
}

// element adds a string to an array, even an empty string.
func (l *line) element(s string) {
	if s == "" {
		l.plain("", "")
		return
	}
	l.text("", s)
}

func (l *line) time(name string, t time.Time) {
	l.name(name, "")
	l.b = append(l.b, '"')
	l.b = t.UTC().AppendFormat(l.b, time.RFC3339Nano)
	l.b = append(l.b, '"')
}

func (l *line) client(c *Client) {
	if *c == (Client{}) {
		return
	}
	l.open("client", '{')
	l.text("session", c.Session)
	l.text("name", c.Name)
	l.text("version", c.Version)
	l.text("token", c.Token)
	l.close('}')
}

// definition adds the definition of a tool without times and counts, which do not matter for the
// run.
func (l *line) definition(d *tools.Definition) {
	l.open("definition", '{')
	l.text("description", d.Description)
	l.raw("inputSchema", d.InputSchema)
	l.raw("outputSchema", d.OutputSchema)
	l.raw("limits", d.Limits.JSON())
	l.flag("durable", d.Durable)
	l.text("inDoubt", string(d.InDoubt))
	if p := d.Permissions; p != nil && l.whole {
		l.raw("permissions", p.JSON())
	} else if p != nil && (p.Of(d.Code) || p.Bounds != nil) {
		l.raw("permissions", (&tools.Permissions{Calls: p.Calls, Unresolved: p.Unresolved, Bounds: p.Bounds}).JSON())
	}
	l.texts("labels", d.Labels)
	l.text("code", d.Code)
	if len(d.Extra) > 0 {
		l.open("extra", '[')
		for _, m := range d.Extra {
			l.open("", '{')
			l.text("name", m.Name)
			l.raw("value", m.Value)
			l.close('}')
		}
		l.close(']')
	}
	l.close('}')
}

func (l *line) limits(m *Limits) {
	if *m == (Limits{}) {
		return
	}
	l.open("limits", '{')
	l.number("timeout", int64(m.Timeout))
	l.count("memory", m.Memory)
	l.count("fuel", m.Fuel)
	l.number("calls", int64(m.Calls))
	l.number("arguments", int64(m.Arguments))
	l.number("answer", int64(m.Answer))
	l.number("result", int64(m.Result))
	l.number("logs", int64(m.Logs))
	l.close('}')
}

// call writes the event of a starting call.
func (l *line) call(id string, c *CallRecord) {
	l.start(eventCall, id)
	l.number("seq", int64(c.Seq))
	l.number("at", int64(c.Start))
	l.text("server", c.Server)
	l.text("tool", c.Tool)
	l.flag("undo", c.Undo)
	if !c.Done {
		l.number("progress", int64(c.Progress))
	}
	l.request(&c.Request)
	l.finish()
}

func (l *line) request(c *abi.ToolCall) {
	l.open("asked", '{')
	l.text("server", c.Server)
	l.text("tool", c.Tool)
	l.flag("exact", c.Exact)
	l.flag("raw", c.Raw)
	l.flag("caught", c.Caught)
	l.seconds("timeout", c.Timeout)
	l.raw("meta", c.Meta)
	l.raw("arguments", c.Arguments)
	l.close('}')
}

// answer writes the event of the answer to a call.
func (l *line) answer(id string, c *CallRecord) {
	a := &c.Answer
	l.start(eventAnswer, id)
	l.number("seq", int64(c.Seq))
	l.number("start", int64(c.Start))
	l.number("duration", int64(c.Duration))
	l.number("progress", int64(c.Progress))
	l.raw("result", a.Result)
	l.raw("rpcError", a.RPCError)
	if meta, _ := wire.Get(a.Result, "_meta"); !bytes.Equal(meta, a.Meta) {
		l.raw("meta", a.Meta)
	}
	if from := a.from(); from != "" && !l.redacted { // a part of redacted text may not be valid JSON
		l.plain("from", from)
	} else {
		l.raw("value", a.Value)
	}
	l.callError("error", a.Err)
	l.decision(a.Decision)
	if l.chain != nil && a.Run != nil && a.Run.Head != "" {
		l.plain("below", a.Run.Head)
	}
	l.finish()
}

func (l *line) callError(name string, e *abi.CallError) {
	if e == nil {
		return
	}
	l.open(name, '{')
	l.text("type", string(e.Type))
	l.text("server", e.Server)
	l.text("tool", e.Tool)
	l.text("message", e.Message)
	l.raw("details", e.Details)
	l.text("limit", e.Limit)
	l.close('}')
}

// smallValue is the size in bytes up to which a value received by a script is written even if the
// value is a part of the result.
const smallValue = 256

// The parts of a result that are not written again as the value.
const (
	fromResult     = "result"            // the whole result
	fromStructured = "structuredContent" // the member structuredContent
	fromContent    = "content"           // the member content
	fromText       = "text"              // the text of the only block, as a raw JSON string
	fromJSON       = "json"              // the JSON in the text
)

// from returns the part of the result equal to the value, or "".
func (a *Answer) from() string {
	if len(a.Value) <= smallValue {
		return ""
	}
	for _, from := range []string{fromResult, fromStructured, fromText, fromJSON, fromContent} {
		if bytes.Equal(a.Value, part(a.Result, from)) {
			return from
		}
	}
	return ""
}

// part returns a part of a result, or nil.
func part(result []byte, from string) []byte {
	switch from {
	case fromResult:
		return result
	case fromStructured, fromContent:
		v, _ := wire.Get(result, from)
		return v
	}
	content, _ := wire.Get(result, "content")
	if blocks, _ := wire.Elements(content); len(blocks) == 1 {
		raw, _ := wire.Get(blocks[0], "text")
		switch from {
		case fromText:
			return raw
		case fromJSON:
			text, _ := wire.Text(raw)
			return []byte(strings.Trim(text, " \t\r\n"))
		}
	}
	return nil
}

// undo writes the event of a compensation registered by the script.
func (l *line) undo(id string, u *UndoRecord) {
	l.start(eventUndo, id)
	l.text("server", u.Server)
	l.text("tool", u.Tool)
	l.request(&u.Request)
	l.callError("error", u.Err)
	l.finish()
}

// input writes the event of a question of a server to the client.
func (l *line) input(id string, in *InputRecord) {
	l.start(eventInput, id)
	l.number("call", int64(in.Call))
	l.text("name", in.Name)
	l.text("method", in.Method)
	l.raw("params", in.Params)
	l.flag("unsure", in.Unsure)
	l.flag("own", in.Own)
	l.raw("answer", in.Answer)
	l.finish()
}

// levelNames maps log levels to their names in the journal.
var levelNames = map[abi.LogLevel]string{abi.LogInfo: "info", abi.LogWarn: "warn", abi.LogError: "error"}

// entry adds an entry to a started log event.
func (l *line) entry(e *Entry) {
	l.open("", '{')
	l.number("at", int64(e.At))
	name, ok := levelNames[e.Level]
	if !ok {
		name = strconv.FormatUint(uint64(e.Level), 10)
	}
	l.plain("level", name)
	l.text("text", e.Text)
	l.close('}')
}

// end writes the last event of a run.
func (l *line) end(id string, d time.Duration, o *Outcome, incomplete bool) {
	l.start(eventEnd, id)
	l.number("duration", int64(d))
	l.text("error", string(o.Error))
	l.text("message", o.Message)
	l.flag("asks", o.Asks)
	l.raw("failure", o.Failure)
	l.raw("result", o.Result)
	l.count("fuel", o.Fuel)
	l.count("checked", o.Checked)
	l.count("memory", o.Memory)
	l.number("waited", int64(o.Waited))
	l.flag("incomplete", incomplete)
	l.finish()
}

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

// Lines builds events in the format of the journal, readable by Decode, for callers with a storage
// of their own. Nothing is redacted. The zero value is ready to use.
type Lines struct{ line line }

// Begin adds the first event of a run. In contrast to the journal, the event has the permissions of
// the tool with the digests of the definitions at the time of saving: the run may continue.
func (l *Lines) Begin(id string, start time.Time, b *Begin) {
	l.line.whole = true
	l.line.begin(id, start, b, gaps{})
}

// Call adds the event of a starting call, and Answer the event of the answer.
func (l *Lines) Call(id string, c *CallRecord)   { l.line.call(id, c) }
func (l *Lines) Answer(id string, c *CallRecord) { l.line.answer(id, c) }

// Undo adds the event of a compensation registered by the script.
func (l *Lines) Undo(id string, u *UndoRecord) { l.line.undo(id, u) }

// Take returns the events and forgets them. They are valid until the next event is added.
func (l *Lines) Take() []byte {
	b := l.line.b
	l.line.b = l.line.b[:0]
	return b
}

// decision adds policy's decision about a call, and the approval; nothing for nil.
func (l *line) decision(d *Decision) {
	if d == nil {
		return
	}
	l.open("decision", '{')
	l.text("action", d.Action)
	l.text("rule", d.Rule)
	l.text("reason", d.Reason)
	if a := d.Approval; a != nil {
		l.open("approval", '{')
		l.text("id", a.ID)
		l.flag("allowed", a.Allowed)
		l.text("by", a.By)
		l.text("how", a.How)
		if !a.At.IsZero() {
			l.time("at", a.At)
		}
		l.number("waited", int64(a.Waited))
		l.flag("remembered", a.Remembered)
		l.text("digest", a.Digest)
		l.text("note", a.Note)
		l.close('}')
	}
	l.close('}')
}

// decision returns the member written by line.decision, or nil.
func (f fields) decision() *Decision {
	o, ok := f.object("decision")
	if !ok {
		return nil
	}
	d := &Decision{Action: o.text("action"), Rule: o.text("rule"), Reason: o.text("reason")}
	if a, ok := o.object("approval"); ok {
		d.Approval = &Approval{
			ID: a.text("id"), Allowed: a.flag("allowed"), By: a.text("by"), How: a.text("how"),
			Waited: a.duration("waited"), Remembered: a.flag("remembered"), Digest: a.text("digest"), Note: a.text("note"),
		}
		if a.raw["at"] != nil {
			d.Approval.At = a.time("at")
		}
	}
	return d
}
