package journal

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
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
