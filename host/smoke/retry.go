package smoke

import (
	"context"
	"errors"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

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
