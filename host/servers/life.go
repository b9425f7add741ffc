package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stdio"
)

// This file is the state machine of an upstream. The machine has a single goroutine, run, and only
// enter changes the state.

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
