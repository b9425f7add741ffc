package smoke

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
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
