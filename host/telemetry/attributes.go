package telemetry

import (
	"net"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// The attributes of the conventions.
const (
	keyMethod          = attribute.Key("mcp.method.name")
	keySession         = attribute.Key("mcp.session.id")
	keyRevision        = attribute.Key("mcp.protocol.version")
	keyResource        = attribute.Key("mcp.resource.uri")
	keyTool            = attribute.Key("gen_ai.tool.name")
	keyPrompt          = attribute.Key("gen_ai.prompt.name")
	keyOperation       = attribute.Key("gen_ai.operation.name")
	keyRequestID       = attribute.Key("jsonrpc.request.id")
	keyStatusCode      = attribute.Key("rpc.response.status_code")
	keyErrorType       = attribute.Key("error.type")
	keyTransport       = attribute.Key("network.transport")
	keyNetworkProtocol = attribute.Key("network.protocol.name")
	keyServerAddress   = attribute.Key("server.address")
	keyServerPort      = attribute.Key("server.port")
)

// Our own attributes.
const (
	keyUpstream = attribute.Key("mcp_metatool.upstream.name")

	keyStoreOperation = attribute.Key("mcp_metatool.store.operation.name")
	keyReplicaState   = attribute.Key("mcp_metatool.fleet.replica.state")
	keyWork           = attribute.Key("mcp_metatool.fleet.work.kind")
	keyRun            = attribute.Key("mcp_metatool.run.id")
	keyRunFuel        = attribute.Key("mcp_metatool.run.fuel")
	keyRunMemory      = attribute.Key("mcp_metatool.run.memory")
	keyRunCalls       = attribute.Key("mcp_metatool.run.calls")
)

// executeTool is the value of keyOperation for calls of tools.
const executeTool = "execute_tool"

// otherMethod stands for all unknown methods in metrics and names of spans, since clients can
// invent names.
const otherMethod = "_OTHER"

// network is how messages are transported.
type network []attribute.KeyValue

var (
	overPipe = network{keyTransport.String("pipe")}
	overHTTP = network{keyTransport.String("tcp"), keyNetworkProtocol.String("http")}
)

// target is the subject of a request.
type target struct {
	method string        // as in the request
	name   string        // of the tool or prompt; "" for none
	key    attribute.Key // of name
	uri    string        // of the resource, without secret parts; "" for none
}

// targetOf returns the subject of a request.
func targetOf(method string, params []byte) target {
	t := target{method: method}
	switch method {
	case protocol.MethodToolsCall:
		t.key = keyTool
	case protocol.MethodPromptsGet:
		t.key = keyPrompt
	case protocol.MethodResourcesRead, protocol.MethodResourcesSubscribe, protocol.MethodResourcesUnsubscribe:
		uri, _ := wire.GetString(params, "uri")
		t.uri = withoutSecrets(uri)
	}
	if t.key != "" {
		t.name, _ = wire.GetString(params, "name")
	}
	return t
}

// withoutSecrets returns a URI without credentials, query and fragment; "" for a URI without a
// path.
func withoutSecrets(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Opaque != "" { // such as data:, whose path is the content
		return ""
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment, u.ForceQuery = nil, "", "", "", false
	return u.String()
}

// common returns the method, or otherMethod for a method that the sender has in no revision.
func (t target) common(sender protocol.Party) string {
	if _, known := protocol.FindMethod(sender, t.method); known {
		return t.method
	}
	return otherMethod
}

// span returns the attributes of spans.
func (t target) span() []attribute.KeyValue {
	all := []attribute.KeyValue{keyMethod.String(t.method)}
	if t.name != "" {
		all = append(all, t.key.String(t.name))
	}
	if t.key == keyTool {
		all = append(all, keyOperation.String(executeTool))
	}
	if t.uri != "" {
		all = append(all, keyResource.String(t.uri))
	}
	return all
}

// metric returns the attributes of metrics, given the method for them. named includes the
// name of the tool or prompt, masked.
func (t target) metric(method string, named bool, mask func(text string) string) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 12)
	all = append(all, keyMethod.String(method))
	if named && t.name != "" {
		all = append(all, t.key.String(mask(t.name)))
	}
	if t.key == keyTool {
		all = append(all, keyOperation.String(executeTool))
	}
	return all
}

// requestID returns the attribute for a raw id of a request; none for null.
func requestID(raw []byte) []attribute.KeyValue {
	if text, ok := wire.Text(raw); ok {
		return []attribute.KeyValue{keyRequestID.String(text)}
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return []attribute.KeyValue{keyRequestID.String(string(raw))}
}

// serverOf returns the attributes for the address of a server; none without an address.
func serverOf(address string) []attribute.KeyValue {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	all := []attribute.KeyValue{keyServerAddress.String(u.Hostname())}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if n, err := net.LookupPort("tcp", port); err == nil {
		all = append(all, keyServerPort.Int(n))
	}
	return all
}

// number returns an id of ours as an attribute.
func number(id int64) attribute.KeyValue { return keyRequestID.String(strconv.FormatInt(id, 10)) }
