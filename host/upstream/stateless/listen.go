package stateless

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/upstream/link"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Timings are the delays of listening.
type Timings struct {
	Handover     time.Duration // how long a subscription goes on over HTTP after another one has taken its place
	Acknowledged time.Duration // how long the server may take to acknowledge a subscription
	FirstDelay   time.Duration // before the first attempt to listen again
	MaxDelay     time.Duration // the longest one; each is twice the last
	StableAfter  time.Duration // after a subscription of this length, the next delay is FirstDelay
}

func (t *Timings) setDefaults() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Handover, time.Second}, {&t.Acknowledged, 15 * time.Second}, {&t.FirstDelay, 250 * time.Millisecond},
		{&t.MaxDelay, 30 * time.Second}, {&t.StableAfter, time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
}

// subscriptions are what the server is asked to send by itself. There is one subscription
// with everything that is wanted. When that changes, another one takes its place.
type subscriptions struct {
	changed chan struct{} // holds a token when wanted has changed

	mu      sync.Mutex
	wanted  filter
	version uint64 // counts changes of wanted
	opening *subscription
	current *subscription // acknowledged; nil while there is none
	// old is the one before current. Over HTTP it has a stream of its own, on which
	// messages may be under way that current does not get. It is ended after a while.
	old     *subscription
	settled uint64        // the newest version for which there is an outcome
	outcome error         // of that version; nil: it is current
	moved   chan struct{} // closed and replaced when settled changes
	// broken is closed and replaced when messages may have been missed.
	broken chan struct{}
	tasks  map[string]int // how many calls watch a task; their ids are in wanted
	// unlistened are the surfaces, and unwatched the resources, whose changes may have been
	// missed since a subscription has ended.
	unlistened []wire.Surface
	unwatched  []string
}

// subscription is one subscriptions/listen.
type subscription struct {
	asked    filter
	version  uint64
	id       string // raw JSON-RPC id
	pending  rpc.Pending
	honoured filter        // set before acknowledged is closed
	acked    chan struct{} // closed by the acknowledgement
	ended    chan error    // gets why it has ended; buffered
	over     *time.Timer   // of the old one: when to end it
	since    time.Time     // when it was opened
}

func (s *subscriptions) init() {
	s.changed, s.moved = make(chan struct{}, 1), make(chan struct{})
	s.broken, s.tasks = make(chan struct{}), map[string]int{}
}

// listenWait is how long Listen waits for the acknowledgement.
const listenWait = time.Second

// Listen begins to listen to the changes that the server can announce, given its
// capabilities. It waits a moment for the acknowledgement, so that no change is missed in
// lists that are read after that. It is called once.
func (l *Link) Listen(ctx context.Context, capabilities []byte) {
	version := l.subscriptions.want(func(f *filter) { f.surfaces = announcedBy(capabilities) })
	l.wg.Go(l.listen)
	ctx, cancel := context.WithTimeout(ctx, listenWait)
	defer cancel()
	_, _ = l.awaitVersion(ctx, version) // it goes on in the background
}

// Announces reports whether the server has said that it announces changes of a list, in a
// subscription that has not ended.
func (l *Link) Announces(surface wire.Surface) bool {
	if surface == wire.Templates { // which have no notification of their own
		surface = wire.Resources
	}
	current := l.subscriptions.now()
	return current != nil && slices.Contains(current.honoured.surfaces, surface)
}

// want changes what is wanted and returns the version of the change.
func (s *subscriptions) want(change func(f *filter)) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted.uris, s.wanted.tasks = slices.Clone(s.wanted.uris), slices.Clone(s.wanted.tasks) // a subscription may have the old ones
	change(&s.wanted)
	s.version++
	s.signal()
	return s.version
}

// signal makes listen compare what is wanted with what there is.
func (s *subscriptions) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// settle records the outcome for a version.
func (s *subscriptions) settle(version uint64, outcome error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled, s.outcome = version, outcome
	close(s.moved)
	s.moved = make(chan struct{})
}

// listen keeps a subscription with what is wanted open until the link is shut down.
func (l *Link) listen() {
	s := &l.subscriptions
	var delay time.Duration
	for {
		if !l.awaitWork(delay) {
			return
		}
		if err := l.open(); err != nil && l.ctx.Err() == nil {
			if delay = l.failed(err, delay); delay < 0 {
				return
			}
			continue
		}
		current := s.now()
		if current == nil { // nothing is wanted
			delay = 0
			continue
		}
		select {
		case <-l.ctx.Done():
		case <-l.handedOver():
			l.replaceOld(nil)
			s.signal()
			continue
		case <-s.changed:
			delay = 0
			s.signal()
			continue
		case err := <-current.ended:
			delay = l.lost(current, err, delay)
			s.signal()
			continue
		}
		l.stopAll()
		return
	}
}

// stopAll ends everything when the link is shut down.
func (l *Link) stopAll() {
	l.replaceOld(nil)
	if current := l.subscriptions.now(); current != nil {
		l.stop(current)
	}
}

// handedOver returns a channel that is ready when the old subscription has to be ended;
// nil if there is none.
func (l *Link) handedOver() <-chan time.Time {
	l.subscriptions.mu.Lock()
	defer l.subscriptions.mu.Unlock()
	if old := l.subscriptions.old; old != nil {
		return old.over.C
	}
	return nil
}

// replaceOld ends the old subscription; s takes its place for a while.
func (l *Link) replaceOld(s *subscription) {
	if s != nil {
		s.over = time.NewTimer(l.opts.Timings.Handover)
	}
	l.subscriptions.mu.Lock()
	old := l.subscriptions.old
	l.subscriptions.old = s
	l.subscriptions.mu.Unlock()
	if old != nil {
		old.over.Stop()
		l.stop(old)
	}
}

// awaitWork waits until there is something to open, but at least for delay. It returns
// false when the link is shut down.
func (l *Link) awaitWork(delay time.Duration) bool {
	s := &l.subscriptions
	if delay > 0 {
		t := time.NewTimer(delay - rand.N(delay/4+1))
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.ctx.Done():
		}
	}
	select {
	case <-s.changed:
	case <-l.ctx.Done():
	}
	if l.ctx.Err() == nil {
		return true
	}
	l.stopAll()
	return false
}

func (s *subscriptions) now() *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// stop ends a subscription. Nobody waits for its outcome.
func (l *Link) stop(s *subscription) { s.pending.Cancel(wire.ErrClosed) }

// open opens a subscription with what is wanted now, and ends the one before when it is
// acknowledged. Without anything wanted it only ends the one before.
func (l *Link) open() error {
	s := &l.subscriptions
	s.mu.Lock()
	if s.current != nil && s.current.version == s.version {
		s.mu.Unlock()
		return nil
	}
	next := &subscription{
		asked: s.wanted, version: s.version,
		acked: make(chan struct{}), ended: make(chan error, 1), since: time.Now(),
	}
	before := s.current
	s.mu.Unlock()
	var err error
	if !next.asked.isEmpty() {
		err = l.start(next)
	}
	if err != nil {
		s.settle(next.version, err)
		return err
	}
	s.mu.Lock()
	s.opening, s.current = nil, next
	if next.asked.isEmpty() {
		s.current = nil
	}
	s.mu.Unlock()
	s.settle(next.version, nil)
	l.handOver(before)
	l.reportUnwatched(next)
	return nil
}

// reportUnwatched reports the lists and resources that were not watched for a while, once
// they are watched again: whoever reads one then misses no later change.
func (l *Link) reportUnwatched(now *subscription) {
	s := &l.subscriptions
	s.mu.Lock()
	surfaces, uris := s.unlistened, s.unwatched
	s.unlistened, s.unwatched = nil, nil
	s.mu.Unlock()
	if len(surfaces) > 0 && l.opts.Changed != nil {
		l.opts.Changed(surfaces)
	}
	for _, uri := range uris {
		if l.opts.Updated != nil && slices.Contains(now.honoured.uris, uri) {
			l.opts.Updated(uri)
		}
	}
}

// handOver ends a subscription in whose place there is another one; nil: nothing. If the
// server had ended it before, changes may have been missed.
func (l *Link) handOver(before *subscription) {
	switch {
	case before == nil:
	case len(before.ended) > 0:
		l.stop(before)
		l.subscriptions.miss(before)
	case l.opts.HTTP:
		l.replaceOld(before)
	default: // what was sent for it has been read before the acknowledgement of the other
		l.stop(before)
	}
}

// start sends subscriptions/listen and waits for its acknowledgement.
func (l *Link) start(next *subscription) error {
	call := wire.Call{Method: protocol.MethodListen, Params: next.asked.params()}
	if len(next.asked.tasks) > 0 {
		call.Client = declareTasks(l.opts.Client)
	}
	out, err := l.request(call)
	if err != nil {
		return err
	}
	s := &l.subscriptions
	s.mu.Lock() // the acknowledgement may come before the id is known
	next.pending, err = l.Link.Submit(out, rpc.Limit{}, func(reply wire.Reply, more wire.Continuation) {
		next.ended <- l.endOf(reply, more)
	})
	if err == nil {
		next.id = strconv.FormatInt(next.pending.ID(), 10)
		s.opening = next
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	late := time.NewTimer(l.opts.Timings.Acknowledged)
	defer late.Stop()
	select {
	case <-next.acked:
		return nil
	case err = <-next.ended:
		if err == nil {
			err = errors.New("it ended before it was acknowledged")
		}
	case <-late.C:
		err = fmt.Errorf("it was not acknowledged within %v", l.opts.Timings.Acknowledged)
		l.stop(next)
	case <-l.ctx.Done():
		err = context.Cause(l.ctx)
		l.stop(next)
	}
	s.mu.Lock()
	s.opening = nil
	s.mu.Unlock()
	return err
}

// endOf returns why a subscription has ended: nil for its regular end.
func (l *Link) endOf(reply wire.Reply, more wire.Continuation) error {
	switch {
	case more != nil:
		_, err := more(l.ended()) // does not wait: the outcome is there
		return err
	case reply.Error != nil:
		bad := wire.ParseError(reply.Error)
		bad.Message = link.Excerpt(bad.Message)
		return bad
	}
	return nil
}

// ended returns a context that has ended, for a continuation that must not block.
func (l *Link) ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// failed handles a subscription that could not be opened. It returns the delay before the
// next attempt, which also needs another change if the server has no subscriptions; -1
// if the link is shut down.
func (l *Link) failed(err error, delay time.Duration) time.Duration {
	s := &l.subscriptions
	if l.Link.Err() != nil {
		return -1
	}
	l.doubt()
	var bad *wire.RPCError
	if errors.As(err, &bad) && (bad.Code == wire.CodeMethodNotFound || bad.Code == wire.CodeInvalidParams) {
		l.opts.Log.Warn("the server refuses subscriptions: changes of its lists will not be noticed", "err", err)
		return 0
	}
	l.opts.Log.Debug("the server could not be listened to", "err", link.Excerpt(err.Error()))
	s.signal()
	return min(max(2*delay, l.opts.Timings.FirstDelay), l.opts.Timings.MaxDelay)
}

// lost handles the end of the current subscription. It returns the delay before the next
// attempt.
func (l *Link) lost(was *subscription, err error, delay time.Duration) time.Duration {
	s := &l.subscriptions
	s.mu.Lock()
	s.current = nil
	surfaces := was.honoured.surfaces
	s.mu.Unlock()
	s.miss(was)
	l.opts.Log.Debug("the subscription has ended", "err", err)
	if l.opts.Changed != nil {
		l.opts.Changed(surfaces)
	}
	if time.Since(was.since) >= l.opts.Timings.StableAfter {
		delay = 0
	}
	return min(max(2*delay, l.opts.Timings.FirstDelay), l.opts.Timings.MaxDelay)
}
