package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stdio"
)

// The state machine of an upstream has a single goroutine, run, and only enter changes the state.

// maxStatusErr limits Status.Err, in bytes.
const maxStatusErr = 2 << 10

// run drives the upstream through successive links until the upstream is closed.
func (u *Upstream) run(ctx context.Context) {
	defer close(u.done)
	defer u.wg.Wait()
	pause := backoff{timings: u.timings}
	for {
		due := u.attempt(ctx, &pause)
		if ctx.Err() != nil || due.IsZero() {
			return
		}
		t := time.NewTimer(time.Until(due))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		if !u.enter(Starting, transition{}) {
			return
		}
	}
}

// attempt dials a link and serves the link until the link ends. attempt returns when no part of the
// link is left; due is the time for dialing the next link, zero for never.
func (u *Upstream) attempt(ctx context.Context, pause *backoff) (due time.Time) {
	in := &inbox{upstream: u}
	if o := u.opts.Observer; o != nil {
		in.connection = o.Connect(u.spec, u.Status().Restarts > 0)
		defer in.connection.Ended()
	}
	l, err := u.dial(ctx, in)
	if err != nil {
		if ctx.Err() == nil {
			due = u.failed(err, nil, pause)
		}
		return due
	}
	if p, ok := l.(subprocess); ok {
		u.setPid(p.Pid())
	}
	l, err = u.serve(ctx, l, in)
	var stale *staleError
	if errors.As(err, &stale) && ctx.Err() == nil {
		l.Shutdown(u.timings.grace, u.kill)
		return u.attempt(ctx, pause) // once: the verdict is forgotten
	}
	if ctx.Err() == nil {
		due = u.failed(err, l, pause) // before the shutdown, which may take a while
	}
	l.Shutdown(u.timings.grace, u.kill)
	u.setPid(0)
	return due
}

func (u *Upstream) dial(ctx context.Context, in *inbox) (link.Link, error) {
	spec, err := u.resolve(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, u.spec.Timeout,
		fmt.Errorf("it could not be reached within %v (raise its timeout)", u.spec.Timeout))
	defer cancel()
	opts := u.linkOptions(in)
	if u.opts.Streams != nil && spec.transport() == TransportStdio {
		if r, w, ok := u.opts.Streams(spec); ok {
			return stdio.Connect(r, w, opts), nil
		}
	}
	return dial(ctx, spec, opts, u.stderr)
}

// resolve returns the spec with the secrets. Only the link keeps the secrets.
func (u *Upstream) resolve(ctx context.Context) (Spec, error) {
	if u.opts.Resolve == nil {
		return u.spec, nil
	}
	asked := time.Now()
	spec, err := u.opts.Resolve(ctx, u.spec)
	u.mu.Lock()
	u.startBegan = u.startBegan.Add(time.Since(asked))
	u.mu.Unlock()
	return spec, err
}

func (u *Upstream) linkOptions(in *inbox) link.Options {
	callbacks := link.Callbacks{OnNotification: in.notification}
	if u.opts.OnRequest != nil {
		callbacks.OnRequest = in.request
	}
	opts := link.Options{
		MaxMessage:  u.spec.MaxMessage,
		Budget:      u.opts.Budget,
		Owner:       u.spec.Name,
		Handler:     callbacks,
		Errors:      CallErrors(u.spec.Name),
		Unsolicited: func(bytes int, done <-chan struct{}) { u.allowance.spend(bytes, done, nil) },
		Garbage:     u.noteGarbage,
		Log:         u.log,
	}
	if in.connection != nil {
		opts.Tracer = in.connection
	}
	return opts
}

// serve agrees with the server on a revision and lists the server, then serves the link until the
// link or ctx ends. serve returns the link to shut down: l, or a link over l.
func (u *Upstream) serve(ctx context.Context, l link.Link, in *inbox) (link.Link, error) {
	a, err := u.handshake(ctx, l, in)
	if err != nil {
		return l, err
	}
	if in.connection != nil {
		in.connection.Agreed(a.revision)
	}
	return a.link, u.serveAgreed(ctx, a.link, a.capabilities)
}

func (u *Upstream) serveAgreed(ctx context.Context, l link.Link, capabilities []byte) error {
	if s, ok := l.(*stateless.Link); ok {
		s.Listen(ctx, capabilities) // before the lists are read, so that no change is missed
	}
	lists := u.newListings(l)
	reading, stop := context.WithCancel(ctx)
	defer lists.wait()
	defer stop()
	if err := u.listFirst(reading, lists, capabilities); err != nil {
		return err
	}
	u.ready(l)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.Done():
			return l.Err()
		case <-u.timedOut:
			if err := u.checkSilence(ctx, l); err != nil {
				return err
			}
		case <-u.doubted:
			if err := u.checkEra(ctx, l); err != nil {
				return err
			}
		case <-u.relist:
			lists.begin(reading, relistCost, u.changedLists()...)
		case got := <-lists.outcomes:
			if err := u.use(l, got); err != nil && !over(ctx, l, err) {
				u.unlisted(got.surface, err)
			}
			u.endListing(got.surface, got.covers)
			lists.begin(reading, relistCost, u.changedLists()...) // changes in the meantime
		}
	}
}

// relistCost is the cost of a list_changed beyond the notification's size, in bytes: the list is
// read again and clients are notified.
const relistCost = 32 * floodUnit

// over reports whether err is due to the end of the link or of ctx.
func over(ctx context.Context, l link.Link, err error) bool {
	var down *DownError
	return ctx.Err() != nil || l.Err() != nil || errors.As(err, &down)
}

// below returns the link of the transport.
func below(l link.Link) link.Link {
	if s, ok := l.(*stateless.Link); ok {
		return s.Below()
	}
	return l
}

func (u *Upstream) ready(l link.Link) {
	if !u.enter(Ready, transition{link: l}) {
		return
	}
	s := u.Status()
	u.log.Info("upstream is ready", "server", s.ServerName, "version", s.ServerVersion, "protocol", s.ProtocolVersion,
		"tools", s.Tools, "after", s.StartTime.Round(time.Millisecond), "pid", s.Pid, "restarts", s.Restarts)
	if u.opts.OnReady != nil {
		u.wg.Go(u.opts.OnReady)
	}
}

// failed changes the state to Failed because of err. l is the link, or nil. due is when
// to start the upstream again, zero for never.
func (u *Upstream) failed(err error, l link.Link, pause *backoff) (due time.Time) {
	var down *DownError
	if !errors.As(err, &down) {
		down = &DownError{Upstream: u.spec.Name, Reason: reason(err), Err: err}
	}
	text := down.Error()
	u.mu.Lock()
	if u.firstGarbage != "" {
		text += fmt.Sprintf("\nit wrote something other than JSON-RPC messages, first %q", u.firstGarbage)
	}
	before, up := u.status.Err, time.Duration(0)
	if u.status.State == Ready {
		before, up = "", time.Since(u.status.Since)
	}
	u.mu.Unlock()
	var detailed interface{ Detail() string }
	if errors.As(err, &detailed) {
		text += "\n" + detailed.Detail()
	}
	if p, ok := below(l).(subprocess); ok {
		if last := p.StderrTail(); len(last) > 0 {
			text += "; its last lines on stderr:\n" + strings.Join(last, "\n")
		}
	}
	text = u.setErr(text)
	attrs := []any{"err", text}
	if u.spec.Restart != RestartNever {
		wait := pause.next(up, down.unsent)
		due = time.Now().Add(wait)
		attrs = append(attrs, "restart_in", wait.Round(time.Millisecond))
	}
	if u.Status().State != Closed { // log before callers see the state
		level := slog.LevelError
		if text == before { // the same failure may repeat for days
			level = slog.LevelInfo
		}
		u.log.Log(context.Background(), level, "upstream failed", attrs...)
	}
	if u.enter(Failed, transition{down: down, due: due}) && u.opts.OnFailed != nil {
		u.opts.OnFailed()
	}
	return due
}

// reason returns the text of err for DownError.Reason, without the name of the upstream.
func reason(err error) string {
	var timeout *TimeoutError
	var answer *AnswerError
	var list *ListError
	switch {
	case errors.As(err, &timeout):
		return "start failed: " + timeout.reason()
	case errors.As(err, &answer):
		return fmt.Sprintf("start failed: answer to %s: %v", answer.Method, answer.Err)
	case errors.As(err, &list):
		return "start failed: " + list.reason()
	}
	return err.Error()
}

func (u *Upstream) closing() {
	u.enter(Closed, transition{down: &DownError{Upstream: u.spec.Name, Reason: "closed", Err: wire.ErrClosed}})
}

// nextStates lists the possible next states of each state.
var nextStates = map[State][]State{
	Starting: {Ready, Failed, Closed},
	Ready:    {Failed, Closed},
	Failed:   {Starting, Closed},
}

// transition is the data of a change of state.
type transition struct {
	link link.Link  // Ready: calls use the link
	down *DownError // Failed and Closed: why calls fail
	due  time.Time  // Failed: when the next start is due; zero for never
}

// enter changes the state. If s may not follow the current state, enter changes nothing and returns
// false.
func (u *Upstream) enter(s State, t transition) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.status.State
	if !slices.Contains(nextStates[was], s) {
		return false
	}
	now := time.Now()
	u.status.State, u.status.Since, u.status.RestartAt, u.link = s, now, t.due, t.link
	switch s {
	case Starting: // u.down stays, for calls made in the meantime
		u.startBegan, u.firstGarbage = now, ""
		u.status.Restarts++
	case Ready:
		u.status.StartTime = now.Sub(u.startBegan)
		u.down, u.restartPending = nil, false
	case Failed, Closed:
		u.down = t.down
		u.restartPending = was == Ready && !t.due.IsZero() && t.due.Sub(now) < u.timings.callWait
	}
	if s != Starting {
		closeIfOpen(u.started)
		closeIfOpen(u.handshakeDone)
	}
	close(u.stateChanged)
	u.stateChanged = make(chan struct{})
	return true
}

// closeIfOpen closes c unless c is closed. The caller holds the lock that guards c.
func closeIfOpen(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// downError returns the error of a call without a link. ended is the error of the link that the
// caller has tried, or nil. The caller holds u.mu.
func (u *Upstream) downError(ended *DownError) *DownError {
	if u.down == nil { // run has not noticed the end of the link yet
		if ended != nil {
			return ended
		}
		return &DownError{Upstream: u.spec.Name, Reason: "its connection has just ended"}
	}
	down := *u.down
	switch {
	case u.status.State == Starting:
		down.Reason += "; it is being started again"
	case !u.status.RestartAt.IsZero():
		wait := max(0, time.Until(u.status.RestartAt)).Round(100 * time.Millisecond)
		down.Reason += fmt.Sprintf("; the next start is in %v", wait)
	}
	return &down
}

// setErr sets Status.Err to the truncated text, and returns Status.Err.
func (u *Upstream) setErr(text string) string {
	if len(text) > maxStatusErr {
		text = strings.ToValidUTF8(text[:maxStatusErr-len("...")], "") + "..."
	}
	u.mu.Lock()
	u.status.Err = text
	u.mu.Unlock()
	return text
}

func (u *Upstream) setPid(pid int) {
	u.mu.Lock()
	u.status.Pid = pid
	u.mu.Unlock()
}

// timings are the delays and waits of an upstream. Tests shorten them.
type timings struct {
	grace       time.Duration // between the steps of a shutdown
	killWait    time.Duration // how long Close waits for the goroutines after killing the server
	firstDelay  time.Duration // before the first restart
	maxDelay    time.Duration // the longest delay before a restart
	stableAfter time.Duration // after a server was ready this long, the next delay is firstDelay again
	callWait    time.Duration // how long calls wait for the first restart
	askAgain    time.Duration // before a server that does not work is asked again for the era
	checkEvery  time.Duration // the shortest time between two checks of a server's era
	discover    time.Duration // the longest wait for the answer to server/discover of a server that may not know the method
	patience    time.Duration // how long a start waits for the other lists after the list of tools
	reread      time.Duration // the shortest time between two readings of a list because of the list's age
}

var defaultTimings = timings{
	grace:       time.Second,
	killWait:    500 * time.Millisecond,
	firstDelay:  250 * time.Millisecond,
	maxDelay:    30 * time.Second,
	stableAfter: 10 * time.Second,
	callWait:    2 * time.Second,
	askAgain:    500 * time.Millisecond,
	checkEvery:  5 * time.Second,
	discover:    15 * time.Second,
	patience:    5 * time.Second,
	reread:      time.Second,
}

// backoff computes the delay before each restart.
type backoff struct {
	timings
	failures int           // in a row
	delay    time.Duration // the last delay, without jitter
}

// next returns the delay after a failure. The delay begins with about firstDelay and doubles up to
// maxDelay. A random part of up to a quarter is subtracted, so that upstreams with simultaneous
// failures do not restart at the same time. up is how long the server had been ready, or 0. With
// redial, only a connection has to be made again, so the delay after a first failure is 0.
func (b *backoff) next(up time.Duration, redial bool) time.Duration {
	if up >= b.stableAfter {
		b.failures = 0
	}
	b.failures++
	if b.failures == 1 {
		b.delay = b.firstDelay
		if redial {
			return 0
		}
	} else {
		b.delay *= 2
	}
	b.delay = min(b.delay, b.maxDelay)
	return b.delay - rand.N(b.delay/4+1)
}

// singleStreamLink is a link with a single stream from the server. Links over streamable HTTP are
// not: over streamable HTTP each request has a separate stream.
type singleStreamLink interface {
	// Heard returns a number that changes with each message. The number is odd while a message is
	// being processed, by us or by a slow client.
	Heard() int64
}

// noteTimeout makes serve check whether the server still responds, if err is the
// timeout of a call.
func (u *Upstream) noteTimeout(err error) {
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || timeout.Max || u.spec.Restart == RestartNever {
		return
	}
	select {
	case u.timedOut <- struct{}{}:
	default: // a check is pending
	}
}

// checkSilence sends the server a ping. checkSilence returns an error if neither the answer nor any
// other message arrives in time, because every call to a silent server would time out. A server
// that waits for an answer of ours is not checked, because the server may do nothing else.
func (u *Upstream) checkSilence(ctx context.Context, l link.Link) error {
	from, ok := below(l).(singleStreamLink)
	if !ok || u.answering.Load() > 0 {
		return nil
	}
	before := from.Heard()
	ctx, cancel := u.deadline(ctx, protocol.MethodPing)
	defer cancel()
	_, err := l.Call(ctx, wire.Call{Method: protocol.MethodPing})
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || before%2 == 1 || from.Heard() != before || u.answering.Load() > 0 {
		return nil // the end of the link has an error of its own
	}
	return &DownError{Upstream: u.spec.Name, Reason: fmt.Sprintf(
		"it no longer answers: after a call had timed out, no message came for %v, not even the answer to ping", timeout.After)}
}

// Limits on unsolicited messages of a server, which belong to no call in flight: log messages, list
// changes, requests, unexpected progress, garbage, lines on stderr. A unit is a message, or
// floodUnit bytes of a larger message. A server may send floodBurst units at once, and floodRate
// units per second in the long run. A faster server is read at floodRate, and so has to wait;
// nothing is dropped. Answers and progress of calls in flight cost nothing, but unsolicited
// messages in the same stream can delay them.
const (
	floodUnit  = 4 << 10 // bytes
	floodBurst = 20_000
	floodRate  = 500 // units a second
)

// allowance is a leaky bucket for the unsolicited messages of a server. The allowance lives as long
// as the upstream, so that a restart does not reset the bucket. It is safe for concurrent use. A
// nil allowance is unlimited.
type allowance struct {
	log   *slog.Logger
	kind  string // for the log
	burst int    // units

	mu    sync.Mutex
	used  time.Duration // the time until the bucket is empty
	at    time.Time     // when used was computed
	since time.Time     // when reading was slowed; zero at full speed
}

func newAllowance(log *slog.Logger, kind string) *allowance {
	return &allowance{log: log, kind: kind, burst: floodBurst}
}

// unitTime is the cost of a unit.
const unitTime = time.Second / floodRate

// spend charges for a message of some bytes, and waits for room for more, or until stop or stopToo
// is closed.
func (a *allowance) spend(bytes int, stop, stopToo <-chan struct{}) {
	if a == nil {
		return
	}
	wait, first := a.take(max(1, bytes/floodUnit))
	if first {
		a.log.Warn("the server sends too many unsolicited messages: it is read slowly from now on", "kind", a.kind, "units_per_second", floodRate)
	}
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	case <-stopToo:
	}
}

// take charges for units. take returns how long to wait before reading on, and whether this is the
// first wait.
func (a *allowance) take(units int) (wait time.Duration, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain()
	a.used += time.Duration(units) * unitTime
	wait = a.used - a.most()
	if first = wait > 0 && a.since.IsZero(); first {
		a.since = a.at
	}
	return wait, first
}

// drain empties the bucket by the elapsed time. The caller holds a.mu.
func (a *allowance) drain() {
	now := time.Now()
	a.used = max(0, a.used-now.Sub(a.at))
	a.at = now
	if a.used < a.most()/2 { // hysteresis
		a.since = time.Time{}
	}
}

// most is the size of the bucket.
func (a *allowance) most() time.Duration { return time.Duration(a.burst) * unitTime }

// slowed returns when reading became slow; zero at full speed.
func (a *allowance) slowed() time.Time {
	if a == nil {
		return time.Time{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain()
	return a.since
}
