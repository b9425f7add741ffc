package stateless

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// discover returns the result of server/discover. What it says can change when servers
// start, and depends on who asks.
func (p *Principal) discover() []byte {
	known := p.opts.Backend.Discover(p)
	var versions [][]byte
	for _, name := range slices.Concat(protocol.Stateless.Names(), protocol.Handshake.Names()) {
		versions = append(versions, wire.Quote(name))
	}
	meta, err := wire.Set(known.Meta, p.serverInfo, envelope.KeyServerInfo)
	if err != nil { // what servers say about themselves is not an object
		meta, _ = wire.Set(nil, p.serverInfo, envelope.KeyServerInfo)
	}
	var result wire.Object
	result.Text("resultType", envelope.TypeComplete)
	result.Raw("supportedVersions", wire.Array(versions))
	result.Raw("capabilities", capabilities(known))
	result.NonEmpty("instructions", known.Instructions)
	result.Int("ttlMs", 0)
	result.Text("cacheScope", envelope.ScopePrivate)
	result.Raw("_meta", meta)
	return result.Bytes()
}

// capabilities returns the capabilities that this server has in this era.
func capabilities(known route.InitializeResult) []byte {
	all := known.Capabilities
	// Those tasks are of the handshake era.
	if some, err := wire.Delete(all, "tasks"); err == nil {
		all = some
	}
	return all
}
