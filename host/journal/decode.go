package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
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

// The bounds of a record with its nested runs. They follow from the limits on runs: the
// configurable number of calls, and the nesting of runs. This program does not write larger
// records.
const (
	maxRecord  = 1 << 30          // bytes of the lines of the record
	maxCalls   = 1_000_000        // calls, and as many compensations
	maxEntries = 4_000_000        // log entries
	maxDepth   = abi.MaxChain + 1 // nested runs: unsaved code, then saved tools
	maxServers = 10_000
)

// BoundError means that a record is larger than any run.
type BoundError struct {
	What  string // the excessive part: "bytes", "calls", ...
	Limit int    // how many are allowed
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("the record has more than %d %s, above the bounds of a run, and is not read", e.Limit, e.What)
}

// decoder builds records from the lines of a journal.
type decoder struct {
	runs     map[string]*partialRun
	children map[string][]string // ids of the runs called by a run

	calls, undos, entries, inputs int // in all runs together
	steps                         int // number of calls examined in searches and sorts; for tests
	lines                         int // how many were added; for tests
}

// partialRun is a run during decoding.
type partialRun struct {
	Record
	lastCall map[int]int // index of the last call with the Seq
}

func newDecoder() *decoder {
	return &decoder{runs: map[string]*partialRun{}, children: map[string][]string{}}
}

// add decodes one line.
func (d *decoder) add(text []byte) error {
	d.lines++
	f, err := readFields(text)
	if errors.Is(err, errNoObject) {
		return errNoEvent
	}
	if err != nil {
		return err
	}
	id, kind := f.text("run"), f.text("t")
	if *f.err != nil || kind == "" || !isID([]byte(id)) {
		return errNoEvent
	}
	rec := d.runs[id]
	switch {
	case kind == eventBegin && rec != nil:
		return fmt.Errorf("run %s begins a second time", id)
	case kind == eventBegin:
		return d.begin(id, f)
	case kind == eventProxied, kind == eventCheckpoint:
		return nil
	case rec == nil:
		return fmt.Errorf("run %s: the first line is missing", id)
	}
	if kind == eventEnd && f.raw["prev"] != nil {
		if p, err := seal.Cut(text); err == nil { // else the line can still be read
			rec.Head, rec.Seal = seal.Event(p.Body).String(), p.Seal
		}
	}
	return d.apply(rec, kind, f)
}

func (d *decoder) begin(id string, f fields) error {
	r, err := readBegin(id, f)
	if err != nil {
		return err
	}
	d.runs[r.ID] = &partialRun{Record: r, lastCall: map[int]int{}}
	if r.Parent != nil {
		d.children[r.Parent.Run] = append(d.children[r.Parent.Run], r.ID)
	}
	return nil
}

// apply adds an event other than begin.
func (d *decoder) apply(r *partialRun, kind string, f fields) error {
	calls, undos, entries, inputs := len(r.Calls), len(r.Undos), len(r.Logs), len(r.Inputs)
	if kind == eventAnswer {
		d.steps++
		i, ok := r.lastCall[f.number("seq")]
		if !ok { // the line of the call is missing
			r.Incomplete = true
			return *f.err
		}
		r.Calls[i].answer(f)
	}
	if err := r.Record.apply(kind, f); err != nil {
		return err
	}
	if len(r.Calls) > calls {
		r.lastCall[r.Calls[calls].Seq] = calls
	}
	d.calls += len(r.Calls) - calls
	d.undos += len(r.Undos) - undos
	d.entries += len(r.Logs) - entries
	d.inputs += len(r.Inputs) - inputs
	switch {
	case d.calls > maxCalls:
		return &BoundError{"calls", maxCalls}
	case d.undos > maxCalls:
		return &BoundError{"compensations", maxCalls}
	case d.inputs > maxCalls:
		return &BoundError{"questions", maxCalls}
	case d.entries > maxEntries:
		return &BoundError{"log entries", maxEntries}
	}
	return nil
}

// tree returns a run with the known nested runs. Later lines do not change the result. depth is the
// level of the run in the tree, from 1.
func (d *decoder) tree(id string, depth int) (Record, error) {
	if depth > maxDepth {
		return Record{}, &BoundError{"nested runs", maxDepth}
	}
	rec := d.runs[id].Record
	rec.Calls = slices.Clone(rec.Calls) // lastCall has the places of earlier calls
	slices.SortStableFunc(rec.Calls, func(a, b CallRecord) int {
		d.steps++
		return cmp.Compare(a.Seq, b.Seq)
	})
	for _, child := range d.children[id] {
		run, err := d.tree(child, depth+1)
		if err != nil {
			return Record{}, err
		}
		i, found := slices.BinarySearchFunc(rec.Calls, run.Parent.Call, func(c CallRecord, seq int) int {
			d.steps++
			return cmp.Compare(c.Seq, seq)
		})
		if found {
			rec.Calls[i].Answer.Run = &run
		}
	}
	return rec, nil
}

// Encode writes a record with its nested runs in the format of the journal: one event per line, the
// beginning of each run first. The result can be copied to another machine. Encode redacts nothing.
// The events have no digests and no signatures, since they are not the signed lines; [Reader.Lines]
// returns the signed lines.
func Encode(w io.Writer, r Record) error {
	l := &line{}
	if err := encode(w, l, &r); err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	return nil
}

func encode(w io.Writer, l *line, r *Record) error {
	flush := func() error {
		_, err := w.Write(l.b)
		l.b = l.b[:0]
		return err
	}
	l.begin(r.ID, r.Start, &r.Begin, gaps{r.Redacted, r.Incomplete})
	for i := range r.Calls {
		c := &r.Calls[i]
		l.call(r.ID, c)
		if err := flush(); err != nil {
			return err
		}
		if c.Answer.Run != nil {
			if err := encode(w, l, c.Answer.Run); err != nil {
				return err
			}
		}
		if c.Done {
			l.answer(r.ID, c)
		}
	}
	for i := range r.Undos {
		l.undo(r.ID, &r.Undos[i])
	}
	for i := range r.Inputs {
		l.input(r.ID, &r.Inputs[i])
	}
	for i := range r.Flow {
		l.flow(r.ID, &r.Flow[i])
	}
	if len(r.Logs) > 0 {
		l.start(eventLog, r.ID)
		l.open("entries", '[')
		for i := range r.Logs {
			l.entry(&r.Logs[i])
		}
		l.close(']')
		l.finish()
	}
	if r.Done {
		l.end(r.ID, r.Duration, &r.Outcome, false)
	}
	return flush()
}

// Decode reads the output of Encode, or the lines of a run copied from a journal, with or without
// the lines of nested runs. Another program may have rewritten the lines, with spaces or another
// order of members. The error names the unreadable line.
func Decode(r io.Reader) (Record, error) {
	d := newDecoder()
	n := 0
	for l, err := range readLines(io.LimitReader(r, maxRecord+1)) {
		n++
		if l.to > maxRecord {
			return Record{}, &BoundError{"bytes", maxRecord}
		}
		if err == nil || errors.Is(err, errTorn) && readable(l.text) {
			err = d.add(bytes.Clone(l.text)) // the record keeps parts of the line
		}
		if err != nil {
			return Record{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	var roots []string
	for id, rec := range d.runs {
		if rec.Parent == nil || d.runs[rec.Parent.Run] == nil {
			roots = append(roots, id)
		}
	}
	switch len(roots) {
	case 0:
		return Record{}, errors.New("it contains no run (want the lines of one run from a journal)")
	case 1:
		return d.tree(roots[0], 1)
	}
	slices.Sort(roots)
	return Record{}, fmt.Errorf("it contains %d runs, want one (%s and %s, for instance)", len(roots), roots[0], roots[1])
}

// readable reports whether a line without a newline is complete. A person who copies
// lines may leave out the last newline.
func readable(text []byte) bool {
	_, err := readFields(text)
	return err == nil
}

// head is the beginning of a line, as slices of the line; see line.start.
type head struct {
	kind, run []byte
	parent    []byte // only for eventBegin
	continues []byte // only for eventBegin of a run without a parent
}

var errNoEvent = errors.New("not a line of a journal")

func readHead(text []byte) (head, error) {
	var h head
	rest, ok := bytes.CutPrefix(text, []byte(`{"t":"`))
	if !ok || text[len(text)-1] != '}' {
		return h, errNoEvent
	}
	kind, rest, ok := bytes.Cut(rest[:min(len(rest), 256)], []byte(`","run":"`))
	if !ok {
		return h, errNoEvent
	}
	run, rest, ok := bytes.Cut(rest, []byte(`"`))
	if !ok || !isID(run) {
		return h, errNoEvent
	}
	h.kind, h.run = kind, run
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"parent":{"run":"`)); ok {
		h.parent, _, _ = bytes.Cut(rest, []byte(`"`))
	} else if rest, ok = bytes.CutPrefix(rest, []byte(`,"continues":"`)); ok {
		h.continues, _, _ = bytes.Cut(rest, []byte(`"`))
	}
	return h, nil
}

// isID reports whether text can be an id: without characters that need escapes.
func isID(text []byte) bool {
	for _, c := range text {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 64
}

// maxLine bounds a line, in bytes. A line can contain an answer twice, and escaped.
const maxLine = maxRecord

// lineAt is a line without the newline, with the position.
type lineAt struct {
	text     []byte // valid until the next line is read
	from, to int64  // to is after the newline
}

var errTorn = errors.New("it is incomplete: the end is missing")

// readLines yields the lines of r, and errTorn with a last line without a newline. Empty lines are
// skipped, and an error of r ends the iteration.
func readLines(r io.Reader) func(func(lineAt, error) bool) {
	return func(yield func(lineAt, error) bool) {
		b := bufio.NewReaderSize(r, 64<<10)
		var at lineAt
		var long []byte
		for {
			piece, err := b.ReadSlice('\n')
			at.to += int64(len(piece))
			if errors.Is(err, bufio.ErrBufferFull) {
				if len(long) > maxLine {
					yield(at, fmt.Errorf("a line of more than %d bytes", maxLine))
					return
				}
				long = append(long, piece...)
				continue
			}
			at.text = piece
			if len(long) > 0 {
				long = append(long, piece...)
				at.text = long
			}
			whole := len(at.text) > 0 && at.text[len(at.text)-1] == '\n'
			at.text = bytes.TrimSuffix(at.text, []byte{'\n'})
			switch {
			case err != nil && !errors.Is(err, io.EOF):
				yield(at, err)
				return
			case len(at.text) > 0 && !whole:
				yield(at, errTorn)
				return
			case len(at.text) > 0 && !yield(at, nil):
				return
			}
			if err != nil {
				return
			}
			at.from, long = at.to, long[:0]
		}
	}
}
