package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// This file is the whole state machine: run is its one goroutine, and enter
// the one place where a state changes.

// maxStatusErr bounds Status.Err, in bytes.
const maxStatusErr = 2 << 10

// run is the life of the upstream: one link after the other.
func (u *Upstream) run(ctx context.Context) {
	defer close(u.done)
	defer u.wg.Wait()
	pause := backoff{tempo: u.tempo}
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
		if !u.enter(Starting, turn{}) {
			return
		}
	}
}

// attempt is the life of one link. It returns when nothing of it is left, and
// tells when the next one is due; zero for never.
func (u *Upstream) attempt(ctx context.Context, pause *backoff) (due time.Time) {
	l, err := u.dial(ctx)
	if err != nil {
		if ctx.Err() == nil {
			due = u.failed(err, nil, pause)
		}
		return due
	}
	u.setPid(l.pid())
	err = u.serve(ctx, l)
	if ctx.Err() == nil {
		due = u.failed(err, l, pause) // before the shutdown, which may take its time
	}
	l.shutDown(u.tempo.grace, u.kill)
	u.setPid(0)
	return due
}

func (u *Upstream) dial(ctx context.Context) (link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, u.spec.Timeout,
		fmt.Errorf("it could not be reached within %v (raise its timeout)", u.spec.Timeout))
	defer cancel()
	return dial(ctx, u.spec, linkOptions{
		log:            u.log,
		budget:         u.opts.Budget,
		onNotification: u.notification,
		onRequest:      u.request,
		onGarbage:      u.garbled,
		allowance:      u.allowance,
		lines:          u.lines,
	})
}

// serve brings the link up and looks after it until it ends or ctx does.
func (u *Upstream) serve(ctx context.Context, l link) error {
	capabilities, err := u.handshake(ctx, l)
	if err != nil {
		return err
	}
	for _, s := range wire.Surfaces {
		if _, has := wire.Get(capabilities, s.Capability()); !has {
			u.listed(s, [][]byte{}, nil)
			continue
		}
		if err := u.list(ctx, l, s); err != nil {
			if s == wire.Tools || over(ctx, l, err) {
				return err
			}
			u.unlisted(s, err)
		}
	}
	u.ready(l)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.Done():
			return l.Err()
		case <-u.doubt:
			if err := u.silent(ctx, l); err != nil {
				return err
			}
		case <-u.relist:
			for _, s := range u.toRelist() {
				u.allowance.spend(relistCost, ctx.Done(), l.Done())
				if err := u.list(ctx, l, s); err != nil && !over(ctx, l, err) {
					u.unlisted(s, err)
				}
			}
		}
	}
}

// relistCost is what a change of a list costs beside its notification, in bytes:
// the list is read anew, and told to clients.
const relistCost = 32 * floodUnit

// over tells whether err comes from the end of the link or of ctx.
func over(ctx context.Context, l link, err error) bool {
	var down *DownError
	return ctx.Err() != nil || l.Err() != nil || errors.As(err, &down)
}

func (u *Upstream) ready(l link) {
	if !u.enter(Ready, turn{link: l}) {
		return
	}
	s := u.Status()
	u.log.Info("upstream is ready", "server", s.ServerName, "version", s.ServerVersion, "protocol", s.ProtocolVersion,
		"tools", s.Tools, "after", s.StartTime.Round(time.Millisecond), "pid", s.Pid, "restarts", s.Restarts)
	if u.opts.OnReady != nil {
		u.wg.Go(u.opts.OnReady)
	}
}

// failed takes the upstream down because of err, and tells when it is to be
// started again; zero for never. l is its link, if there was one.
func (u *Upstream) failed(err error, l link, pause *backoff) (due time.Time) {
	var down *DownError
	if !errors.As(err, &down) {
		down = &DownError{Upstream: u.spec.Name, Reason: reason(err), Err: err}
	}
	text := down.Error()
	u.mu.Lock()
	if u.garbage != "" {
		text += fmt.Sprintf("\nit wrote what is no JSON-RPC message, first %q", u.garbage)
	}
	before, up := u.status.Err, time.Duration(0)
	if u.status.State == Ready {
		before, up = "", time.Since(u.status.Since)
	}
	u.mu.Unlock()
	if l != nil {
		if last := l.lastWords(); len(last) > 0 {
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
	if u.Status().State != Closed { // before callers learn it
		level := slog.LevelError
		if text == before { // it may go on for days
			level = slog.LevelInfo
		}
		u.log.Log(context.Background(), level, "upstream failed", attrs...)
	}
	u.enter(Failed, turn{down: down, due: due})
	return due
}

// reason is what a DownError says beside the name of the upstream.
func reason(err error) string {
	var timeout *TimeoutError
	var answer *AnswerError
	switch {
	case errors.As(err, &timeout):
		return "start failed: " + timeout.reason()
	case errors.As(err, &answer):
		return fmt.Sprintf("start failed: answer to %s: %v", answer.Method, answer.Err)
	}
	return err.Error()
}

func (u *Upstream) closing() {
	u.enter(Closed, turn{down: &DownError{Upstream: u.spec.Name, Reason: "closed", Err: wire.ErrClosed}})
}

// follows says which states may follow which.
var follows = map[State][]State{
	Starting: {Ready, Failed, Closed},
	Ready:    {Failed, Closed},
	Failed:   {Starting, Closed},
}

// turn is what goes with a change of the state.
type turn struct {
	link link       // Ready: calls go there
	down *DownError // Failed and Closed: why calls fail
	due  time.Time  // Failed: when the next start is; zero for never
}

// enter changes the state. It returns false, and changes nothing, where the
// state has no such successor.
func (u *Upstream) enter(s State, t turn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.status.State
	if !slices.Contains(follows[was], s) {
		return false
	}
	now := time.Now()
	u.status.State, u.status.Since, u.status.RestartAt, u.link = s, now, t.due, t.link
	switch s {
	case Starting: // u.down stays, for those who call meanwhile
		u.begun, u.garbage = now, ""
		u.status.Restarts++
	case Ready:
		u.status.StartTime = now.Sub(u.begun)
		u.down, u.hope = nil, false
	case Failed, Closed:
		u.down = t.down
		u.hope = was == Ready && !t.due.IsZero() && t.due.Sub(now) < u.tempo.patience
	}
	if s != Starting {
		settle(u.started)
		settle(u.shaken)
	}
	close(u.turned)
	u.turned = make(chan struct{})
	return true
}

// settle closes c if it is open. The caller holds the lock that guards it.
func settle(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// refusal is why a call fails while there is no link. The caller holds u.mu.
func (u *Upstream) refusal() *DownError {
	if u.down == nil { // its end is not noticed yet
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

// setErr sets Status.Err and returns it as it is then.
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
