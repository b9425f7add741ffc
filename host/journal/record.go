package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Begin is the input of a run. The input and the answers to calls determine everything in the run.
type Begin struct {
	// Definition is the definition of the saved tool at the time of the run. For unsaved code, only
	// Name and Code are set.
	Definition tools.Definition
	Saved      bool   // the run is of a saved tool
	Params     []byte // raw JSON object, as sent by the client
	Meta       []byte // raw JSON object: the _meta of calls; nil: none
	Limits     Limits
	Servers    []string // script names of the servers usable by the script
	AgentTools []string // see abi.Request
	Now        int64    // see abi.Request
	Seed       uint64   // see abi.Request
	Guest      string   // SHA-256 of the guest, lower-case hex
	Client     Client
	// Parent is the call of another run, answered by this run; nil for a run requested by a client.
	Parent *Parent
	// Continues is the id of the continued run, after the client has answered the questions of the
	// continued run; "" for none. This run has the same input, gets the same answers to calls, and
	// then continues.
	Continues string
	// First is the id of the first run of the chain of which the run is the last; "" for a run that
	// continues none.
	First string
	// ContinuesHead is the Head of the continued run; "" if unknown after the death of the process.
	ContinuesHead string
	// Elapsed is the duration of the earlier runs continued by this run.
	Elapsed time.Duration
	// Plan is set for a run that makes or carries out a plan.
	Plan *Plan
}

// Marker returns abi.Request.Withheld of the run; "" for none.
func (b *Begin) Marker() string {
	if b.Plan == nil {
		return ""
	}
	return b.Plan.Marker
}

// Plan is the relation of a run to a plan (package plan).
type Plan struct {
	// Makes is the id of the plan made by the run, and Applies the id of the plan carried out by
	// the run; "" for none.
	Makes, Applies string
	// Digest is the digest of the plan in Applies.
	Digest string
	// Marker is abi.Request.Withheld: followed by the number of a write, Marker stands for the
	// answer of the write in the record.
	Marker string
}

// Client is the client that has requested a run.
type Client struct {
	Session string // id of the session, see route.Session
	// Name and Version are from the client's clientInfo.
	Name, Version string
	// Token is the name of the client's token; "" for none.
	Token string
}

// Parent identifies the call answered by a run.
type Parent struct {
	Run  string // id
	Call int    // Seq of the call
}

// Limits are the limits of a run; see sandbox.Limits.
type Limits struct {
	Timeout                                time.Duration
	Memory, Fuel                           uint64
	Calls, Arguments, Answer, Result, Logs int
}

// Record is the record of a run.
type Record struct {
	ID    string
	Start time.Time
	Begin
	Calls []CallRecord // in the order in which the script made them
	Undos []UndoRecord // in the order in which the script registered them
	Logs  []Entry
	// Inputs are the questions of servers to the client during calls, in the order of asking.
	Inputs []InputRecord
	// Flow are the findings and decisions of information flow, in order.
	Flow []FlowRecord

	// Done reports whether the run has ended. Duration and Outcome are set only
	// then.
	Done     bool
	Duration time.Duration
	Outcome  Outcome

	// Head is the digest of the last event of an ended run on disk (package seal); "" for events
	// without digests. Seal is the signature over Head, or nil.
	Head string
	Seal *seal.Seal

	// Redacted is set for a record read from disk if secrets were replaced before the write.
	Redacted bool
	// Incomplete is set for a record read from disk if a part could not be written.
	Incomplete bool

	memory []byte // held as long as the record is in use; frees the record's memory
}

// InputRecord is a question to the client.
type InputRecord struct {
	Call   int    // Seq of the call of the question
	Name   string // of the question in the result with the question to the client; "" if none
	Method string // for example "elicitation/create"
	Params []byte // raw JSON object; nil for none
	// Unsure is set if the server had several calls in flight: Call is then a guess.
	Unsure bool
	// Own is set if the proxy itself asked, for the approval of the call, and no server.
	Own bool
	// Answer is the raw result of the client, a JSON object; nil if the run ended with the
	// question.
	Answer []byte
}

// Outcome is how a run ended.
type Outcome struct {
	// Error is the class of the run's error; "" after success.
	Error abi.ErrorType
	// Message is the text of the error.
	Message string
	// Asks is set if the run ended with a question to the client; another run continues after the
	// answer. Error is abi.ErrCancelled then.
	Asks bool
	// Failure is the raw JSON object {type, message, details, stack} for the client; nil after
	// success.
	Failure []byte
	// Result is the raw JSON returned by the script; nil after a failure.
	Result []byte
	// Fuel is the fuel used by the run, including nested runs; 0 if fuel is not metered.
	Fuel uint64
	// Checked is the fuel used to check arguments for upstreams, including nested runs; 0 for a
	// nested run.
	Checked uint64
	// Waited is how long the run, with nested runs, waited for people's decisions about calls. The
	// wait does not count for the time limit.
	Waited time.Duration
	// Memory is the peak of the instance's linear memory in bytes.
	Memory uint64
}

// Entry is an entry of a run's log.
type Entry struct {
	At    time.Duration // since the start of the run
	Level abi.LogLevel
	Text  string
}

// CallRecord is the record of a call.
type CallRecord struct {
	Seq int // from 1
	// Request is the call as written by the script.
	Request abi.ToolCall
	// Server and Tool are the real names, or the names in the script if unresolved.
	Server, Tool string
	Start        time.Duration // since the start of the run
	Progress     int           // progress notifications received
	// Undo is set for a compensation, made after the end of the script.
	Undo bool

	// Done reports whether the call was answered before the run ended. Duration and
	// Answer are set only then.
	Done     bool
	Duration time.Duration
	Answer   Answer
}

// Any reports whether has is true of the run or of a nested run.
func (r *Record) Any(has func(*Record) bool) bool {
	return has(r) || slices.ContainsFunc(r.Calls, func(c CallRecord) bool { return c.Answer.Run != nil && c.Answer.Run.Any(has) })
}

// Open returns the questions that the client has to answer before another run can continue this
// run, with the questions of nested runs.
func (r *Record) Open() []InputRecord {
	if !r.Outcome.Asks {
		return nil
	}
	var open []InputRecord
	for _, in := range r.Inputs {
		if in.Answer == nil {
			open = append(open, in)
		}
	}
	for _, c := range r.Calls {
		if c.Answer.Run != nil {
			open = append(open, c.Answer.Run.Open()...)
		}
	}
	return open
}

// UndoRecord is the record of a compensation registered by the script. An executed compensation has
// a CallRecord too.
type UndoRecord struct {
	Request      abi.ToolCall // as written by the script
	Server, Tool string       // as in CallRecord
	// Err is the error received by the script; nil if the compensation was accepted.
	Err *abi.CallError
}

// Answer is the answer to a call, as sent by the upstream and as received by the script.
type Answer struct {
	// Result is the raw CallToolResult; or nil.
	Result []byte
	// RPCError is the raw JSON-RPC error object of the upstream's answer.
	RPCError []byte
	// Meta is the raw _meta of Result; or nil.
	Meta []byte
	// Value is the raw JSON received by the script.
	Value []byte
	// Run is the record of the answering nested run, if the script called a composite tool;
	// otherwise nil.
	Run *Record
	// Err is the error received by the script instead of a value: for an isError result, a JSON-RPC
	// error, or a suppressed call.
	Err *abi.CallError
	// Decision is policy's decision about the call, nil for a plain default.
	Decision *Decision
}

// FlowRecord is a finding or decision of information flow about a run (package flow). People see
// the records; the agents' view of a run does not depend on them.
type FlowRecord struct {
	At   time.Duration // since the start of the run
	What string        // see the constants
	// Label is the name of a label, or names of several; "" for none.
	Label string
	// Server and Tool are the real names of the subject; "" for none.
	Server, Tool string
	// Path is the path of the run of a saved tool; see shadow.Batch.
	Path string
	Text string
	// Arguments are the arguments of a call of a shadow; nil for none.
	Arguments []byte
	// Allowed is set if a person has allowed the call, or a call of a shadow succeeded.
	Allowed bool
}

// The values of FlowRecord.What.
const (
	FlowLabel    = "label"    // the run has had the first answer with the label
	FlowSame     = "same"     // the shadows make the same call
	FlowDeny     = "deny"     // a call was not made, and the run ends
	FlowUndo     = "undo"     // a compensation was not made
	FlowAsk      = "ask"      // a person was asked about a call
	FlowReport   = "report"   // a call was made that some shadows do not make
	FlowReplace  = "replace"  // the call of a shadow was made
	FlowWithhold = "withhold" // a call of the run was not made, and the run goes on
	FlowShort    = "short"    // a shadow had more to send than the run
	FlowInherit  = "inherit"  // a server got data that may depend on labelled answers
	FlowClear    = "clear"    // result and log do not depend on the label
	FlowResult   = "result"   // the labels of result and log
)

// Flow records a finding or decision of information flow. After Close, Flow does nothing.
func (r *Run) Flow(e FlowRecord) {
	e.At = r.since()
	r.mu.Lock()
	ended := !r.end.IsZero()
	if !ended {
		r.flow = append(r.flow, e)
	}
	r.mu.Unlock()
	if !ended {
		r.disk.flow(&e)
	}
}

// Flows reports whether the record of the run has a FlowRecord with the given What.
func (r *Record) Flows(what string) bool {
	return slices.ContainsFunc(r.Flow, func(e FlowRecord) bool { return e.What == what })
}

// FlowLabels returns the names of the labels of all answers of the run, with the nested runs.
func (r *Record) FlowLabels() []string {
	var names []string
	for _, e := range r.Flow {
		if e.What == FlowLabel && !slices.Contains(names, e.Label) {
			names = append(names, e.Label)
		}
	}
	return names
}

const eventFlow = "flow"

func (d *runLog) flow(e *FlowRecord) { d.event(func() { d.line.flow(d.id, e) }) }

// flow writes the event of a FlowRecord.
func (l *line) flow(id string, e *FlowRecord) {
	l.start(eventFlow, id)
	l.number("at", int64(e.At))
	l.plain("what", e.What)
	l.text("label", e.Label)
	l.text("server", e.Server)
	l.text("tool", e.Tool)
	l.text("path", e.Path)
	l.text("text", e.Text)
	l.raw("arguments", e.Arguments)
	l.flag("allowed", e.Allowed)
	l.finish()
}

func readFlow(f fields) FlowRecord {
	return FlowRecord{
		At: f.duration("at"), What: f.text("what"), Label: f.text("label"), Server: f.text("server"), Tool: f.text("tool"),
		Path: f.text("path"), Text: f.text("text"), Arguments: f.json("arguments"), Allowed: f.flag("allowed"),
	}
}

// NewID returns an id for a run that starts at t: a version 7 UUID (RFC 9562, section 5.7) in lower
// case. The twelve bits after the milliseconds hold the fraction of the millisecond (section 6.2,
// method 3): ids sort by time to about a quarter of a microsecond.
func NewID(t time.Time) string {
	var u [16]byte
	rand.Read(u[8:]) // never fails, see crypto/rand
	ms := t.UnixMilli()
	fraction := t.Sub(time.UnixMilli(ms)) * 4096 / time.Millisecond
	binary.BigEndian.PutUint64(u[:8], uint64(ms)<<16|7<<12|uint64(fraction)&0xfff)
	u[8] = u[8]&0x3f | 0x80

	var text [36]byte
	hex.Encode(text[0:8], u[0:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:36], u[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// Proxied is the record of a call of an upstream's tool made by a client itself, without a script.
// After a question or a denial by policy, a Proxied can also be a call of a saved or built-in tool,
// with the Server policy.SavedTools or policy.BuiltinTools, or another request.
type Proxied struct {
	ID       string // in the form of run ids
	Start    time.Time
	Duration time.Duration
	Client   Client
	Server   string
	Tool     string // the server's own name
	// Kind is "" for a tool, else another policy.Kind. Then Tool is the name or URI.
	Kind string
	// Outcome is OK, abi.ErrTool for an isError result, abi.ErrRuntime for a JSON-RPC error,
	// abi.ErrCancelled, or abi.ErrPermission for a call without permission.
	Outcome string
	// Sent and Received are the sizes of the request's params and of the answer, in
	// bytes. Sent is 0 if nothing was sent to the server, and Received for a cancelled call.
	Sent, Received int

	// Params are the raw params as they were sent to the server, or would have been, and
	// Result or RPCError is the raw answer. They are set only if whole records are kept.
	Params, Result, RPCError []byte
	Redacted                 bool // a part was redacted in the journal
	// Decision is policy's decision, nil for a plain default.
	Decision *Decision
}

// The outcomes of proxied calls other than OK.
const (
	proxiedTool      = string(abi.ErrTool)
	proxiedRPC       = string(abi.ErrRuntime)
	proxiedCancelled = string(abi.ErrCancelled)

	// ProxiedDenied is the outcome of a call without permission.
	ProxiedDenied = string(abi.ErrPermission)
)

// ProxiedOutcome returns the Outcome of a call with the given answer.
func ProxiedOutcome(result, rpcError []byte, cancelled bool) string {
	switch {
	case cancelled:
		return proxiedCancelled
	case rpcError != nil:
		return proxiedRPC
	}
	if flag, _ := wire.Get(result, "isError"); string(flag) == "true" {
		return proxiedTool
	}
	return OK
}

// Proxied records an ended call. A nil *Log does nothing.
func (l *Log) Proxied(p Proxied) {
	if l == nil {
		return
	}
	opts := l.options()
	buffer := lines.Get().(*[]byte)
	line := line{b: (*buffer)[:0], redactor: opts.Redactor}
	line.proxied(&p)
	end, err := l.writeAt(line.b, line.ends, nil)
	if err == nil && opts.Sync == SyncAlways {
		l.flush(end) // which reports failures
	}
	if cap(line.b) <= maxReused {
		*buffer = line.b
		lines.Put(buffer)
	}
}

func (l *line) proxied(p *Proxied) {
	if p.ID == "" {
		p.ID = NewID(p.Start)
	}
	l.start(eventProxied, p.ID)
	l.number("v", version)
	l.time("time", p.Start)
	l.number("duration", int64(p.Duration))
	l.client(&p.Client)
	l.text("kind", p.Kind)
	l.text("server", p.Server)
	l.text("tool", p.Tool)
	l.text("outcome", p.Outcome)
	l.number("sent", int64(p.Sent))
	l.number("received", int64(p.Received))
	l.raw("params", p.Params)
	l.raw("result", p.Result)
	l.raw("rpcError", p.RPCError)
	l.decision(p.Decision)
	l.finish()
	l.ended(seal.Event(l.b[l.from:len(l.b)-1]), nil)
}

func readProxied(id string, f fields) (Proxied, error) {
	p := Proxied{
		ID: id, Start: f.time("time"), Duration: f.duration("duration"),
		Client: f.client(),
		Server: f.text("server"), Tool: f.text("tool"), Outcome: f.text("outcome"),
		Sent: f.number("sent"), Received: f.number("received"),
		Params: f.json("params"), Result: f.json("result"), RPCError: f.json("rpcError"), Redacted: f.flag("redacted"),
		Kind: f.text("kind"), Decision: f.decision(),
	}
	return p, *f.err
}

// ScanProxied is [Scan] for proxied calls. Filter.Tool is SERVER.TOOL, or just TOOL.
func ScanProxied(ctx context.Context, dir string, f Filter) iter.Seq2[Proxied, error] {
	return Reader{Dir: dir}.ScanProxied(ctx, f)
}

// ScanProxied is [ScanProxied] for all journals of the Reader, like [Reader.Scan].
func (r Reader) ScanProxied(ctx context.Context, f Filter) iter.Seq2[Proxied, error] {
	return func(yield func(Proxied, error) bool) {
		left := f.Limit
		for x, err := range r.indexes(ctx, f, true) {
			if err != nil {
				if !yield(Proxied{}, err) {
					return
				}
				continue
			}
			slices.SortStableFunc(x.proxied, func(a, b proxiedPos) int { return cmp.Compare(b.id, a.id) })
			files := newOpenFiles(r.Dir)
			for i, at := range x.proxied {
				if i%linesPerCheck == 0 && ctx.Err() != nil {
					files.close()
					yield(Proxied{}, context.Cause(ctx))
					return
				}
				if !f.mayMatch(at.id) {
					continue
				}
				p, err := files.proxied(at)
				if err == nil && !f.matchesProxied(&p) {
					continue
				}
				if !yield(p, err) {
					files.close()
					return
				}
				if left--; err == nil && left == 0 {
					files.close()
					return
				}
			}
			files.close()
			x.proxied, x.runs = nil, map[string]*indexedRun{}
		}
	}
}

func (o *openFiles) proxied(at proxiedPos) (Proxied, error) {
	text, err := o.read(at.linePos)
	if err == nil {
		var f fields
		if f, err = readFields(text); err == nil {
			var p Proxied
			if p, err = readProxied(at.id, f); err == nil {
				return p, nil
			}
		}
	}
	return Proxied{}, &LineError{o.path(*at.file), at.at, err}
}

func (f *Filter) matchesProxied(p *Proxied) bool {
	return (f.Tool == "" || p.Tool == f.Tool || p.Server+"."+p.Tool == f.Tool) &&
		(f.Outcome == "" || p.Outcome == f.Outcome) &&
		(f.Session == "" || p.Client.Session == f.Session) && (f.Token == "" || p.Client.Token == f.Token) &&
		(f.Since.IsZero() || !p.Start.Before(f.Since)) && (f.Until.IsZero() || p.Start.Before(f.Until))
}

// Decision is policy's decision about a request.
type Decision struct {
	Action string // a policy.Action
	Rule   string // name of the deciding rule; policy.DefaultRule if no rule applied
	Reason string // of the rule; may be ""

	// Approval is the decision of people after a question; nil if no person was asked.
	Approval *Approval
}

// Approval is the decision of people about a request; see policy.Approval.
type Approval struct {
	ID         string
	By         string
	How        string
	Allowed    bool
	At         time.Time
	Waited     time.Duration
	Remembered bool
	Digest     string
	Note       string
}
