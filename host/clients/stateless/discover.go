package stateless

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// discover returns the result of server/discover. The result can change when servers start, and
// depends on the asking client.
func (p *Principal) discover() []byte {
	known := p.opts.Backend.Discover(p)
	var versions [][]byte
	for _, name := range slices.Concat(protocol.Stateless.Names(), protocol.Handshake.Names()) {
		versions = append(versions, wire.Quote(name))
	}
	meta, err := wire.Set(known.Meta, p.serverInfo, envelope.KeyServerInfo)
	if err != nil { // the servers' description of themselves is not an object
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

// capabilities returns this server's capabilities in this era.
func capabilities(known route.InitializeResult) []byte {
	all := known.Capabilities
	// The tasks in capabilities are of the handshake era.
	if some, err := wire.Delete(all, "tasks"); err == nil {
		all = some
	}
	return all
}
