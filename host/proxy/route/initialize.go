package route

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// assumed are the capabilities of an upstream until the real capabilities are known. A client that
// is not told of a capability would never use the capability.
const assumed = `{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{}}`

// Bounds of the instructions of an upstream, and of all upstreams, in bytes.
const (
	maxInstructions    = 4 << 10
	maxAllInstructions = 32 << 10
)

// BeginSession begins the session s. The answer to the initialize request has our own capabilities
// and instructions, and also the capabilities and instructions of the upstreams whose handshakes
// are over within Options.HandshakeWait. If ctx ends first, the error is the cause of ctx, and the
// session has not started.
func (r *Router) BeginSession(ctx context.Context, s Session) (InitializeResult, error) {
	r.mu.Lock()
	r.clients[s] = r.newClient(s)
	r.mu.Unlock()
	all := r.connections(s)
	r.awaitHandshakes(ctx, all)
	if err := context.Cause(ctx); err != nil {
		r.EndSession(s)
		return InitializeResult{}, err
	}
	result := r.introduction(s, all)
	result.Capabilities = withoutTaskExtension(result.Capabilities)
	r.with(s, func(c *client) { c.offered = result.Capabilities })
	return result, nil
}

// Discover returns the result of BeginSession without waiting. The session need not have begun, and
// does not begin.
func (r *Router) Discover(s Session) InitializeResult {
	return r.introduction(s, r.sharedConnections(s))
}

// AwaitServers waits until Discover knows the servers, as long as BeginSession would.
func (r *Router) AwaitServers(ctx context.Context, s Session) {
	r.awaitHandshakes(ctx, slices.DeleteFunc(r.sharedConnections(s), func(c serverConn) bool { return c.Upstream == unknown{} }))
}

// sharedConnections returns the connections that sessions share, and an unknown upstream for each
// server with a connection per session: this upstream starts when it is first used.
func (r *Router) sharedConnections(s Session) []serverConn {
	var all []serverConn
	for _, server := range r.scope(s).Upstreams() {
		if c, ok := r.to(nil, server); ok {
			all = append(all, c)
		} else {
			all = append(all, serverConn{server, Connection{Upstream: unknown{}}})
		}
	}
	return all
}

// unknown is an upstream of which nothing is known.
type unknown struct{ Upstream }

// Server implements Upstream.
func (unknown) Server() (result []byte, ok bool) { return nil, false }

// Begin begins the session s without waiting. Discover returns the result for the client.
func (r *Router) Begin(s Session) {
	c := r.newClient(s)
	c.offered = r.Discover(s).Capabilities
	r.mu.Lock()
	r.clients[s] = c
	r.mu.Unlock()
}

// introduction returns our own capabilities and instructions together with the capabilities and
// instructions of upstreams.
func (r *Router) introduction(s Session, all []serverConn) InitializeResult {
	var metas []catalog.Part
	capabilities := []byte(`{"tools":{"listChanged":true},"logging":{}}`) // scripts also log
	for _, c := range all {
		theirs := []byte(assumed)
		if result, ok := c.Server(); ok {
			theirs, _ = wire.Get(result, "capabilities")
			meta, _ := wire.Get(result, "_meta")
			metas = append(metas, catalog.Part{Server: c.server, Raw: meta})
		}
		capabilities = catalog.Union(capabilities, withTaskExtension(advertised(theirs, len(all) == 1)))
	}
	if r.Runs != nil && r.Runs.TaskAfter() > 0 {
		capabilities = catalog.Union(capabilities, []byte(`{"extensions":{"`+protocol.ExtensionTasks+`":{}}}`))
	}
	for _, surface := range []wire.Surface{wire.Resources, wire.Prompts} {
		if _, ok := wire.Get(capabilities, surface.Capability()); ok {
			changes := wire.Marshal(map[string]any{surface.Capability(): map[string]bool{"listChanged": true}})
			capabilities = catalog.Union(capabilities, changes)
		}
	}
	return InitializeResult{Capabilities: capabilities, Instructions: r.instructions(s, all), Meta: catalog.MergeMeta(metas)}
}

// awaitHandshakes waits for the handshakes of upstreams, up to HandshakeWait.
func (r *Router) awaitHandshakes(ctx context.Context, all []serverConn) {
	ctx, cancel := context.WithTimeout(ctx, r.HandshakeWait)
	defer cancel()
	var waiting sync.WaitGroup
	for _, c := range all {
		if _, ok := c.Server(); !ok {
			waiting.Go(func() { _, _ = c.Handshake(ctx) }) // Server reports whether a handshake was made
		}
	}
	waiting.Wait()
}

// maxUnavailable bounds the reason in the instructions for an unavailable upstream, in bytes.
const maxUnavailable = 512

// unavailable returns why an upstream is unavailable; "" if available or still starting.
func (r *Router) unavailable(s Session, server string) string {
	if r.Availability == nil {
		return ""
	}
	why, starting := r.Availability.Unavailable(s, server)
	if starting {
		return ""
	}
	return cut(why, maxUnavailable)
}

// instructions returns our own instructions, then the instructions of each upstream under its name,
// and why some upstreams are unavailable.
func (r *Router) instructions(s Session, all []serverConn) string {
	var b strings.Builder
	if r.Instructions != nil {
		b.WriteString(r.Instructions(s))
	}
	rest := maxAllInstructions
	for _, c := range all {
		result, _ := c.Server()
		theirs, withheld := r.Catalog.Instructions(c.server, result)
		if theirs = strings.TrimSpace(theirs); theirs != "" {
			theirs = "Instructions of server \"" + c.server + "\":\n" + cut(theirs, min(maxInstructions, rest))
		} else if withheld != "" {
			theirs = "Instructions of server \"" + c.server + "\" are withheld: " + withheld + "."
		}
		if why := r.unavailable(s, c.server); why != "" {
			theirs = strings.TrimPrefix(theirs+"\n\nNot there now: "+why, "\n\n")
		}
		if theirs == "" {
			continue
		}
		rest -= len(theirs)
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(theirs)
		if rest <= 0 {
			break
		}
	}
	return b.String()
}

// cut shortens s to at most most bytes, in whole characters. A shortened result ends with a note.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return display.Head(s, most) + " [cut]"
}

// EndSession forgets an ended session. Upstreams are told in the background.
func (r *Router) EndSession(s Session) {
	r.mu.Lock()
	c, ok := r.clients[s]
	delete(r.clients, s)
	maps.DeleteFunc(r.ready, func(at connKey, _ bool) bool { return at.own == s })
	maps.DeleteFunc(r.asleep, func(at connKey, _ bool) bool { return at.own == s })
	r.mu.Unlock()
	if !ok {
		return
	}
	r.inBackground(func() {
		r.drainNotifications(c)
		for t := range c.topics { // no other session uses the topic now
			r.unsubscribeFrom(r.ctx, t, s, nil)
		}
		c.kept.Close()
		r.updateLevels()
		r.mu.Lock()
		defer r.mu.Unlock()
		maps.DeleteFunc(r.levels, func(at connKey, _ string) bool { return at.own == s })
	})
}
