package supervise

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// spare is one more process of a server. spares.mu guards users, idle, worked and retired.
type spare struct {
	up      *servers.Upstream
	era     protocol.Era // that it was begun for; 0: that of the handshake, for calls that must not be mixed up
	unlike  atomic.Bool  // it offers something that is not as it was pinned, and is not used; only of another era
	begun   time.Time
	users   users
	idle    *time.Timer // closes it; nil while it has calls, and for one of another era
	worked  bool        // it has started
	retired bool        // it gets no more calls, and is closed when it has none

	telling chan struct{} // has room for one: held while told changes
	told    told          // what it has been told
}

// told is what clients have told a server that lasts longer than a request.
type told struct {
	level []byte              // params of the last logging/setLevel; nil for none
	uris  map[string]struct{} // of the resources that are subscribed to
}

// tellTime is how long a call waits until a spare has been told what the upstream's own
// process has been told.
const tellTime = 2 * time.Second

// tell tells a spare that has started what the upstream's own process has been told since.
// It is told everything once, whatever it answers.
func (one *spare) tell(ctx context.Context, s *spares) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	select {
	case one.telling <- struct{}{}:
		defer func() { <-one.telling }()
	case <-ctx.Done():
		return
	}
	want := s.toldSoFar()
	if want.level != nil && !bytes.Equal(one.told.level, want.level) {
		one.told.level = want.level
		_, _ = one.up.Call(ctx, wire.Call{Method: protocol.MethodSetLevel, Params: want.level})
	}
	for uri := range want.uris {
		if _, ok := one.told.uris[uri]; !ok && ctx.Err() == nil {
			one.told.uris[uri] = struct{}{}
			one.subscribe(ctx, protocol.MethodResourcesSubscribe, uri)
		}
	}
	for uri := range one.told.uris {
		if _, ok := want.uris[uri]; !ok && ctx.Err() == nil {
			delete(one.told.uris, uri)
			one.subscribe(ctx, protocol.MethodResourcesUnsubscribe, uri)
		}
	}
}

// tellAll tells a spare that has been started again everything.
func (one *spare) tellAll(s *spares) {
	one.telling <- struct{}{}
	one.told = told{uris: map[string]struct{}{}}
	<-one.telling
	one.tell(context.Background(), s) // for tellTime at most
}

// subscribe begins or ends a subscription.
func (one *spare) subscribe(ctx context.Context, method, uri string) {
	_, _ = one.up.Call(ctx, wire.Call{Method: method, Params: wire.Marshal(map[string]string{"uri": uri})})
}

// toldSoFar returns what the upstream's own process has been told. It is not modified.
func (s *spares) toldSoFar() told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// note keeps what a call has told the upstream's own process, and tells the spares. One that
// has calls may announce something because of them at any time.
func (s *spares) note(call wire.Call, ok bool) {
	switch call.Method {
	case protocol.MethodSetLevel, protocol.MethodResourcesSubscribe, protocol.MethodResourcesUnsubscribe:
	default:
		return
	}
	uri, _ := wire.GetString(call.Params, "uri")
	s.mu.Lock()
	defer s.mu.Unlock()
	_, subscribed := s.told.uris[uri]
	switch {
	case call.Method == protocol.MethodSetLevel && ok:
		s.told.level = call.Params
	case call.Method == protocol.MethodResourcesSubscribe && ok && !subscribed:
		uris := map[string]struct{}{uri: {}}
		maps.Copy(uris, s.told.uris)
		s.told.uris = uris
	case call.Method == protocol.MethodResourcesUnsubscribe && subscribed: // nobody wants updates, whatever is answered
		s.told.uris = maps.Clone(s.told.uris)
		delete(s.told.uris, uri)
	default:
		return
	}
	if s.closed {
		return
	}
	for _, one := range s.workedLocked() {
		s.background.Go(func() { one.tell(context.Background(), s) }) // for tellTime at most
	}
}

// workedLocked returns the spares that have started and have not ended. The caller holds
// s.mu.
func (s *spares) workedLocked() []*spare {
	return slices.DeleteFunc(slices.Concat(s.all, s.retiring), func(one *spare) bool { return !one.worked || one.hasEnded() })
}

// hasEnded reports whether the process has ended, or has failed to start.
func (one *spare) hasEnded() bool {
	st := one.up.Status().State
	return st == servers.Failed || st == servers.Closed
}

// started notes that a spare has started.
func (s *spares) started(one *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.worked = true
}

// notifyAll sends a notification to the upstream's own process and to the spares that have
// started. Each of them is the server for the clients whose calls it has.
func (s *spares) notifyAll(ctx context.Context, own *servers.Upstream, method string, params []byte) error {
	s.mu.Lock()
	to := []*servers.Upstream{own}
	for _, one := range s.workedLocked() {
		to = append(to, one.up)
	}
	s.mu.Unlock()
	errs := make([]error, len(to))
	var all sync.WaitGroup
	for i, up := range to {
		all.Go(func() { errs[i] = up.Notify(ctx, method, params) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// compareHandshake gets the handshake of a spare. If it is not that of the server which was
// pinned, it takes the place of the upstream's own, so that nothing more is called.
func (m *managedUpstream) compareHandshake(result []byte) {
	if p := m.env.Pins; p != nil && !p.Accepts(m.name, pins.About, [][]byte{result}) {
		m.publishHandshake(result)
	}
}

// compareList gets the lists of a spare, before it has calls. One with a definition that is
// not as it was pinned takes the place of the upstream's own, so that it is withheld.
func (m *managedUpstream) compareList(l servers.List) {
	if p := m.env.Pins; p != nil && !p.Accepts(m.name, l.Surface, l.Items) {
		m.publishList(catalog.List{Surface: l.Surface, Items: l.Items, Meta: l.Meta, Stateless: m.snapshot().stateless(), Fresh: l.Fresh})
	}
}
