package host

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

// recorderOptions are the options of a recorder.
type recorderOptions struct {
	// Announce sends clients a log message when calls are not recorded, and when they
	// are recorded again; see route.Router.Announce.
	Announce func(level, logger, text string)
	// Logger is the logger name for Announce.
	Logger string
	// Fleet also keeps the records in the store of a fleet; nil without a fleet.
	Fleet journal.Fleet
	// Signer returns the signer of runs by a configuration; nil for none. Signer itself may be nil.
	Signer func(*config.Config) seal.Signer
	Log    *slog.Logger
}

// recorder records proxied calls. It implements route.Observer and is safe for concurrent use.
type recorder struct {
	opts     recorderOptions
	journal  *journal.Log // nil if nothing is recorded
	redactor *config.Redactor
	masker   *config.Masker
	start    time.Time
	proxied  atomic.Value                  // config.Proxied: how much of a call is recorded
	last     atomic.Pointer[sessionClient] // the client of the last recorded call
}

// newRecorder opens the journal of a configuration, if the configuration enables the journal. The
// caller must Close the recorder.
func newRecorder(cfg *config.Config, opts recorderOptions) *recorder {
	r := &recorder{opts: opts, masker: cfg.NewMasker(), start: time.Now()}
	r.redactor = config.NewRedactor(r.masker, cfg.Journal.Redact)
	r.proxied.Store(cfg.Journal.Proxied)
	if cfg.Journal.Enabled {
		r.journal = journal.OpenLog(cfg.JournalDir(), r.options(cfg))
	}
	return r
}

// Journal returns the journal, nil if nothing is recorded.
func (r *recorder) Journal() *journal.Log { return r.journal }

// RedactJSON returns a raw JSON value with secrets replaced as in the journal, also if nothing
// is recorded.
func (r *recorder) RedactJSON(raw []byte) []byte {
	redacted, _ := r.redactor.JSON(raw)
	return redacted
}

// Start returns when the recorder was made.
func (r *recorder) Start() time.Time { return r.start }

// Configure applies another configuration. The secrets of earlier ones are still
// redacted.
func (r *recorder) Configure(cfg *config.Config) {
	r.masker.Add(cfg.Secrets...)
	r.redactor.SetPatterns(cfg.Journal.Redact)
	r.proxied.Store(cfg.Journal.Proxied)
	if r.journal != nil {
		r.journal.Configure(r.options(cfg))
	}
}

func (r *recorder) options(cfg *config.Config) journal.LogOptions {
	j := cfg.Journal
	var signer seal.Signer
	if r.opts.Signer != nil {
		signer = r.opts.Signer(cfg)
	}
	return journal.LogOptions{
		Signer: signer, SignRequired: j.Sign == config.SignRequired,
		Required: j.Required, Sync: journal.Sync(j.Sync),
		MaxSize: int64(j.MaxSize), MaxTotal: int64(j.MaxTotal), MaxAge: j.MaxAge,
		Redactor: r.redactor, Fleet: r.opts.Fleet, Log: r.opts.Log,
		Trouble: func(err error) { r.announceTrouble(err, j.Required) },
	}
}

// announceTrouble tells clients that calls are not recorded, or are recorded again.
func (r *recorder) announceTrouble(err error, required bool) {
	switch {
	case err == nil:
		r.opts.Announce("notice", r.opts.Logger, "calls are recorded again")
	case required:
		r.opts.Announce("error", r.opts.Logger, fmt.Sprintf("composite tools are refused, because calls cannot be recorded: %v", err))
	default:
		r.opts.Announce("error", r.opts.Logger, fmt.Sprintf("calls are not recorded: %v", err))
	}
}

// Observes implements route.Observer.
func (r *recorder) Observes() bool {
	return r.journal != nil && r.proxied.Load() != config.ProxiedOff
}

// Observe implements route.Observer.
func (r *recorder) Observe(call route.ObservedCall) { r.journal.Proxied(r.entry(call)) }

// ObserveAsync implements route.AsyncObserver. ObserveAsync refuses whole answers, which are too
// much work for one goroutine.
func (r *recorder) ObserveAsync(call route.ObservedCall, then func()) bool {
	return r.proxied.Load() != config.ProxiedFull && r.journal.ProxiedAsync(r.entry(call), then)
}

// entry returns the journal entry for a call.
func (r *recorder) entry(call route.ObservedCall) journal.Proxied {
	p := journal.Proxied{
		Start: call.Start, Duration: call.Duration, Server: call.Server, Tool: call.Tool,
		Client:   r.client(call.Origin),
		Outcome:  journal.ProxiedOutcome(call.Reply.Result, call.Reply.Error, call.Cancelled),
		Received: len(call.Reply.Result) + len(call.Reply.Error),
	}
	if !call.Unsent {
		p.Sent = len(call.Params)
	}
	p.Kind, p.Decision = string(call.Kind), stack.Recorded(call.Decision)
	if call.Kind == policy.KindTool {
		p.Kind = ""
	}
	if call.Reply.Denied != nil {
		p.Outcome = journal.ProxiedDenied
	}
	if r.proxied.Load() == config.ProxiedFull {
		p.Params, p.Result, p.RPCError = call.Params, call.Reply.Result, call.Reply.Error
	}
	if call.Cancelled { // the reply is our own and is not sent
		p.Received, p.Result, p.RPCError = 0, nil, nil
	}
	return p
}

// sessionClient is the sender of a request, with its params of initialize.
type sessionClient struct {
	params []byte
	journal.Client
}

// client returns the sender of a request. The recorder caches the last sender, so as not to parse
// the params for each call.
func (r *recorder) client(origin route.Origin) journal.Client {
	params, id := origin.Client(), origin.Session().ID()
	token := origin.Session().TokenName()
	if c := r.last.Load(); c != nil && c.Session == id && c.Token == token && bytes.Equal(c.params, params) {
		return c.Client
	}
	info, _ := wire.Get(params, "clientInfo")
	name, _ := wire.GetString(info, "name")
	version, _ := wire.GetString(info, "version")
	c := sessionClient{params, journal.Client{Session: id, Name: name, Version: version, Token: token}}
	r.last.Store(&c)
	return c.Client
}

// Close closes the journal.
func (r *recorder) Close() {
	if err := r.journal.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
		r.opts.Log.Warn("the journal was not closed properly", "err", err)
	}
}
