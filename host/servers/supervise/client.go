package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// Clients is the number of clients. The number determines our client identity in the upstream
// handshake.
type Clients int

const (
	// NoClient: no client could answer requests of upstreams. We offer upstreams no client
	// capabilities.
	NoClient Clients = iota
	// OneClient: a single session (stdio). Handshakes wait for the session's initialize, and
	// upstreams get the params: capabilities, clientInfo, _meta.
	OneClient
	// ManyClients: sessions share the upstreams (HTTP). We offer upstreams every client capability.
	// If the client of a session does not support a request, the request is refused on arrival.
	ManyClients
)

// allCapabilities has all client capabilities of our newest revision.
const allCapabilities = `{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},` +
	`"elicitation":{"form":{},"url":{}},` +
	`"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}`

// clientIdentity is our client identity in the upstream handshake.
type clientIdentity struct {
	clients       Clients
	name, version string // our own

	once    sync.Once
	adopted chan struct{} // closed when params is set
	mu      sync.Mutex
	// params are the params of the client's initialize request, with the negotiated revision, and
	// era is the era of the client. mu guards them until adopted is closed.
	params []byte
	era    protocol.Era
}

func newClientIdentity(clients Clients, name, version string) *clientIdentity {
	return &clientIdentity{clients: clients, name: name, version: version, adopted: make(chan struct{})}
}

// adopt sets the identity to the identity of the client, given the params of the client's
// initialize request, or the result of route.Origin.Client for the client. many means several
// clients with different capabilities: each request of an upstream is checked on arrival. ready,
// unless nil, is called before upstreams get the identity. Only the first call of adopt counts.
func (c *clientIdentity) adopt(params []byte, revision protocol.Revision, many bool, ready func()) {
	c.once.Do(func() {
		defer close(c.adopted)
		if ready != nil {
			defer ready()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.era = revision.Era()
		if many {
			params, _ = wire.Set(params, []byte(allCapabilities), "capabilities")
		}
		if revision.Era() == protocol.Stateless {
			revision = protocol.Handshake.Newest()
		}
		// params is an object: the revision was read from params.
		c.params, _ = wire.Set(params, wire.Quote(revision.String()), "protocolVersion")
	})
}

// mark stands for the client capabilities that upstreams are told; "" while unknown.
func (c *clientIdentity) mark() string {
	capabilities := []byte(map[Clients]string{NoClient: "{}", ManyClients: allCapabilities}[c.clients])
	if c.clients == OneClient {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.params == nil {
			return ""
		}
		capabilities, _ = wire.Get(c.params, "capabilities")
	}
	sum := sha256.Sum256(capabilities)
	return hex.EncodeToString(sum[:8])
}

// adoptSession is adopt for the client of a session, or for the clients with a token.
func (c *clientIdentity) adoptSession(s route.Session, ready func()) {
	several, ok := s.(interface{ ManyClients() bool })
	c.adopt(s.Client(), s.Revision(), ok && several.ManyClients(), ready)
}

// clientEra is servers.Options.Era.
func (c *clientIdentity) clientEra() protocol.Era {
	if c.clients == OneClient && c.known() {
		return c.era
	}
	return protocol.Handshake
}

// known reports whether upstreams can get the identity already.
func (c *clientIdentity) known() bool {
	if c.clients != OneClient {
		return true
	}
	select {
	case <-c.adopted:
		return true
	default:
		return false
	}
}

// initializeParams is servers.Options.InitializeParams.
func (c *clientIdentity) initializeParams(ctx context.Context) ([]byte, error) {
	if c.clients == OneClient {
		select {
		case <-c.adopted:
			return c.params, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	capabilities := "{}"
	if c.clients == ManyClients {
		capabilities = allCapabilities
	}
	return servers.ClientParams{Name: c.name, Version: c.version, Capabilities: []byte(capabilities)}.Params(), nil
}
