package journal

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
	Decision *policy.Decision
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
