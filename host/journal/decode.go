package journal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// fields holds the members of a JSON object. Reading a member as a wrong type sets err.
type fields struct {
	raw map[string][]byte
	err *error // the first error; shared with nested objects
}

// readFields reads an object. The result refers to raw.
func readFields(raw []byte) (fields, error) {
	f := fields{raw: map[string][]byte{}, err: new(error)}
	return f, f.fill(raw)
}

var errNoObject = errors.New("not a JSON object")

func (f fields) fill(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return errNoObject
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		end := int(d.InputOffset())
		f.raw[key] = raw[end-len(value) : end : end]
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the JSON object")
	}
	return nil
}

// typeError records a member of a wrong type.
func (f fields) typeError(name, want string) {
	if *f.err == nil {
		*f.err = fmt.Errorf("%s is not %s", name, want)
	}
}

// text returns a string, "" if the member is absent.
func (f fields) text(name string) string {
	if v, ok := f.raw[name+asBase64]; ok {
		return string(f.decoded(name, v))
	}
	v, ok := f.raw[name]
	if !ok {
		return ""
	}
	s, ok := wire.Text(v)
	if !ok {
		f.typeError(name, "a string")
	}
	return s
}

func (f fields) decoded(name string, v []byte) []byte {
	s, _ := wire.Text(v)
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		f.typeError(name+asBase64, "base64")
	}
	return b
}

// json returns raw JSON, nil if the member is absent.
func (f fields) json(name string) []byte {
	if v, ok := f.raw[name]; ok {
		return v
	}
	if v, ok := f.raw[name+asBase64]; ok {
		return f.decoded(name, v)
	}
	if v, ok := f.raw[name+asText]; ok {
		s, ok := wire.Text(v)
		if !ok {
			f.typeError(name+asText, "a string")
		}
		return []byte(s)
	}
	return nil
}

// count returns a non-negative whole number, 0 if the member is absent.
func (f fields) count(name string) uint64 {
	v, ok := f.raw[name]
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		f.typeError(name, "a whole number")
	}
	return n
}

func (f fields) number(name string) int { return int(f.int64(name)) }

// client returns the member client, with empty fields if absent.
func (f fields) client() Client {
	c, _ := f.object("client")
	return Client{Session: c.text("session"), Name: c.text("name"), Version: c.text("version"), Token: c.text("token")}
}

func (f fields) duration(name string) time.Duration { return time.Duration(f.int64(name)) }

// int64 returns a whole number, 0 if the member is absent. The number can be negative, for example
// after the clock was set back during a run.
func (f fields) int64(name string) int64 {
	v, ok := f.raw[name]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		f.typeError(name, "a whole number")
	}
	return n
}

func (f fields) seconds(name string) float64 {
	v, ok := f.raw[name]
	if !ok {
		return 0
	}
	n, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsInf(n, 0) {
		f.typeError(name, "a number")
	}
	return n
}

func (f fields) flag(name string) bool { return string(f.raw[name]) == "true" }

func (f fields) time(name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, f.text(name))
	if err != nil {
		f.typeError(name, "a time as in RFC 3339")
	}
	return t.UTC()
}

// object returns an object; ok reports whether the member exists.
func (f fields) object(name string) (_ fields, ok bool) {
	o := fields{raw: map[string][]byte{}, err: f.err}
	v, ok := f.raw[name]
	if ok && o.fill(v) != nil {
		f.typeError(name, "an object")
	}
	return o, ok
}

// elements returns the elements of an array, nil if the member is absent.
func (f fields) elements(name string) [][]byte {
	v, ok := f.raw[name]
	if !ok {
		return nil
	}
	items, err := wire.Elements(v)
	if err != nil {
		f.typeError(name, "an array")
	}
	if items == nil {
		items = [][]byte{}
	}
	return items
}

// objects returns the elements of an array of objects.
func (f fields) objects(name string) []fields {
	var all []fields
	for _, item := range f.elements(name) {
		o := fields{raw: map[string][]byte{}, err: f.err}
		if o.fill(item) != nil {
			f.typeError(name, "an array of objects")
		}
		all = append(all, o)
	}
	return all
}

// texts reads an array of at most maxServers strings; nil if the array is absent. The error is a
// *BoundError.
func (f fields) texts(name string) ([]string, error) {
	elements := f.elements(name)
	if elements == nil {
		return nil, nil
	}
	if len(elements) > maxServers {
		return nil, &BoundError{name, maxServers}
	}
	list := []string{}
	for _, raw := range elements {
		s, ok := wire.Text(raw)
		if !ok {
			f.typeError(name, "an array of strings")
		}
		list = append(list, s)
	}
	return list, nil
}

// readBegin reads the first event of a run.
func readBegin(id string, f fields) (Record, error) {
	if v := f.count("v"); v > version {
		return Record{}, fmt.Errorf("run %s: written by a later version of this program (format %d, this one reads %d)", id, v, version)
	}
	r := Record{ID: id, Start: f.time("time"), Redacted: f.flag("redacted"), Incomplete: f.flag("incomplete")}
	r.Saved, r.Guest = f.flag("saved"), f.text("guest")
	r.Params, r.Meta = f.json("params"), f.json("meta")
	r.Now, r.Seed = f.int64("now"), f.count("seed")
	if parent, ok := f.object("parent"); ok {
		r.Parent = &Parent{Run: parent.text("run"), Call: parent.number("call")}
	}
	if p, ok := f.object("plan"); ok {
		r.Plan = &Plan{Makes: p.text("makes"), Applies: p.text("applies"), Digest: p.text("digest"), Marker: p.text("marker")}
	}
	r.Continues, r.Elapsed, r.First = f.text("continues"), f.duration("elapsed"), f.text("first")
	r.ContinuesHead = f.text("continuesHead")
	r.Client = f.client()
	m, _ := f.object("limits")
	r.Limits = Limits{
		Timeout: m.duration("timeout"), Memory: m.count("memory"), Fuel: m.count("fuel"), Calls: m.number("calls"),
		Arguments: m.number("arguments"), Answer: m.number("answer"), Result: m.number("result"), Logs: m.number("logs"),
	}
	var err error
	if r.Servers, err = f.texts("servers"); err != nil {
		return Record{}, err
	}
	if r.AgentTools, err = f.texts("agentTools"); err != nil {
		return Record{}, err
	}
	d, _ := f.object("definition")
	r.Definition = tools.Definition{
		Name: f.text("tool"), Description: d.text("description"), Code: d.text("code"),
		InputSchema: d.json("inputSchema"), OutputSchema: d.json("outputSchema"),
	}
	if raw := d.json("limits"); raw != nil {
		var err error
		if r.Definition.Limits, err = tools.ParseLimits(raw); err != nil {
			f.typeError("definition.limits", "the limits of a tool")
		}
	}
	r.Definition.Durable = d.flag("durable")
	if r.Definition.InDoubt, err = tools.CheckInDoubt(d.text("inDoubt")); err != nil {
		f.typeError("definition.inDoubt", "known")
	}
	if raw := d.json("permissions"); raw != nil {
		var err error
		if r.Definition.Permissions, err = tools.ParsePermissions(raw); err != nil {
			f.typeError("definition.permissions", "the permissions of a tool")
		}
	}
	if r.Definition.Labels, err = d.texts("labels"); err != nil {
		return Record{}, err
	}
	for _, m := range d.objects("extra") {
		r.Definition.Extra = append(r.Definition.Extra, tools.Member{Name: m.text("name"), Value: m.json("value")})
	}
	return r, *f.err
}

// apply adds an event other than begin and answer to the record of the run. apply ignores events of
// unknown kinds.
func (r *Record) apply(kind string, f fields) error {
	r.Redacted = r.Redacted || f.flag("redacted")
	r.Incomplete = r.Incomplete || f.flag("incomplete")
	switch kind {
	case eventCall:
		at := f.duration("at")
		r.Calls = append(r.Calls, CallRecord{
			Seq: f.number("seq"), Request: readRequest(f), Server: f.text("server"), Tool: f.text("tool"),
			Start: at, Progress: f.number("progress"), Undo: f.flag("undo"),
		})
	case eventUndo:
		r.Undos = append(r.Undos, UndoRecord{
			Request: readRequest(f), Server: f.text("server"), Tool: f.text("tool"), Err: readCallError(f, "error"),
		})
	case eventLog:
		for _, e := range f.objects("entries") {
			r.Logs = append(r.Logs, Entry{At: e.duration("at"), Level: e.level(), Text: e.text("text")})
		}
	case eventInput:
		r.Inputs = append(r.Inputs, InputRecord{
			Call: f.number("call"), Name: f.text("name"), Method: f.text("method"), Params: f.json("params"),
			Unsure: f.flag("unsure"), Own: f.flag("own"), Answer: f.json("answer"),
		})
	case eventFlow:
		r.Flow = append(r.Flow, readFlow(f))
	case eventEnd:
		r.Done, r.Duration = true, f.duration("duration")
		r.Outcome = Outcome{
			Error: abi.ErrorType(f.text("error")), Message: f.text("message"), Asks: f.flag("asks"), Failure: f.json("failure"),
			Result: f.json("result"), Fuel: f.count("fuel"), Checked: f.count("checked"), Memory: f.count("memory"), Waited: f.duration("waited"),
		}
	}
	return *f.err
}

func (f fields) level() abi.LogLevel {
	name := f.text("level")
	for level, known := range levelNames {
		if known == name {
			return level
		}
	}
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		f.typeError("level", "a level")
	}
	return abi.LogLevel(n)
}

// answer applies the last event of a call.
func (c *CallRecord) answer(f fields) {
	c.Done, c.Start, c.Duration, c.Progress = true, f.duration("start"), f.duration("duration"), f.number("progress")
	a := &c.Answer
	a.Result, a.RPCError, a.Meta, a.Value = f.json("result"), f.json("rpcError"), f.json("meta"), f.json("value")
	if a.Meta == nil {
		a.Meta, _ = wire.Get(a.Result, "_meta")
	}
	if from := f.text("from"); from != "" {
		a.Value = part(a.Result, from)
	}
	a.Err = readCallError(f, "error")
	a.Decision = f.decision()
}

func readRequest(f fields) abi.ToolCall {
	a, _ := f.object("asked")
	return abi.ToolCall{
		Server: a.text("server"), Tool: a.text("tool"), Exact: a.flag("exact"), Raw: a.flag("raw"), Caught: a.flag("caught"),
		Timeout: a.seconds("timeout"), Meta: a.json("meta"), Arguments: a.json("arguments"),
	}
}

func readCallError(f fields, name string) *abi.CallError {
	e, ok := f.object(name)
	if !ok {
		return nil
	}
	return &abi.CallError{
		Type: abi.ErrorType(e.text("type")), Server: e.text("server"), Tool: e.text("tool"),
		Message: e.text("message"), Details: e.json("details"), Limit: e.text("limit"),
	}
}
