package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
)

// Values of Spec.Protocol. Another value is the name of a revision of the stateless era, which is
// then the only allowed revision.
const (
	ProtocolAuto   = "auto"
	ProtocolLegacy = "legacy" // only initialize
)

// Verdict is the era that a server was found to speak, and the time of the finding. The zero value
// means that nothing is known.
type Verdict struct {
	Era protocol.Era
	// Only is set for a server of the stateless era that was found not to speak the handshake era.
	Only bool
	At   time.Time
}

// How long a verdict is believed. An updated server may speak another era. The cost of finding out
// differs: over HTTP a request, over stdio a server of a kind that may not tolerate frequent
// unknown requests.
const (
	maxAgeHTTP  = 7 * 24 * time.Hour
	maxAgeStdio = 30 * 24 * time.Hour
)

// MaySpeak reports whether a server in use in an era may also speak the other era, according to the
// configuration and the verdict. ask means: AlsoStateless has to find out.
func (s Spec) MaySpeak(other protocol.Era, v Verdict) (may, ask bool) {
	transport := s.transport()
	switch {
	case s.Protocol != "" && s.Protocol != ProtocolAuto, transport == TransportSSE:
		return false, false
	case other == protocol.Handshake: // which is found out with initialize
		maxAge := maxAgeStdio
		if transport == TransportHTTP {
			maxAge = maxAgeHTTP
		}
		return !v.Only || !v.fresh(maxAge), false
	case transport == TransportHTTP: // where server/discover comes first
		return false, false
	case v.Era == protocol.Stateless:
		return true, false
	}
	return false, !v.fresh(maxAgeStdio)
}

// AlsoStateless asks a server over the connection of the handshake era whether the server also
// speaks the stateless era. The question is a request for a list with an envelope, which other
// servers ignore. After server/discover a server of the Go SDK 1.8 would take the connection for a
// connection of the stateless era, and other servers would exit or be silent.
func (u *Upstream) AlsoStateless(ctx context.Context) (bool, error) {
	server, _ := u.Server()
	for _, s := range wire.Surfaces {
		if _, has := wire.Get(server, "capabilities", s.Capability()); !has {
			continue
		}
		params, err := envelope.Of(protocol.Stateless.Newest(), u.ownClient(), "").Put([]byte("{}"))
		if err != nil {
			return false, err
		}
		reply, err := u.Call(ctx, wire.Call{Method: s.ListMethod(), Params: params})
		kind, _ := wire.GetString(reply.Result, "resultType")
		return kind == envelope.TypeComplete, err
	}
	return false, nil // no capability of the server is used in a call
}

func (v Verdict) fresh(maxAge time.Duration) bool {
	age := time.Since(v.At)
	return v.Era != 0 && age >= 0 && age < maxAge
}

// agreement is the agreement between an upstream and the server.
type agreement struct {
	link         link.Link // to use: a link of the stateless era, or the dialed link
	result       []byte    // in the form of an initialize result
	name         string
	version      string
	revision     string
	capabilities []byte
	how          string // for people
}

// inbox gets the server's messages of a link.
type inbox struct {
	upstream  *Upstream
	stateless atomic.Pointer[stateless.Link] // nil: the link is of the handshake era
	// connection observes the link; may be nil.
	connection Connection
}

// notification handles a notification, on the link's read loop.
func (in *inbox) notification(m wire.Inbound) {
	if l := in.stateless.Load(); l != nil {
		var ok bool
		if m.Params, ok = l.Inbound(m); !ok {
			return
		}
	}
	in.upstream.notification(m)
}

// request answers a request. A server of the stateless era must not send any, and a client
// must not answer (revision 2026-07-28, basic/transports/stdio).
func (in *inbox) request(ctx context.Context, m wire.Inbound) wire.Reply {
	if in.stateless.Load() != nil {
		in.upstream.log.Warn("a request of the server was dropped: the server's era has no requests", "method", link.Excerpt(m.Method))
		return wire.Reply{}
	}
	return in.upstream.request(ctx, m)
}

// staleError means that a server ended after a request based on a remembered verdict.
type staleError struct{ err error }

func (e *staleError) Error() string { return e.err.Error() }

func (e *staleError) Unwrap() error { return e.err }

// agree determines the server's era, and agrees with the server on a revision.
func (u *Upstream) agree(ctx context.Context, l link.Link, in *inbox) (agreement, error) {
	transport := u.spec.transport()
	switch {
	case u.spec.Protocol == ProtocolLegacy || transport == TransportSSE:
		return u.initialize(ctx, l, "configured")
	case u.spec.Protocol != "" && u.spec.Protocol != ProtocolAuto:
		revision, ok := protocol.Stateless.Lookup(u.spec.Protocol)
		if !ok {
			return agreement{}, fmt.Errorf("unknown protocol %q (use %s, %s or one of %v)", u.spec.Protocol, ProtocolAuto, ProtocolLegacy, protocol.Stateless.Names())
		}
		return u.discover(ctx, l, in, revision, u.spec.Timeout, "configured")
	case transport == TransportHTTP:
		return u.agreeHTTP(ctx, l, in)
	}
	return u.agreeStdio(ctx, l, in)
}

// agreeHTTP asks a server for the stateless era first, unless the verdict is the handshake era.
// After any failure, the next start asks again.
func (u *Upstream) agreeHTTP(ctx context.Context, l link.Link, in *inbox) (agreement, error) {
	if v := u.getVerdict(); v.Era == protocol.Handshake && v.fresh(maxAgeHTTP) {
		a, err := u.initialize(ctx, l, "initialize, as on "+v.At.Format(time.DateOnly))
		if isAnswer(err) {
			u.setVerdict(Verdict{})
		}
		return a, err
	}
	wasStateless := u.getVerdict().Era == protocol.Stateless
	a, err := u.discover(ctx, l, in, protocol.Stateless.Newest(), u.discoverWait(), "")
	if err == nil {
		u.setVerdict(Verdict{Era: protocol.Stateless, Only: u.getVerdict().Only, At: time.Now()})
		return a, nil
	}
	u.setVerdict(Verdict{})
	var other *stateless.OtherEraError
	var status *httpclient.StatusError
	var silent *TimeoutError
	switch {
	case errors.As(err, &other):
		a, err2 := u.initialize(ctx, l, "initialize, because "+other.Reason)
		if err2 == nil {
			u.setVerdict(Verdict{Era: protocol.Handshake, At: time.Now()})
		}
		return a, err2
	case errors.As(err, &status) && status.Status/100 == 5:
		// The server may give this answer to all unknown requests. Only the next start could use
		// the stateless era of another server, so the server is asked twice.
		if !u.askAgain(ctx) {
			return agreement{}, context.Cause(ctx)
		}
		if a, err2 := u.discover(ctx, l, in, protocol.Stateless.Newest(), u.discoverWait(), ""); err2 == nil {
			u.setVerdict(Verdict{Era: protocol.Stateless, At: time.Now()})
			return a, nil
		}
		u.log.Warn(unknownEra, "err", status)
		return u.initialize(ctx, l, fmt.Sprintf("initialize, this time: %v", status))
	case errors.As(err, &silent) && ctx.Err() == nil && !wasStateless:
		// The server may not answer unknown requests. A server that has answered this request
		// before is only slow, and stays in the stateless era.
		u.log.Warn(unknownEra, "err", err)
		return u.initialize(ctx, l, "initialize, this time: "+silent.reason())
	case refusesUnknown(err) && ctx.Err() == nil && l.Err() == nil && !wasStateless:
		u.log.Warn(unknownEra, "err", err)
		a, err2 := u.initialize(ctx, l, "initialize, this time: "+reason(err))
		var auth *httpclient.AuthError
		if err2 == nil || ctx.Err() != nil || errors.As(err2, &auth) {
			return a, err2
		}
		return agreement{}, u.neitherEra(err)
	}
	return agreement{}, err
}

// refusesUnknown reports whether the outcome of server/discover may be the way a server, or a
// gateway in front of the server, treats unknown requests: a refusal with 403 or 429, or a closed
// connection.
func refusesUnknown(err error) bool {
	var status *httpclient.StatusError
	var auth *httpclient.AuthError
	var elsewhere *httpclient.RedirectError
	var down *DownError
	switch {
	case errors.As(err, &auth), errors.As(err, &elsewhere):
		return false
	case errors.As(err, &status):
		return status.Status == http.StatusForbidden || status.Status == http.StatusTooManyRequests
	}
	return errors.As(err, &down) && !down.unsent
}

// neitherEra returns the error of a server that has refused the first requests of both eras. err is
// the error of the first refusal.
func (u *Upstream) neitherEra(err error) error {
	text := reason(err)
	if down := (*DownError)(nil); errors.As(err, &down) {
		text = down.Reason
	}
	return &DownError{Upstream: u.spec.Name, Err: err, Reason: fmt.Sprintf(
		"%s; initialize failed too (if the server speaks only one era of MCP, set its protocol to %q or %q)", text, ProtocolLegacy, protocol.Stateless.Newest())}
}

const unknownEra = "the server's era of the protocol is unknown: initialize is used this time (set protocol to skip the question)"

// discoverWait is how long a server that may not know server/discover may take to answer.
func (u *Upstream) discoverWait() time.Duration { return min(u.spec.Timeout/2, u.timings.discover) }

// isAnswer reports whether err shows an answer of the server. The failure of a connection says
// nothing about the server's era.
func isAnswer(err error) bool {
	var refused *wire.RPCError
	var status *httpclient.StatusError
	var version *VersionError
	return errors.As(err, &refused) || errors.As(err, &status) || errors.As(err, &version) || errors.Is(err, wire.ErrUnusable)
}

// askAgain waits before a server is asked a second time, and returns false if ctx ends.
func (u *Upstream) askAgain(ctx context.Context) bool {
	t := time.NewTimer(u.timings.askAgain)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// agreeStdio begins with initialize, because some servers exit at any other first request, and some
// never answer another first request. A server with the verdict of the stateless era is asked for
// the stateless era first if the server speaks no other era, or if the connection is for a client
// of the stateless era. If the verdict has become wrong, the server is started again.
func (u *Upstream) agreeStdio(ctx context.Context, l link.Link, in *inbox) (agreement, error) {
	newest := protocol.Stateless.Newest()
	stateless, err := u.prefersStateless(ctx, l)
	if err != nil {
		return agreement{}, err
	}
	if v := u.getVerdict(); stateless {
		a, err := u.discover(ctx, l, in, newest, u.discoverWait(), "server/discover was answered")
		if err == nil {
			if !v.fresh(maxAgeStdio / 2) {
				u.setVerdict(Verdict{Era: protocol.Stateless, Only: v.Only, At: time.Now()})
			}
			return a, nil
		}
		if ctx.Err() != nil {
			return agreement{}, err
		}
		u.log.Warn("the server no longer speaks the stateless era", "found", v.At.Format(time.DateOnly), "err", err)
		u.setVerdict(Verdict{})
		if l.Err() != nil {
			return agreement{}, &staleError{err}
		}
	}
	a, err := u.initialize(ctx, l, protocol.MethodInitialize)
	var refused *wire.RPCError
	if err == nil || !errors.As(err, &refused) || l.Err() != nil {
		return a, err
	}
	// A server that speaks only the stateless era answers initialize with an error.
	b, err2 := u.discover(ctx, l, in, newest, u.spec.Timeout, "server/discover, because initialize was refused")
	if err2 != nil {
		return a, err
	}
	u.setVerdict(Verdict{Era: protocol.Stateless, Only: true, At: time.Now()})
	return b, nil
}

// prefersStateless reports whether a server over stdio is asked for the stateless era first. If the
// client decides, prefersStateless waits for the client. The error comes from initializeParams.
func (u *Upstream) prefersStateless(ctx context.Context, l link.Link) (bool, error) {
	v := u.getVerdict()
	if v.Era != protocol.Stateless || v.Only || u.opts.Era == nil {
		return v.Era == protocol.Stateless && v.Only, nil
	}
	if _, err := u.initializeParams(ctx, l); err != nil {
		return false, err
	}
	return u.opts.Era() == protocol.Stateless, nil
}

// withSession is a link over streamable HTTP.
type withSession interface{ HasSession() bool }

// errNoSession means that the server cannot send requests to a client of the handshake era.
var errNoSession = errors.New("it has no sessions")

// initialize does the handshake.
func (u *Upstream) initialize(ctx context.Context, l link.Link, how string) (agreement, error) {
	params, err := u.initializeParams(ctx, l)
	if err != nil {
		return agreement{}, err
	}
	ctx, cancel := u.deadline(ctx, protocol.MethodInitialize)
	defer cancel()
	res, err := Initialize(ctx, l, params)
	if err != nil {
		return agreement{}, err
	}
	if of, ok := l.(withSession); ok && u.opts.NeedsSession && !of.HasSession() {
		return agreement{}, errNoSession
	}
	return agreement{l, res.Raw, res.ServerName, res.ServerVersion, res.ProtocolVersion, res.Capabilities, how}, nil
}

// discover makes a link of the stateless era over l, and sends server/discover.
func (u *Upstream) discover(ctx context.Context, l link.Link, in *inbox, revision protocol.Revision, wait time.Duration, how string) (agreement, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, &TimeoutError{Upstream: u.spec.Name, Method: protocol.MethodDiscover, After: wait})
	defer cancel()
	s := stateless.New(l, revision, stateless.Options{
		Upstream: u.spec.Name, Client: u.ownClient(), HTTP: u.spec.transport() == TransportHTTP, Errors: CallErrors(u.spec.Name),
		Relist: u.relistTools, Changed: u.announceMissed, Updated: u.updateMissed, Doubt: u.doubt, Log: u.log,
	})
	server, err := s.Discover(ctx)
	if err != nil {
		return agreement{}, err
	}
	if how == "" {
		how = protocol.MethodDiscover + " was answered"
	}
	in.stateless.Store(s)
	return agreement{s, server.Initialize, server.Name, server.Version, server.Revision.String(), server.Capabilities, how}, nil
}

// ownClient is the description of our client in requests for no client of ours: without
// capabilities.
func (u *Upstream) ownClient() []byte {
	return ClientParams{Name: u.opts.ClientName, Version: u.opts.ClientVersion}.Params()
}

// announceMissed has lists read again after changes that may not have been announced.
func (u *Upstream) announceMissed(surfaces []wire.Surface) {
	for _, s := range surfaces {
		u.announce(announced[s.ChangedMethod()], false, nil)
	}
}

// updateMissed reports the update of a resource in place of an update that may not have been
// announced.
func (u *Upstream) updateMissed(uri string) {
	if u.opts.OnNotification != nil {
		u.opts.OnNotification(wire.Inbound{Method: protocol.NotificationResourceUpdated, Params: wire.Marshal(map[string]string{"uri": uri})})
	}
}

// relistTools has the tools read again and waits for the end of the reading.
func (u *Upstream) relistTools(ctx context.Context) {
	u.announce([]wire.Surface{wire.Tools}, false, nil)
	u.AwaitLists(ctx, u.spec.Timeout, wire.Tools)
}

// doubt makes serve check the server's era.
func (u *Upstream) doubt() {
	select {
	case u.doubted <- struct{}{}:
	default: // serve will check
	}
}

// noteError has serve check the server if an error over a link of the handshake era is an error of
// servers of the other era.
func (u *Upstream) noteError(l link.Link, reply wire.Reply) {
	if _, ok := l.(*stateless.Link); ok || reply.Error == nil || u.spec.transport() != TransportHTTP || u.spec.Protocol == ProtocolLegacy {
		return
	}
	switch wire.ParseError(reply.Error).Code {
	case wire.CodeInvalidParams, protocol.CodeHeaderMismatch, protocol.CodeUnsupportedVersion:
		u.doubt()
	}
}

// checkEra asks a server whether the server still speaks the era of the link, and returns an error
// if not. Other failures have errors of their own.
func (u *Upstream) checkEra(ctx context.Context, l link.Link) error {
	if time.Since(u.eraChecked) < u.timings.checkEvery {
		return nil
	}
	u.eraChecked = time.Now()
	ctx, cancel := u.deadline(ctx, protocol.MethodDiscover)
	defer cancel()
	var err error
	changed := false
	if s, ok := l.(*stateless.Link); ok {
		var other *stateless.OtherEraError
		var revision *stateless.RevisionError
		_, err = s.Discover(ctx)
		changed = errors.As(err, &other) || errors.As(err, &revision)
	} else if reply, _ := l.Call(ctx, wire.Call{Method: protocol.MethodPing}); reply.Error != nil {
		bad := parseError(reply.Error)
		err = bad
		changed = bad.Code != wire.CodeMethodNotFound // of a server without ping
	}
	if !changed {
		return nil
	}
	u.setVerdict(Verdict{})
	return markUnsent(&DownError{Upstream: u.spec.Name, Reason: "it speaks another revision of the protocol than before", Err: err})
}

func (u *Upstream) getVerdict() Verdict {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.verdict
}

// setVerdict sets the verdict about the server, and tells the owner of the upstream.
func (u *Upstream) setVerdict(v Verdict) {
	u.mu.Lock()
	was := u.verdict
	u.verdict = v
	u.mu.Unlock()
	if was != v && u.opts.OnVerdict != nil {
		u.opts.OnVerdict(v)
	}
}

// Finding is the result of Probe.
type Finding struct {
	// Era is the era shown by the answer: protocol.Stateless if the server answers server/discover,
	// protocol.Handshake if the server answers as if server/discover were unknown, and 0 if the
	// answer is inconclusive.
	Era      protocol.Era
	Revision string // of the stateless era; "" if the server has none
	Text     string // for people
}

// probeWait is how long a server may take to start and to answer a probe.
const probeWait = 30 * time.Second

// Probe asks a server for the server's era, over a separate connection. A server over stdio is
// started once more for the question, so that no connection in use can be harmed.
func Probe(ctx context.Context, spec Spec, name, version string) Finding {
	if spec.transport() == TransportSSE {
		return Finding{Era: protocol.Handshake, Text: "HTTP+SSE is only part of revisions that begin with initialize"}
	}
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeoutCause(ctx, probeWait, fmt.Errorf("no answer to %s within %v", protocol.MethodDiscover, probeWait))
	defer cancel()
	opts := link.Options{MaxMessage: spec.MaxMessage, Handler: link.Callbacks{}, Errors: CallErrors(spec.Name), Log: log}
	l, err := dial(ctx, spec, opts, newAllowance(log, "lines on stderr"))
	if err != nil {
		return Finding{Text: link.Excerpt(err.Error())}
	}
	s := stateless.New(l, protocol.Stateless.Newest(), stateless.Options{
		Upstream: spec.Name, Client: ClientParams{Name: name, Version: version}.Params(),
		HTTP: spec.transport() == TransportHTTP, Errors: CallErrors(spec.Name), Log: log,
	})
	defer s.Shutdown(time.Second, ctx.Done())
	server, err := s.Discover(ctx)
	var other *stateless.OtherEraError
	switch {
	case err == nil:
		return Finding{protocol.Stateless, server.Revision.String(), protocol.MethodDiscover + " was answered"}
	case errors.As(err, &other):
		return Finding{Era: protocol.Handshake, Text: other.Reason}
	case l.Err() != nil && spec.transport() == TransportStdio:
		return Finding{Era: protocol.Handshake, Text: fmt.Sprintf("%s made it end: %s", protocol.MethodDiscover, link.Excerpt(err.Error()))}
	}
	return Finding{Text: link.Excerpt(err.Error())}
}
