package host

import (
	"context"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Clients says whose client upstreams take us for when we shake hands.
type Clients int

const (
	// NoClient: nobody who could answer requests of upstreams. They are offered
	// no capabilities.
	NoClient Clients = iota
	// OneClient: one session (stdio). Handshakes wait for its initialize, and
	// upstreams get its own params: capabilities, clientInfo, _meta.
	OneClient
	// ManyClients: sessions that share the upstreams (HTTP). They are offered
	// every capability; what a session's client cannot do is refused when it is
	// asked for.
	ManyClients
)

// allCapabilities are what a client can have in our newest revision.
const allCapabilities = `{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},` +
	`"elicitation":{"form":{},"url":{}},` +
	`"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}`

// hello is what upstreams are told in the handshake.
type hello struct {
	clients Clients
	version string // of this program

	once  sync.Once
	known chan struct{} // closed when params is set
	// params of the one client's initialize request, with the negotiated
	// revision.
	params []byte
}

func newHello(clients Clients, version string) *hello {
	return &hello{clients: clients, version: version, known: make(chan struct{})}
}

// welcome takes the client's initialize; the first one counts.
func (h *hello) welcome(params []byte, revision protocol.Revision) {
	h.once.Do(func() {
		// The revision was read from the same object.
		h.params, _ = wire.Set(params, wire.Quote(revision.String()), "protocolVersion")
		close(h.known)
	})
}

// say is upstream.Options.InitializeParams.
func (h *hello) say(ctx context.Context) ([]byte, error) {
	if h.clients == OneClient {
		select {
		case <-h.known:
			return h.params, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	capabilities := "{}"
	if h.clients == ManyClients {
		capabilities = allCapabilities
	}
	return wire.Marshal(struct {
		ProtocolVersion string     `json:"protocolVersion"`
		Capabilities    rawJSON    `json:"capabilities"`
		ClientInfo      clientInfo `json:"clientInfo"`
	}{protocol.Handshake.Newest().String(), rawJSON(capabilities), clientInfo{Name, h.version}}), nil
}

type rawJSON string

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

type clientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}
