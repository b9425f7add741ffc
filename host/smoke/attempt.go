package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// captured are the values that the checks of a file have captured in a run.
type captured struct {
	mu     sync.Mutex
	values map[string][]byte // JSON
}

func (v *captured) set(name string, raw []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.values == nil {
		v.values = map[string][]byte{}
	}
	v.values[name] = raw
}

func (v *captured) get(name string) (raw []byte, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	raw, ok = v.values[name]
	return raw, ok
}

// check runs a check.
func (r *run) check(ctx context.Context, c *checkRun) {
	begun := time.Now()
	defer func() {
		if c.result.Duration == 0 && c.result.Status != report.Skipped {
			c.result.Duration = time.Since(begun)
		}
		if c.result.Status == report.Failed || c.result.Status == report.Broken {
			r.failed.Store(true)
		}
		last := c.fileRun.left.Add(-1) == 0
		if last {
			c.fileRun.servers = maskedServers(c.fileRun.live.servers(ctx, r.opts.Coverage != nil), c.fileRun.mask)
		}
		close(c.done)
		if last {
			c.fileRun.end()
		}
	}()
	if c.Phase == Teardown { // also after Ctrl-C
		ctx = context.WithoutCancel(ctx)
	}
	if why := r.skipped(ctx, c); why != "" {
		c.result = c.skippedResult(why)
		return
	}
	ready, err := c.fileRun.ready(ctx, c)
	if skip := (*skipError)(nil); errors.As(err, &skip) {
		c.result = c.skippedResult(skip.reason)
		return
	}
	c.Check = ready
	if err == nil && ready.Skip != "" {
		c.result = c.skippedResult(ready.Skip)
		return
	}
	if err != nil {
		c.result = masked(c.resultOf(c.fileRun.path, nil, err), c.fileRun.masker)
		return
	}
	c.started.Store(true)
	if c.Phase != Teardown {
		c.fileRun.began.Store(true)
	}
	r.attempts(ctx, c)
}

// skipped returns why a check does not run; "" if the check runs.
func (r *run) skipped(ctx context.Context, c *checkRun) string {
	switch {
	case c.Skip != "":
		return c.Skip
	case c.Phase == Teardown && !c.fileRun.began.Load():
		return "nothing in the file has run"
	case c.Phase == Teardown:
		return ""
	case r.opts.FailFast && r.failed.Load():
		return "a check before it has not passed (--fail-fast)"
	case ctx.Err() != nil:
		return "interrupted"
	}
	return ""
}

func (c *checkRun) skippedResult(why string) report.Result {
	result := c.blankResult(c.fileRun.path)
	result.Status, result.Problems = report.Skipped, []report.Problem{{Message: why}}
	return masked(result, c.fileRun.masker)
}

// skipError says why a check is skipped for lack of a value.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

// ready returns the check with the captured values. The error is a *BrokenError, or a *skipError.
func (f *fileRun) ready(ctx context.Context, c *checkRun) (*Check, error) {
	for _, s := range f.checks {
		if s == c || s.planned.Phase != Setup || c.planned.Phase == Teardown {
			break
		}
		if s.result.Status != report.Passed && s.result.Status != report.Skipped {
			return c.Check, broken(nil, "%s has not passed", s.label())
		}
	}
	var undone *captureError
	ready, err := f.file.ready(ctx, c.Check, func(name string) ([]byte, error) {
		if raw, ok := f.captured.get(name); ok {
			return raw, nil
		}
		why, started := f.whyNot(f.file.captures[name].check)
		missing := &captureError{name, f.file.captures[name].check, why}
		if !started {
			undone = missing
		}
		return nil, missing
	}, f.masker.Add)
	if err != nil && undone != nil && c.Phase == Teardown {
		return c.Check, &skipError{"nothing to undo: " + undone.Error()}
	}
	return ready, err
}

// whyNot returns why a check has captured no value, and whether the check has started.
func (f *fileRun) whyNot(from *Check) (why string, started bool) {
	for _, c := range f.checks {
		if c.planned != from {
			continue
		}
		switch c.result.Status {
		case report.Skipped:
			return "that check was skipped", false
		case report.Broken:
			return "that check could not be run", c.started.Load()
		default:
			return "that check has failed", true
		}
	}
	return "that check was not chosen", false
}

// attempts runs a check until success, or up to the allowed number of attempts, and sets the
// check's result.
func (r *run) attempts(ctx context.Context, c *checkRun) {
	var result report.Result
	var err error
	attempts := 0
	for more := true; more; {
		attempts++
		result, err = r.attempt(ctx, c)
		more = attempts <= int(c.retry.times) && result.Status != report.Passed && r.asksServers(c) &&
			repeatable(err) && ctx.Err() == nil && c.retry.pause(ctx)
	}
	if r.opts.Update && err == nil && result.Status == report.Failed {
		if result, err = r.updateSnapshot(c, result); err == nil {
			c.edits, result.Problems = c.updates(result.Problems)
		}
		if len(result.Problems) == 0 {
			result.Problems = c.capture()
		}
		if len(result.Problems) == 0 {
			result.Status = report.Passed
		}
	}
	result.Attempts = attempts
	c.result = masked(result, c.fileRun.masker)
	if c.answer != nil {
		c.result.Run = viewOf(c.answer.run, c.fileRun.redact)
	}
	if r.records(c) && err == nil && (c.result.Status == report.Passed || r.opts.Update) {
		c.keep = true
		r.recordings.add(c.fileRun.file.place(c.Mock.File), c.recorded)
	}
}

// attempt runs a check once. The result has not been masked.
func (r *run) attempt(ctx context.Context, c *checkRun) (report.Result, error) {
	var err error
	c.answer, err = r.answerOf(ctx, c)
	if c.answer != nil {
		c.answer.redact = c.fileRun.redactJSON
	}
	if err == nil && (r.opts.Record || r.opts.Update) {
		err = r.writeLock(ctx, c)
	}
	result := c.resultOf(c.fileRun.path, c.answer, err)
	if result.Status == report.Passed {
		if result.Problems = c.capture(); len(result.Problems) > 0 {
			result.Status = report.Failed
		}
	}
	return result, err
}

// asksServers reports whether a check gets its answers from servers, whose answers may change.
func (r *run) asksServers(c *checkRun) bool {
	return !r.opts.Load.Offline && (c.Mock == nil || r.records(c))
}

// retry says how often a check is tried again.
type retry struct {
	times uint64 // after the first attempt
	delay time.Duration
}

const (
	maxRetries   = 1000
	defaultDelay = time.Second
)

// readRetry reads how often a check is tried again.
func (c *Check) readRetry(s *config.Section) {
	if s.Has("retry") && !s.IsTable("retry") {
		s.Know("retry")
		s.Problem("retry", `has to be a table: { times = 2, delay = "1s" }`)
		return
	}
	table := s.Section("retry")
	if table == nil {
		return
	}
	c.retry = retry{times: 1, delay: defaultDelay}
	table.Number("times", &c.retry.times, 1, maxRetries)
	table.Duration("delay", &c.retry.delay, 0, maxTime)
	table.Close(map[string]string{"count": "times", "attempts": "times", "max": "times", "interval": "delay", "wait": "delay"})
	if c.Mock != nil && c.Mock.File == "" {
		s.Problem("retry", "has no meaning with mocks, which always answer the same")
	}
}

// repeatable reports whether a check that has ended with an error, or failed with nil, may do
// better in another attempt.
func repeatable(err error) bool {
	var failed *failedError
	var down *servers.DownError
	return err == nil || errors.As(err, &failed) || errors.As(err, &down) || errors.Is(err, context.DeadlineExceeded)
}

// pause waits before the next attempt. pause reports whether ctx is still alive.
func (r retry) pause(ctx context.Context) bool {
	timer := time.NewTimer(r.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// timeoutError is the cause of a context when a check has taken too long.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string {
	return "no answer within " + units.FormatDuration(e.limit) + " (timeout of the check, or of [smoke])"
}

// errCancelled is the cause of a context that ended after cancel_after.
var errCancelled = errors.New("cancelled after cancel_after")

// failedError says why a check failed without an answer.
type failedError struct{ reason string }

func (e *failedError) Error() string { return e.reason }

// withTimeout returns a context that ends at the timeout of the check.
func withTimeout(ctx context.Context, c *Check, f *File) (context.Context, context.CancelFunc) {
	limit := cmp.Or(c.Timeout, f.Timeout)
	return context.WithTimeoutCause(ctx, limit, &timeoutError{limit})
}

// withCancelAfter returns a context that ends after the cancel_after of the check.
func (c *Check) withCancelAfter(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.CancelAfter == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.CancelAfter, errCancelled)
}

// endError translates the error of a call: nil if the call was cancelled as intended, a failedError
// for a failure, or the cause of ctx if the run is ending.
func (c *Check) endError(ctx context.Context, a *answer, err error) error {
	cause := context.Cause(ctx)
	var late *timeoutError
	switch {
	case errors.Is(cause, errCancelled):
		a.cancelled = true
		return nil
	case errors.As(cause, &late):
		return &failedError{late.Error()}
	case ctx.Err() != nil:
		return cause
	}
	return &failedError{fmt.Sprintf("no answer: %v", err)}
}

// callAndCancel calls an upstream's tool and cancels the call, without a session in between. No
// session learns the outcome of a cancelled call, so only the connection to the upstream shows
// whether the server has stopped (MCP 2025-11-25, basic/utilities/cancellation).
func (l *live) callAndCancel(ctx context.Context, h *host.Host, c *Check, server, tool string) (*answer, error) {
	a := &answer{}
	w := &cancelWatcher{}
	limited, cancel := c.withCancelAfter(ctx)
	defer cancel()
	begun := time.Now()
	reply, err := h.Request(limited, server, wire.Call{
		Method: protocol.MethodToolsCall, Params: c.request(tool), Late: w.late,
		Progress: func(p []byte) { a.progress = append(a.progress, p) },
	})
	a.took = time.Since(begun)
	if err == nil {
		return a, a.setReply(reply)
	}
	if err := c.endError(limited, a, err); err != nil {
		return a, err
	}
	a.stopped, a.afterCancel = w.watch(ctx, c.within, func(ctx context.Context) error {
		_, err := h.Request(ctx, server, wire.Call{Method: protocol.MethodPing})
		return err
	})
	return a, nil
}

// cancelWatcher records the messages of a server for a cancelled call.
type cancelWatcher struct {
	mu      sync.Mutex
	seen    []lateMessage
	stopped chan struct{} // closed when an answer arrives; nil until watch waits
}

type lateMessage struct {
	text string
	at   time.Time
}

// late implements wire.Call.Late.
func (w *cancelWatcher) late(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, lateMessage{text, time.Now()})
	if text == anAnswer && w.stopped != nil {
		close(w.stopped)
		w.stopped = nil
	}
}

// anAnswer is the text that wire.Call.Late gets for a response.
const anAnswer = "an answer"

// watch watches for twice the time that the server has to stop, or until the server has answered
// after all. watch returns when the last message came, and the reasons to believe that the server
// did not stop in time.
func (w *cancelWatcher) watch(ctx context.Context, within time.Duration, ping func(context.Context) error) (stopped time.Duration, afterCancel []string) {
	begun := time.Now()
	waiting, cancel := context.WithTimeout(ctx, 2*within)
	defer cancel()
	pinged := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		pinged <- ping(ctx)
	}()
	select {
	case <-w.answered():
	case <-waiting.Done():
	}
	if err := <-pinged; err != nil {
		afterCancel = append(afterCancel, fmt.Sprintf("the server does not answer a ping within %s", units.FormatDuration(within)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	reported := map[string]bool{} // a single message about many progress notifications is enough
	for _, s := range w.seen {
		after := s.at.Sub(begun)
		stopped = max(stopped, after)
		if after > within && !reported[s.text] {
			reported[s.text] = true
			afterCancel = append(afterCancel, fmt.Sprintf("%s came %s later", s.text, rounded(after)))
		}
	}
	return stopped, afterCancel
}

// answered returns a channel that is closed when an answer has arrived.
func (w *cancelWatcher) answered() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	stopped := make(chan struct{})
	for _, s := range w.seen {
		if s.text == anAnswer {
			close(stopped)
			return stopped
		}
	}
	w.stopped = stopped
	return stopped
}

// The values of "approve" in a check.
const (
	approveAllow = "allow"
	approveDeny  = "deny"
)

// readApprove reads the decision of a person.
func (c *Check) readApprove(s *config.Section) {
	text, ok := s.String("approve")
	switch {
	case !ok:
	case c.Mock != nil:
		s.Problem("approve", `has no meaning with mock: policy is not asked about mocked calls (say denied = "..." in a mock)`)
	case text != approveAllow && text != approveDeny:
		s.Problem("approve", `%q is not one of "allow", "deny"`, text)
	default:
		c.Approve = text
	}
}

type rehearsalKey struct{}

// rehearsing returns the context of the session in which the check makes its call.
func (c *Check) rehearsing(ctx context.Context) context.Context {
	return context.WithValue(ctx, rehearsalKey{}, c)
}

// errUnexpected is the error for a question to a person in a check without the person's decision.
var errUnexpected = errors.New(`the check does not say what a person decides (approve = "allow" or "deny")`)

// rehearsed decides as the check says, and is an approval.Person.
func rehearsed(ctx context.Context, _ approval.Question) (approval.Verdict, error) {
	c, _ := ctx.Value(rehearsalKey{}).(*Check)
	if c == nil || c.Approve == "" {
		return approval.Verdict{}, errUnexpected
	}
	return approval.Verdict{Allow: c.Approve == approveAllow, By: "the check " + c.Name}, nil
}
