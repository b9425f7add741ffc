// Package envelope reads and writes what each message of the stateless era carries about
// itself: in the _meta of a request who asks and with which revision, in a result its
// type and cache hints, and in the headers of an HTTP request a copy of what the body
// says (revision 2026-07-28, basic/index "_meta", basic/transports/streamable-http
// "Request Metadata").
//
//	envelope.go  the envelope of a request
//	result.go    what results have in only one of the eras
//	question.go  questions to a client in results, and their answers
//	filter.go    what a subscription asks for
//	hints.go     how long a result may be kept
//	header.go    the headers of a request over HTTP
//	param.go     headers for arguments of tools: x-mcp-header
//
// The package has no state. Everything is safe for concurrent use.
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
	KeySubscription = "io.modelcontextprotocol/subscriptionId" // of what belongs to a subscription
)

// LogLevels are the levels of log messages, lowest first (revision 2026-07-28,
// server/utilities/logging, "Log Levels").
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Envelope is what a request of the stateless era says about its sender.
type Envelope struct {
	Revision     protocol.Revision
	Capabilities []byte // of the client, a raw object
	ClientInfo   []byte // raw object; nil for none
	LogLevel     string // the lowest level of log messages that the client wants; "" for none at all
}

// IsPresent reports whether params have an envelope, whatever is in it: a member that
// every envelope must have. A request without one belongs to the handshake era.
func IsPresent(params []byte) bool {
	found := required(params)
	return found[0] != nil || found[1] != nil
}

// Version returns the name of the revision in the envelope of params, "" if there is no
// envelope or if it is malformed.
func Version(params []byte) string {
	name, _ := wire.Text(required(params)[0])
	return name
}

// required returns the raw revision and capabilities in the envelope of params, nil for
// those that are missing.
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

// members are what Parse reads of _meta, in the order of its variables.
var members = []string{KeyVersion, KeyCapabilities, KeyClientInfo, KeyLogLevel}

// Parse reads the envelope of a request. The error is the one with which a server
// refuses the request (revision 2026-07-28, basic/index "_meta", basic/versioning).
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

// MaxClient is the largest size in bytes of what a client says about itself, which is kept for
// as long as something goes on for it.
const MaxClient = 64 << 10

// CheckClient refuses a client that says too much about itself: in both eras its capabilities
// and clientInfo, and with the handshake whatever else the params of initialize have.
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

// Unsupported returns the error for a request of a revision that we do not support.
// asked is what the request names.
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

// MissingCapability returns the error for a request that needs a capability that the
// client did not declare. required is a raw object in the form of the client's
// capabilities, such as {"elicitation":{"url":{}}}.
func MissingCapability(required []byte, format string, args ...any) *wire.RPCError {
	bad := wire.Errorf(protocol.CodeMissingCapability, format, args...)
	var data wire.Object
	data.Raw("requiredCapabilities", required)
	bad.Data = data.Bytes()
	return bad
}

// Client returns what the envelope says about the client in the form of the params of
// an initialize request, so that both eras can be read alike.
func (e Envelope) Client() []byte {
	client := wire.NewObject(len(e.Capabilities) + len(e.ClientInfo) + 96)
	client.Text("protocolVersion", e.Revision.String())
	client.Raw("capabilities", e.Capabilities)
	client.Raw("clientInfo", e.ClientInfo)
	return client.Bytes()
}

// Of returns the envelope for a request on behalf of a client, given the params of its
// initialize request or what Client returned. Missing capabilities become an empty
// object.
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

// Put returns params with the envelope in their _meta, in place of any other. The rest of
// _meta stays as it is. It fails if params or their _meta are not objects.
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

// Remove returns params without an envelope, for a peer of the handshake era. The rest
// of _meta stays as it is. An empty _meta that the envelope leaves behind is removed. It
// fails if params or their _meta are not objects.
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
