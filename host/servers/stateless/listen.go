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

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

// Timings are the delays of listening.
type Timings struct {
	Handover     time.Duration // how long a replaced subscription continues
	Ended        time.Duration // how long the server may take to end a subscription before the next subscription begins
	Acknowledged time.Duration // how long the server may take to acknowledge a subscription
	FirstDelay   time.Duration // before the first attempt to listen again
	MaxDelay     time.Duration // the longest delay; each delay is twice the last
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

// subscriptions are our subscriptions to the server's notifications. At any time, a single
// subscription has everything wanted. When the wanted filter changes, another subscription takes
// over.
type subscriptions struct {
	changed chan struct{} // holds a token when a version is to be opened

	mu      sync.Mutex
	wanted  filter
	version uint64 // counts changes of wanted
	opening *subscription
	current *subscription  // acknowledged; may be nil
	leaving *subscription  // was current until now, and becomes old next; the messages count
	old     *subscription  // the subscription before current, during the handover
	settled outcome        // of the newest version with an outcome
	moved   chan struct{}  // closed and replaced when settled changes
	tasks   map[string]int // how many calls watch a task; their ids are in wanted
	// refused are resources for which the server refuses a subscription. They stay in
	// wanted until they are dropped, or are wanted anew.
	refused map[string]*wire.RPCError
	// alone is set if the server has answered a subscription after we had ended the subscription,
	// so that each subscription must end before the next begins; see endFirst. renew means that the
	// current subscription has to be replaced for this reason, although the filter is right.
	alone, renew bool
	// broken is closed and replaced when missed or renewed changes: subscriptions up to the version
	// missed have ended by themselves, and messages may have been missed. renewed counts the
	// subscriptions that had to end before the next subscription.
	broken  chan struct{}
	missed  uint64
	renewed int
	// unlistened are the surfaces, and unwatched the resources, with possibly missed changes since
	// the end of a subscription.
	unlistened []wire.Surface
	unwatched  []string
	// replaced counts subscriptions in a row that have ended by themselves during the handover.
	// Only listen uses replaced.
	replaced int
}

// outcome is the outcome of a version.
type outcome struct {
	version  uint64
	honoured filter
	err      error // nil: the subscription is open, or nothing is wanted
}

// subscription is a subscriptions/listen.
type subscription struct {
	asked    filter
	version  uint64 // the newest version with this filter; guarded by subscriptions.mu
	id       string // raw JSON-RPC id
	pending  rpc.Pending
	honoured filter        // set before acked is closed
	acked    chan struct{} // closed by the acknowledgement
	ended    chan struct{} // closed at the end of the subscription
	err      error         // why; set before ended is closed; nil for the regular end
	gone     chan struct{} // closed when the server has answered the subscription after we have ended it; guarded by subscriptions.mu
	over     *time.Timer   // of the old subscription: when to end the subscription
	lasted   bool          // the subscription lasted for the whole handover; guarded by subscriptions.mu
	since    time.Time     // when the subscription was opened
}

// hasEnded reports whether a subscription has ended: because of the server, or the stream, unless
// we have stopped the subscription.
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

// Listen begins to listen to the changes that the server can announce, according to capabilities.
// Listen waits a moment for the acknowledgement, so that no change is missed in lists read
// afterwards. Listen is called once.
func (l *Link) Listen(ctx context.Context, capabilities []byte) {
	version := l.subscriptions.want(func(f *filter) { f.surfaces = announcedBy(capabilities) })
	l.wg.Go(l.listen)
	ctx, cancel := context.WithTimeout(ctx, listenWait)
	defer cancel()
	_, _ = l.awaitVersion(ctx, version) // the opening continues in the background
}

// Announces reports whether the server has promised to announce changes of a list, in a
// subscription that has not ended.
func (l *Link) Announces(surface wire.Surface) bool {
	if surface == wire.Templates { // which have no notification of their own
		surface = wire.Resources
	}
	current := l.subscriptions.now()
	return current != nil && slices.Contains(current.honoured.surfaces, surface)
}

// want changes the wanted filter and returns the version of the change. Another subscription is
// opened only for a different filter: see open.
func (s *subscriptions) want(change func(f *filter)) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted.uris, s.wanted.tasks = slices.Clone(s.wanted.uris), slices.Clone(s.wanted.tasks) // a subscription may have the old ones
	change(&s.wanted)
	s.version++
	s.signal()
	return s.version
}

// signal makes listen compare the wanted filter with the current subscription.
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

// listen keeps a subscription with the wanted filter open until the link is shut down.
func (l *Link) listen() {
	s := &l.subscriptions
	var delay time.Duration    // the last delay before an attempt
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
			case errors.Is(err, errEnded): // select has chosen the other case
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

// after returns a channel that is ready after about delay; nil for no delay.
func after(delay time.Duration) <-chan time.Time {
	if delay == 0 {
		return nil
	}
	return time.After(delay - rand.N(delay/4+1))
}

// end returns the current subscription and a channel that is closed at the subscription's end; nil
// without a current subscription.
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

// stop ends a subscription without waiting for the outcome.
func (l *Link) stop(s *subscription) { s.pending.Cancel(wire.ErrClosed) }

// start sends subscriptions/listen and waits for the acknowledgement.
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

// endOf returns why a subscription has ended: nil for the regular end.
func (l *Link) endOf(reply wire.Reply, more wire.Continuation) error {
	switch {
	case more != nil:
		_, err := more(l.ended()) // does not wait: the outcome is known
		return err
	case reply.Error != nil:
		bad := wire.ParseError(reply.Error)
		bad.Message = link.Excerpt(bad.Message)
		return bad
	}
	return nil
}

// ended returns an ended context, for a continuation that must not block.
func (l *Link) ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// failed handles a subscription that could not be opened. failed returns the delay before the next
// attempt, which also needs another change if the server has no subscriptions; -1 if the link is
// shut down.
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

// lost handles the end of the current subscription, and returns the delay before the next attempt.
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

// errEnded means that the current subscription has ended by itself, and the end has not been handled
// yet.
var errEnded = errors.New("the current subscription has ended")

// open opens a subscription with the wanted filter, and hands the previous subscription over after
// the acknowledgement. Without anything wanted, open only ends the previous subscription. If the
// server refuses the subscription, open determines the refused resources, and does without them.
func (l *Link) open() error {
	s := &l.subscriptions
	var held []string // resources left out for the moment
	for {
		asked, err := l.openWithout(held)
		var bad *wire.RPCError
		switch {
		case err == nil && held == nil:
			return nil
		case err == nil:
			held = nil // the other resources are no longer suspected
			continue
		case errors.Is(err, errEnded):
			return err
		case errors.As(err, &bad) && (bad.Code == wire.CodeInvalidParams || bad.Code == protocol.CodeResourceNotFound):
			if suspects := s.suspects(asked); len(suspects) > 1 {
				held = append(held, suspects[len(suspects)/2:]...)
				continue
			} else if len(suspects) == 1 {
				s.refuse(suspects[0], bad)
				continue
			}
		}
		s.fail(asked, err)
		return err
	}
}

// suspects returns the resources that may be the reason for the refusal of a filter: the resources
// that the server has not accepted before.
func (s *subscriptions) suspects(asked filter) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(asked.uris), func(uri string) bool {
		return s.current != nil && slices.Contains(s.current.asked.uris, uri)
	})
}

// refuse notes that the server refuses a resource.
func (s *subscriptions) refuse(uri string, bad *wire.RPCError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[uri] = bad
}

// refusal returns the error of a refused resource; nil for other resources.
func (s *subscriptions) refusal(uri string) *wire.RPCError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[uri]
}

// fail records the lack of a subscription. If the server refuses even a subscription without
// resources, the resources are not the reason.
func (s *subscriptions) fail(asked filter, err error) {
	s.mu.Lock()
	version := s.version
	if len(asked.uris) == 0 {
		clear(s.refused)
	}
	s.mu.Unlock()
	s.settle(outcome{version, filter{}, err})
}

// openWithout is open without some resources, and returns the requested filter. A subscription with
// an equal filter stays: messages may be missed between subscriptions. The outcome is recorded only
// if nothing is held back.
func (l *Link) openWithout(held []string) (asked filter, err error) {
	s := &l.subscriptions
	s.mu.Lock()
	asked = s.wanted
	asked.uris = slices.DeleteFunc(slices.Clone(asked.uris), func(uri string) bool {
		return s.refused[uri] != nil || slices.Contains(held, uri)
	})
	before := s.current
	if before != nil && before.hasEnded() {
		s.mu.Unlock()
		return asked, errEnded
	}
	if before != nil && before.asked.equal(asked) && !s.renew {
		before.version = s.version
		s.mu.Unlock()
		if held == nil {
			s.settle(outcome{before.version, before.honoured, nil})
			l.reportUnwatched()
		}
		return asked, nil
	}
	next := &subscription{
		asked: asked, version: s.version,
		acked: make(chan struct{}), ended: make(chan struct{}), gone: make(chan struct{}), since: time.Now(),
	}
	first := before != nil && s.alone
	s.renew = false
	s.mu.Unlock()
	if first {
		l.endFirst(before)
		before = nil
	}
	if !asked.isEmpty() {
		if err := l.start(next); err != nil {
			return asked, err
		}
	}
	s.mu.Lock()
	s.opening, s.current, s.leaving = nil, next, before
	if asked.isEmpty() {
		s.current = nil
	}
	if first {
		s.renewed++
		s.breakLocked()
	}
	s.mu.Unlock()
	l.handOver(before)
	s.mu.Lock()
	s.leaving = nil
	s.mu.Unlock()
	if held == nil {
		s.settle(outcome{next.version, next.honoured, nil})
		l.reportUnwatched()
	}
	return asked, nil
}

// filter is the set of objects to listen to.
type filter struct {
	surfaces []wire.Surface
	uris     []string // resources; sorted
	tasks    []string // ids of tasks of the extension; sorted
}

func (f filter) isEmpty() bool { return len(f.surfaces)+len(f.uris)+len(f.tasks) == 0 }

func (f filter) equal(other filter) bool {
	return slices.Equal(f.surfaces, other.surfaces) && slices.Equal(f.uris, other.uris) && slices.Equal(f.tasks, other.tasks)
}

// params returns the params of subscriptions/listen.
func (f filter) params() []byte {
	var members, params wire.Object
	for _, l := range envelope.ListMembers {
		if slices.Contains(f.surfaces, l.Surface) {
			members.Bool(l.Name, true)
		}
	}
	members.Texts("resourceSubscriptions", f.uris)
	members.Texts("taskIds", f.tasks)
	params.Raw("notifications", members.Bytes())
	return params.Bytes()
}

// honoured reads from an acknowledgement which notifications the server will send. Objects that we
// did not ask for are ignored.
func (f filter) honoured(params []byte) filter {
	var got filter
	for _, l := range envelope.ListMembers {
		if raw, _ := wire.Get(params, "notifications", l.Name); string(raw) == "true" && slices.Contains(f.surfaces, l.Surface) {
			got.surfaces = append(got.surfaces, l.Surface)
		}
	}
	got.uris = among(params, "resourceSubscriptions", f.uris)
	got.tasks = among(params, "taskIds", f.tasks)
	return got
}

// among returns the strings in an array of an acknowledgement that are in asked, sorted. asked is
// sorted.
func among(params []byte, name string, asked []string) (got []string) {
	raw, _ := wire.Get(params, "notifications", name)
	items, _ := wire.Elements(raw)
	for _, item := range items {
		text, _ := wire.Text(item)
		if _, ok := slices.BinarySearch(asked, text); ok { // the array can be long
			got = append(got, text)
		}
	}
	slices.Sort(got)
	return slices.Compact(got)
}

// announcedBy returns the surfaces with changes that a server announces, according to the server's
// capabilities.
func announcedBy(capabilities []byte) []wire.Surface {
	var surfaces []wire.Surface
	for _, l := range envelope.ListMembers {
		if raw, _ := wire.Get(capabilities, l.Surface.Capability(), "listChanged"); string(raw) == "true" {
			surfaces = append(surfaces, l.Surface)
		}
	}
	return surfaces
}

// Inbound handles a notification of the server that belongs to a subscription. Inbound returns the
// params of the notification without the members that only the era has. ok is false if no other
// receiver must see the notification. Inbound runs on the goroutine that reads the stream.
func (l *Link) Inbound(m wire.Inbound) (params []byte, ok bool) {
	id, tagged := wire.Get(m.Params, "_meta", envelope.KeySubscription)
	if m.Method == protocol.NotificationAcknowledged {
		l.acknowledged(string(id), tagged, m.Params)
		return nil, false
	}
	if !tagged {
		return m.Params, true
	}
	if !l.subscriptions.knows(string(id), l.opts.HTTP) {
		l.opts.Log.Debug("a notification of an unknown subscription was dropped", "method", link.Excerpt(m.Method))
		return nil, false
	}
	params, err := wire.Delete(m.Params, "_meta", envelope.KeySubscription)
	if err != nil {
		return m.Params, true
	}
	if meta, _ := wire.Get(params, "_meta"); string(meta) == "{}" {
		if rest, err := wire.Delete(params, "_meta"); err == nil {
			params = rest
		}
	}
	if string(params) == "{}" {
		params = nil
	}
	return params, true
}

// knows reports whether a notification belongs to a subscription of ours. withOld includes the
// subscription being handed over: on a separate stream, messages may be under way that the current
// subscription does not get. On a common stream they have come before the acknowledgement.
func (s *subscriptions) knows(id string, withOld bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening != nil && s.opening.id == id || s.current != nil && s.current.id == id {
		return true
	}
	return withOld && (s.leaving != nil && s.leaving.id == id || s.old != nil && s.old.id == id)
}

// acknowledged handles an acknowledgement. An acknowledgement without an id can only be for the
// subscription being opened.
func (l *Link) acknowledged(id string, tagged bool, params []byte) {
	s := &l.subscriptions
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.opening
	if next == nil || tagged && next.id != id {
		return
	}
	select {
	case <-next.acked:
		return
	default:
	}
	next.honoured = next.asked.honoured(params)
	if missing := len(next.asked.surfaces) - len(next.honoured.surfaces); missing > 0 {
		l.opts.Log.Warn("the server does not announce all changes of lists that its capabilities promise", "missing", missing)
	}
	close(next.acked)
}
