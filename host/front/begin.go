package front

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Most calls only have to be passed on. For those the reader of the client hands
// the request to the upstream, and the reader of the upstream hands the answer
// back: no goroutine waits in between, which costs more than all the rest. Of
// what takes its time, a goroutine takes care then (request.Resume).

// begin leaves a registered request to the backend, which has it land when it is
// over. It is false where that cannot be; then it must be started.
func (s *Session) begin(req *request) bool {
	if s.begins == nil || req.batch != nil {
		return false
	}
	cancel, ok := s.begins.Begin(req.call(), req)
	if !ok {
		return false
	}
	s.mu.Lock()
	if req.cancel == nil { // else it goes on on a goroutine already
		req.cancel = cancel
	}
	gone, cause := req.phase == dropped, req.cause
	s.mu.Unlock()
	switch {
	case gone:
		cancel(cause)
	case s.ctx.Err() != nil: // perhaps too late for endBegun
		cancel(context.Cause(s.ctx))
	}
	return true
}

// endBegun cancels the requests that the backend was left with: their work has no
// context that ends with that of the session.
func (s *Session) endBegun() {
	var cancels []func(error)
	s.mu.Lock()
	for _, req := range s.inFlight {
		if req.cancel != nil {
			cancels = append(cancels, req.cancel)
		}
	}
	s.mu.Unlock()
	for _, cancel := range cancels {
		cancel(context.Cause(s.ctx))
	}
}

// Cancelled implements route.Landing.
func (r *request) Cancelled() bool { return r.at() == dropped }

// Land implements route.Landing.
func (r *request) Land(reply wire.Reply) {
	s := r.session
	if !s.finish(r, reply) {
		reply = wire.Reply{}
	}
	last := s.response(r.msg.ID, reply)
	done, err := r.out.TryClose(last)
	if done {
		s.written(r.out, err)
		s.workers.Done()
		return
	}
	s.crew.all.Go(func() {
		defer s.workers.Done()
		s.written(r.out, r.out.Close(last))
	})
}

// Resume implements route.Landing.
func (r *request) Resume(work func(ctx context.Context) wire.Reply) {
	r.work = func(_ *Session, ctx context.Context, _ *request) wire.Reply { return work(ctx) }
	r.start()
}

var _ route.Landing = (*request)(nil)
