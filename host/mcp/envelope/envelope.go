// Package envelope reads and writes the metadata of messages of the stateless era (revision
// 2026-07-28, basic/index "_meta", basic/transports/streamable-http "Request Metadata"): in the
// _meta of a request the client and the revision, in a result the type and cache hints, and in the
// headers of an HTTP request a copy of values of the body. Begin with Envelope and Parse for
// requests, Stamp for results, Params for headers of tool arguments. The package has no state.
// Everything is safe for concurrent use.
package envelope

import (
	"bytes"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Keys of _meta.
const (
	KeyVersion      = "io.modelcontextprotocol/protocolVersion"
	KeyCapabilities = "io.modelcontextprotocol/clientCapabilities"
	KeyClientInfo   = "io.modelcontextprotocol/clientInfo"
	KeyLogLevel     = "io.modelcontextprotocol/logLevel"
	KeyServerInfo   = "io.modelcontextprotocol/serverInfo"     // of a result
	KeySubscription = "io.modelcontextprotocol/subscriptionId" // of messages of a subscription
)

// LogLevels are the levels of log messages, lowest first (revision 2026-07-28,
// server/utilities/logging, "Log Levels").
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Envelope is the description of the sender in a request of the stateless era.
type Envelope struct {
	Revision     protocol.Revision
	Capabilities []byte // of the client, a raw object
	ClientInfo   []byte // raw object; nil for none
	LogLevel     string // the lowest level of log messages wanted by the client; "" for no messages
}

// IsPresent reports whether params have an envelope, with any contents: a member of every envelope.
// A request without an envelope belongs to the handshake era.
func IsPresent(params []byte) bool {
	found := required(params)
	return found[0] != nil || found[1] != nil
}

// Version returns the name of the revision in the envelope of params, "" if the envelope is missing
// or malformed.
func Version(params []byte) string {
	name, _ := wire.Text(required(params)[0])
	return name
}

// required returns the raw revision and capabilities in the envelope of params, nil for missing
// values.
func required(params []byte) (found [2][]byte) {
	if !bytes.Contains(params, keyPrefix) && bytes.IndexByte(params, '\\') < 0 {
		return found // most requests of the handshake era
	}
	var meta [1][]byte
	wire.Pick(params, metaOnly, meta[:])
	wire.Pick(meta[0], members[:2], found[:])
	return found
}

var (
	metaOnly  = []string{"_meta"}
	keyPrefix = []byte("io.modelcontextprotocol/")
)

// members are the members of _meta that Parse reads, in the order of the variables there.
var members = []string{KeyVersion, KeyCapabilities, KeyClientInfo, KeyLogLevel}

// Parse reads the envelope of a request. The error is the server's refusal of the request (revision
// 2026-07-28, basic/index "_meta", basic/versioning).
func Parse(params []byte) (Envelope, *wire.RPCError) {
	meta, _ := wire.Get(params, "_meta")
	var found [4][]byte
	if !wire.Pick(meta, members, found[:]) {
		return Envelope{}, missing("_meta")
	}
	version, capabilities, client, level := found[0], found[1], found[2], found[3]
	name, ok := wire.Text(version)
	switch {
	case version == nil:
		return Envelope{}, missing(KeyVersion)
	case !ok:
		return Envelope{}, wrong(KeyVersion, "a string")
	}
	revision, ok := protocol.Stateless.Lookup(name)
	if !ok {
		return Envelope{}, Unsupported(name)
	}
	e := Envelope{Revision: revision, Capabilities: capabilities, ClientInfo: client}
	if bad := CheckClient(capabilities, client); bad != nil {
		return Envelope{Revision: revision}, bad
	}
	switch {
	case capabilities == nil:
		return e, missing(KeyCapabilities)
	case !wire.IsObject(capabilities):
		return e, wrong(KeyCapabilities, "an object")
	case client != nil && !wire.IsObject(client):
		return e, wrong(KeyClientInfo, "an object")
	}
	if level != nil {
		e.LogLevel, _ = wire.Text(level)
		if !slices.Contains(LogLevels, e.LogLevel) {
			return e, wire.Errorf(wire.CodeInvalidParams, "params._meta: %s is no log level", KeyLogLevel)
		}
	}
	return e, nil
}

// MaxClient is the largest size in bytes of a client's self-description, which is kept as long as
// work for the client continues.
const MaxClient = 64 << 10

// CheckClient refuses a client with an oversized self-description: in both eras the capabilities
// and clientInfo, and with the handshake all further params of initialize.
func CheckClient(said ...[]byte) *wire.RPCError {
	size := 0
	for _, part := range said {
		size += len(part)
	}
	if size <= MaxClient {
		return nil
	}
	return wire.Errorf(wire.CodeInvalidParams, "what the client says about itself is too large: its capabilities and clientInfo have %d bytes (at most %d)", size, MaxClient)
}

func missing(key string) *wire.RPCError {
	if key != "_meta" {
		key = "_meta[" + string(wire.Quote(key)) + "]"
	}
	return wire.Errorf(wire.CodeInvalidParams, "params.%s is missing", key)
}

func wrong(key, want string) *wire.RPCError {
	return wire.Errorf(wire.CodeInvalidParams, "params._meta[%q] must be %s", key, want)
}

// Unsupported returns the error for a request of an unsupported revision. asked is the name of the
// revision in the request.
func Unsupported(asked string) *wire.RPCError {
	bad := wire.Errorf(protocol.CodeUnsupportedVersion, "unsupported protocol version")
	var names [][]byte
	for _, name := range slices.Concat(protocol.Stateless.Names(), protocol.Handshake.Names()) {
		names = append(names, wire.Quote(name))
	}
	var data wire.Object
	data.Raw("supported", wire.Array(names))
	data.Text("requested", asked)
	bad.Data = data.Bytes()
	return bad
}

// MissingCapability returns the error for a request that needs a capability not declared by the
// client. required is a raw object in the form of the client's capabilities, such as
// {"elicitation":{"url":{}}}.
func MissingCapability(required []byte, format string, args ...any) *wire.RPCError {
	bad := wire.Errorf(protocol.CodeMissingCapability, format, args...)
	var data wire.Object
	data.Raw("requiredCapabilities", required)
	bad.Data = data.Bytes()
	return bad
}

// Client returns the envelope's description of the client in the form of the params of an
// initialize request, common to both eras.
func (e Envelope) Client() []byte {
	client := wire.NewObject(len(e.Capabilities) + len(e.ClientInfo) + 96)
	client.Text("protocolVersion", e.Revision.String())
	client.Raw("capabilities", e.Capabilities)
	client.Raw("clientInfo", e.ClientInfo)
	return client.Bytes()
}

// Of returns the envelope for a request on behalf of a client, given the params of its initialize
// request or the result of Client. Missing capabilities become an empty object.
func Of(revision protocol.Revision, client []byte, logLevel string) Envelope {
	e := Envelope{Revision: revision, LogLevel: logLevel}
	e.Capabilities, _ = wire.Get(client, "capabilities")
	if !wire.IsObject(e.Capabilities) {
		e.Capabilities = []byte("{}")
	}
	if info, ok := wire.Get(client, "clientInfo"); ok && wire.IsObject(info) {
		e.ClientInfo = info
	}
	return e
}

// Put returns params with the envelope in their _meta, in place of any other. The rest of _meta
// stays unchanged. Put fails if params or their _meta are not objects.
func (e Envelope) Put(params []byte) ([]byte, error) {
	meta, _ := wire.Get(params, "_meta")
	meta, err := removeEnvelope(meta)
	if err != nil {
		return nil, err
	}
	add := func(key string, value []byte) {
		if value != nil && err == nil {
			meta, err = wire.Set(meta, value, key)
		}
	}
	add(KeyVersion, wire.Quote(e.Revision.String()))
	add(KeyCapabilities, e.Capabilities)
	add(KeyClientInfo, e.ClientInfo)
	if e.LogLevel != "" {
		add(KeyLogLevel, wire.Quote(e.LogLevel))
	}
	if err != nil {
		return nil, err
	}
	return wire.Set(params, meta, "_meta")
}

// Remove returns params without an envelope, for a peer of the handshake era. The rest of _meta
// stays unchanged. An empty _meta left by the envelope is removed. Remove fails if params or their
// _meta are not objects.
func Remove(params []byte) ([]byte, error) {
	meta, ok := wire.Get(params, "_meta")
	if !ok {
		return params, nil
	}
	rest, err := removeEnvelope(meta)
	switch {
	case err != nil:
		return nil, err
	case len(rest) == len(meta):
		return params, nil
	case isEmpty(rest):
		return wire.Delete(params, "_meta")
	}
	return wire.Set(params, rest, "_meta")
}

func removeEnvelope(meta []byte) (rest []byte, err error) {
	if meta == nil {
		return nil, nil
	}
	return wire.Without(meta, members...)
}

// isEmpty reports whether an object has no members.
func isEmpty(object []byte) bool {
	for _, c := range object[1:] {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '}'
		}
	}
	return true
}

// ListMember is the member of a filter of subscriptions/listen for changes of a list.
type ListMember struct {
	Name    string
	Surface wire.Surface
}

// ListMembers are all of them (revision 2026-07-28, schema, SubscriptionFilter). Templates
// have none of their own: they change with resources.
var ListMembers = []ListMember{
	{"toolsListChanged", wire.Tools}, {"promptsListChanged", wire.Prompts}, {"resourcesListChanged", wire.Resources},
}
