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

// spare is an additional process of a server. spares.mu guards users, idle, worked and retired.
type spare struct {
	up      *servers.Upstream
	era     protocol.Era // the spare's era; 0: the handshake era, for calls that must not be mixed up
	unlike  atomic.Bool  // an item differs from the pinned item, and the spare is not used; only for another era
	begun   time.Time
	users   users
	idle    *time.Timer // closes the spare; nil while the spare has calls, and for another era
	worked  bool        // the spare has started
	retired bool        // the spare gets no more calls, and is closed after the last call

	telling chan struct{} // has room for a token: held while told changes
	told    told          // the messages that the spare has been told
}

// told are the messages of clients to a server with an effect beyond the request.
type told struct {
	level []byte              // params of the last logging/setLevel; nil for none
	uris  map[string]struct{} // of the subscribed resources
}

// tellTime is how long a call waits until a spare has been told everything that the upstream's own
// process has been told.
const tellTime = 2 * time.Second

// tell tells a started spare everything that the upstream's own process has been told since. The
// spare is told each message once, whatever the answer.
func (sp *spare) tell(ctx context.Context, s *spares) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	select {
	case sp.telling <- struct{}{}:
		defer func() { <-sp.telling }()
	case <-ctx.Done():
		return
	}
	want := s.toldSoFar()
	if want.level != nil && !bytes.Equal(sp.told.level, want.level) {
		sp.told.level = want.level
		_, _ = sp.up.Call(ctx, wire.Call{Method: protocol.MethodSetLevel, Params: want.level})
	}
	for uri := range want.uris {
		if _, ok := sp.told.uris[uri]; !ok && ctx.Err() == nil {
			sp.told.uris[uri] = struct{}{}
			sp.subscribe(ctx, protocol.MethodResourcesSubscribe, uri)
		}
	}
	for uri := range sp.told.uris {
		if _, ok := want.uris[uri]; !ok && ctx.Err() == nil {
			delete(sp.told.uris, uri)
			sp.subscribe(ctx, protocol.MethodResourcesUnsubscribe, uri)
		}
	}
}

// tellAll tells a restarted spare everything.
func (sp *spare) tellAll(s *spares) {
	sp.telling <- struct{}{}
	sp.told = told{uris: map[string]struct{}{}}
	<-sp.telling
	sp.tell(context.Background(), s) // for tellTime at most
}

// subscribe begins or ends a subscription.
func (sp *spare) subscribe(ctx context.Context, method, uri string) {
	_, _ = sp.up.Call(ctx, wire.Call{Method: method, Params: wire.Marshal(map[string]string{"uri": uri})})
}

// toldSoFar returns the messages that the upstream's own process has been told. The result is not
// modified.
func (s *spares) toldSoFar() told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// note keeps the message of a call to the upstream's own process, and tells the spares. A spare
// with calls may announce changes because of the message at any time.
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
	case call.Method == protocol.MethodResourcesUnsubscribe && subscribed: // no client wants updates, whatever the answer
		s.told.uris = maps.Clone(s.told.uris)
		delete(s.told.uris, uri)
	default:
		return
	}
	if s.closed {
		return
	}
	for _, sp := range s.workedLocked() {
		s.background.Go(func() { sp.tell(context.Background(), s) }) // for tellTime at most
	}
}

// workedLocked returns the spares that have started and have not ended. The caller holds s.mu.
func (s *spares) workedLocked() []*spare {
	return slices.DeleteFunc(slices.Concat(s.all, s.retiring), func(sp *spare) bool { return !sp.worked || sp.hasEnded() })
}

// hasEnded reports whether the process has ended, or has failed to start.
func (sp *spare) hasEnded() bool {
	st := sp.up.Status().State
	return st == servers.Failed || st == servers.Closed
}

// started notes that a spare has started.
func (s *spares) started(sp *spare) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp.worked = true
}

// notifyAll sends a notification to the upstream's own process and to the started spares. Each of
// these processes is the server for the clients with calls at the process.
func (s *spares) notifyAll(ctx context.Context, own *servers.Upstream, method string, params []byte) error {
	s.mu.Lock()
	to := []*servers.Upstream{own}
	for _, sp := range s.workedLocked() {
		to = append(to, sp.up)
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

// compareHandshake gets the handshake of a spare. A handshake of another server than the pinned
// server takes the place of the upstream's own handshake, so that nothing more is called.
func (m *managedUpstream) compareHandshake(result []byte) {
	if p := m.env.Pins; p != nil && !p.Accepts(m.name, pins.About, [][]byte{result}) {
		m.publishHandshake(result)
	}
}

// compareList gets the lists of a spare, before the spare has calls. A list with a definition that
// differs from the pinned definition takes the place of the upstream's own list, so that the
// definition is withheld.
func (m *managedUpstream) compareList(l servers.List) {
	if p := m.env.Pins; p != nil && !p.Accepts(m.name, l.Surface, l.Items) {
		m.publishList(catalog.List{Surface: l.Surface, Items: l.Items, Meta: l.Meta, Stateless: m.snapshot().stateless(), Fresh: l.Fresh})
	}
}
