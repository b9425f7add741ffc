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

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Timings are the delays of listening.
type Timings struct {
	Handover     time.Duration // how long a subscription goes on after another one has taken its place
	Ended        time.Duration // how long the server may take to end a subscription before the next one begins
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
		{&t.Handover, time.Second}, {&t.Ended, time.Second}, {&t.Acknowledged, 15 * time.Second}, {&t.FirstDelay, 250 * time.Millisecond},
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
	changed chan struct{} // holds a token when there is a version to open

	mu      sync.Mutex
	wanted  filter
	version uint64 // counts changes of wanted
	opening *subscription
	current *subscription  // acknowledged; nil while there is none
	leaving *subscription  // was current until now, and becomes old next; its messages count
	old     *subscription  // the one before current, while it is handed over
	settled outcome        // of the newest version that has one
	moved   chan struct{}  // closed and replaced when settled changes
	tasks   map[string]int // how many calls watch a task; their ids are in wanted
	// refused are resources for which the server refuses a subscription. They stay in
	// wanted until they are dropped, or are wanted anew.
	refused map[string]*wire.RPCError
	// alone says that the server has answered a subscription which we had ended, and that each
	// one must end before the next one begins; see endFirst. renew says that the current one
	// has to be replaced for that, although its filter is right.
	alone, renew bool
	// broken is closed and replaced when missed or renewed changes: subscriptions up to the
	// version missed have ended by themselves, and messages may have been missed. renewed
	// counts those that had to end before the next one.
	broken  chan struct{}
	missed  uint64
	renewed int
	// unlistened are the surfaces, and unwatched the resources, whose changes may have been
	// missed since a subscription has ended.
	unlistened []wire.Surface
	unwatched  []string
	// replaced counts subscriptions in a row that have ended by themselves while they were
	// handed over. Only listen uses it.
	replaced int
}

// outcome is what has become of a version.
type outcome struct {
	version  uint64
	honoured filter
	err      error // nil: there is a subscription, or nothing is wanted
}

// subscription is one subscriptions/listen.
type subscription struct {
	asked    filter
	version  uint64 // the newest one that asks for that; guarded by subscriptions.mu
	id       string // raw JSON-RPC id
	pending  rpc.Pending
	honoured filter        // set before acked is closed
	acked    chan struct{} // closed by the acknowledgement
	ended    chan struct{} // closed when it has ended
	err      error         // why; set before ended is closed; nil for the regular end
	gone     chan struct{} // closed when the server has answered it after we have ended it; guarded by subscriptions.mu
	over     *time.Timer   // of the old one: when to end it
	lasted   bool          // it went on as long as it was handed over; guarded by subscriptions.mu
	since    time.Time     // when it was opened
}

// hasEnded reports whether a subscription has ended. That was the server, or the stream,
// unless we have stopped it.
func (s *subscription) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

func (s *subscriptions) init() {
	s.changed, s.moved = make(chan struct{}, 1), make(chan struct{})
	s.broken, s.tasks, s.refused = make(chan struct{}), map[string]int{}, map[string]*wire.RPCError{}
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

// want changes what is wanted and returns the version of the change. Another subscription
// is opened only if the filter is another one: see open.
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
func (s *subscriptions) settle(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = o
	close(s.moved)
	s.moved = make(chan struct{})
}

// listen keeps a subscription with what is wanted open until the link is shut down.
func (l *Link) listen() {
	s := &l.subscriptions
	var delay time.Duration    // the last one before an attempt
	var pause <-chan time.Time // ready when the next attempt may be made; nil: now
	for {
		changed := s.changed
		if pause != nil {
			changed = nil
		}
		current, ended := s.end()
		handedOver, oldEnded := s.endsOfOld()
		select {
		case <-l.ctx.Done():
			l.stopAll()
			return
		case <-pause:
			pause = nil
		case <-ended:
			delay = l.lost(current, delay)
			pause = after(delay)
			s.signal()
		case <-handedOver:
			l.endHandOver(true)
			l.reportUnwatched()
		case <-oldEnded:
			l.endHandOver(false)
			l.reportUnwatched()
		case <-changed:
			switch err := l.open(); {
			case errors.Is(err, errEnded): // select has chosen the other one
				delay = l.lost(s.now(), delay)
				pause = after(delay)
				s.signal()
			case err == nil && (current != nil || s.now() == nil):
				delay = 0
			case err != nil && l.ctx.Err() == nil:
				if delay = l.failed(err, delay); delay < 0 {
					return
				}
				pause = after(delay)
			}
		}
	}
}

// after returns a channel that is ready after about that delay; nil for none.
func after(delay time.Duration) <-chan time.Time {
	if delay == 0 {
		return nil
	}
	return time.After(delay - rand.N(delay/4+1))
}

// end returns the current subscription and a channel that is closed when it has ended;
// nil if there is none.
func (s *subscriptions) end() (*subscription, <-chan struct{}) {
	current := s.now()
	if current == nil {
		return nil, nil
	}
	return current, current.ended
}

// stopAll ends everything when the link is shut down.
func (l *Link) stopAll() {
	l.dropOld()
	if current := l.subscriptions.now(); current != nil {
		l.stop(current)
	}
}

func (s *subscriptions) now() *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// stop ends a subscription. Nobody waits for its outcome.
func (l *Link) stop(s *subscription) { s.pending.Cancel(wire.ErrClosed) }

// start sends subscriptions/listen and waits for its acknowledgement.
func (l *Link) start(next *subscription) error {
	call := wire.Call{Method: protocol.MethodListen, Params: next.asked.params(), Late: func(string) { l.subscriptions.endedLate(next) }}
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
		next.err = l.endOf(reply, more)
		close(next.ended)
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
	case <-next.ended:
		if err = next.err; err == nil {
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
func (l *Link) lost(was *subscription, delay time.Duration) time.Duration {
	s := &l.subscriptions
	s.mu.Lock()
	s.current = nil
	s.mu.Unlock()
	l.dropOld()
	s.miss(was)
	l.opts.Log.Debug("the subscription has ended", "err", was.err)
	if l.opts.Changed != nil {
		l.opts.Changed(was.honoured.surfaces)
	}
	if time.Since(was.since) >= l.opts.Timings.StableAfter {
		delay = 0
	}
	return min(max(2*delay, l.opts.Timings.FirstDelay), l.opts.Timings.MaxDelay)
}
