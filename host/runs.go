package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// runs implements route.Runs.
type runs struct{ *Host }

// TaskAfter implements route.Runs. Without a journal, TaskAfter returns 0: no call becomes a task,
// since a restart would lose the task.
func (h runs) TaskAfter() time.Duration {
	if h.recorder.Journal() == nil {
		return 0
	}
	return h.config().Execution.TaskAfter
}

// TaskLife implements route.Runs.
func (h runs) TaskLife() time.Duration { return h.config().Journal.MaxAge }

// FindRun implements route.Runs.
func (h runs) FindRun(id string) (route.RecordedRun, error) {
	found, err := h.now.Load().composer.FindRun(id)
	if errors.Is(err, store.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", route.ErrStoreAway, err)
	}
	return found, err
}

// CancelRun implements route.Runs.
func (h runs) CancelRun(id string) error {
	if h.durable.Runs == nil {
		return route.ErrNoRun
	}
	err := h.durable.Cancel(context.Background(), id)
	if errors.Is(err, durable.ErrNotFound) {
		return route.ErrNoRun
	}
	return err
}

// AbandonRun implements route.Runs.
func (h runs) AbandonRun(id string) error { return h.now.Load().composer.AbandonRun(id) }
