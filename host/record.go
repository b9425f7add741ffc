package host

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// recorder writes down what goes through a Host. Its log is nil where nothing is
// kept.
type recorder struct {
	host     *Host
	log      *journal.Log
	masker   *config.Masker
	redactor *config.Redactor
	start    time.Time
	last     atomic.Pointer[clientOf] // whose call was recorded last
}

func newRecorder(h *Host, cfg *config.Config) *recorder {
	r := &recorder{host: h, masker: cfg.NewMasker(), start: time.Now()}
	r.redactor = config.NewRedactor(r.masker, cfg.Journal.Redact)
	if cfg.Journal.Enabled {
		r.log = journal.OpenLog(cfg.JournalDir(), r.options(cfg))
	}
	return r
}

// apply brings the recorder up to a configuration. Secrets of earlier ones stay
// secret.
func (r *recorder) apply(cfg *config.Config) {
	r.masker.Add(cfg.Secrets...)
	r.redactor.SetPatterns(cfg.Journal.Redact)
	if r.log != nil {
		r.log.Configure(r.options(cfg))
	}
}

func (r *recorder) options(cfg *config.Config) journal.LogOptions {
	j := cfg.Journal
	return journal.LogOptions{
		Required: j.Required, Sync: journal.Sync(j.Sync),
		MaxSize: int64(j.MaxSize), MaxTotal: int64(j.MaxTotal), MaxAge: j.MaxAge,
		Redactor: r.redactor, Log: r.host.opts.Log,
		Trouble: func(err error) { r.trouble(err, j.Required) },
	}
}

// trouble tells clients that their calls are not recorded, or are again.
func (r *recorder) trouble(err error, required bool) {
	const logger = Name + "/journal"
	switch {
	case err == nil:
		r.host.router.Announce("notice", logger, "calls are recorded again")
	case required:
		r.host.router.Announce("error", logger, fmt.Sprintf("composite tools are refused, because calls cannot be recorded: %v", err))
	default:
		r.host.router.Announce("error", logger, fmt.Sprintf("calls are not recorded: %v", err))
	}
}

// runs are what agents can look into; nil where they cannot.
func (r *recorder) runs(cfg *config.Config) builtin.Runs {
	if r.log == nil || !cfg.Builtins.Runs {
		return nil
	}
	return builtin.JournalRuns{Dir: r.log.Dir(), Since: r.start}
}

// Observes implements route.Observer.
func (r *recorder) Observes() bool {
	return r.log != nil && r.host.config().Journal.Proxied != config.ProxiedOff
}

// Observe implements route.Observer.
func (r *recorder) Observe(call route.ObservedCall) { r.log.Proxied(r.proxied(call)) }

// ObserveSoon implements route.SoonObserver. Whole answers are too much work for
// one goroutine.
func (r *recorder) ObserveSoon(call route.ObservedCall, then func()) bool {
	return r.host.config().Journal.Proxied != config.ProxiedFull && r.log.ProxiedSoon(r.proxied(call), then)
}

// clientOf is a session's client, with the params of initialize that it is read
// from.
type clientOf struct {
	params []byte
	journal.Client
}

// client reads what a session said of its client, unless it has done so last.
func (r *recorder) client(s route.Session) journal.Client {
	params := s.Client()
	if c := r.last.Load(); c != nil && c.Session == s.ID() && bytes.Equal(c.params, params) {
		return c.Client
	}
	info, _ := wire.Get(params, "clientInfo")
	name, _ := wire.GetString(info, "name")
	version, _ := wire.GetString(info, "version")
	c := clientOf{params, journal.Client{Session: s.ID(), Name: name, Version: version}}
	r.last.Store(&c)
	return c.Client
}

func (r *recorder) proxied(call route.ObservedCall) journal.Proxied {
	p := journal.Proxied{
		Start: call.Start, Duration: call.Duration, Server: call.Server, Tool: call.Tool,
		Client:  r.client(call.Session),
		Outcome: journal.ProxiedOutcome(call.Reply.Result, call.Reply.Error, call.Cancelled),
		Sent:    len(call.Params), Received: len(call.Reply.Result) + len(call.Reply.Error),
	}
	if r.host.config().Journal.Proxied == config.ProxiedFull {
		p.Params, p.Result, p.RPCError = call.Params, call.Reply.Result, call.Reply.Error
	}
	if call.Cancelled { // the reply is ours, and nobody gets it
		p.Received, p.Result, p.RPCError = 0, nil, nil
	}
	return p
}

// close ends the recording.
func (r *recorder) close(log *slog.Logger) {
	if err := r.log.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
		log.Warn("end of the journal", "err", err)
	}
}
