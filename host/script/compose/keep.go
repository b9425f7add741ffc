package compose

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// How long the end of a run waits until the record is in the store of the fleet: if the store is
// required, if the run is durable, and if the client is asked a question.
const (
	requiredTime = time.Minute
	durableTime  = 10 * time.Second
	asksTime     = 2 * time.Second
)

var errNotKept = errors.New("the store does not have it yet")

// keep waits until the record of a run is in the store of the fleet, if the record is needed there:
// by the configuration, by other replicas when the log of a durable run is removed, or by the
// replica that gets the client's answer. The error is the reason why the record may be missing.
func (r *run) keep(ctx context.Context) error {
	wait := time.Duration(0)
	switch {
	case r.tree.left() != nil:
	case r.journal.IsRequired():
		wait = requiredTime
	case r.tree.log != nil:
		wait = durableTime
	case errors.Is(context.Cause(ctx), errAsks):
		wait = asksTime
	}
	if wait == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), wait, errNotKept)
	defer cancel()
	return r.journal.Kept(ctx)
}

// unkept returns the failure of a run whose record had to be in the store of the fleet.
func (r *run) unkept(err error) *Failure {
	id := r.journal.ID()
	return &Failure{
		Type: abi.ErrResource, Run: id,
		Message: fmt.Sprintf("%s has run, but its result is not given, because its record is not in the store of the fleet, as [journal] required demands: %v "+
			"(what it called was called; the journal of this replica has it, and mcp-metatool runs show %s shows it)", r.tool, err, id),
	}
}

// unsigned returns the failure of a run whose record had to be signed.
func (r *run) unsigned(err error) *Failure {
	id := r.journal.ID()
	return &Failure{
		Type: abi.ErrResource, Run: id,
		Message: fmt.Sprintf("%s has run, but its result is not given: %v (what it called was called; mcp-metatool runs show %s shows it)", r.tool, err, id),
	}
}
