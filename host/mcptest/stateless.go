package mcptest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// This file is the server of the stateless era (revision 2026-07-28). The names of methods and
// members are written out, so that a mistake in the product's tables shows.

// The eras of a server (ServerOptions.Eras). "" is EraLegacy.
const (
	EraLegacy = "legacy" // initialize, and sessions
	EraModern = "modern" // each request has an envelope
	EraBoth   = "both"   // each request decides
)

// Modern is the revision of the stateless era.
const Modern = "2026-07-28"

const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// isModern reports whether a message has an envelope, or would need one because the server speaks
// only the stateless era.
func (s *Server) isModern(m wire.Message) bool {
	switch s.sw.Eras {
	case EraModern:
		return true
	case EraBoth:
		_, ok := wire.Get(m.Params, "_meta", metaVersion)
		return ok
	}
	return false
}

// modernMethods are the requests of the stateless era.
var modernMethods = []string{
	"server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list",
	"resources/templates/list", "resources/read", "completion/complete", "subscriptions/listen",
	"tasks/get", "tasks/update", "tasks/cancel",
}

// cachedMethods are the methods whose results have cache hints.
var cachedMethods = []string{
	"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read",
}

// refusal returns the refusal of a request of the stateless era before it is handled, the zero
// Reply for none.
func (s *Server) refusal(m wire.Message, header http.Header) wire.Reply {
	version, ok := wire.GetString(m.Params, "_meta", metaVersion)
	capabilities, declared := wire.Get(m.Params, "_meta", metaCapabilities)
	versions := s.versions()
	switch {
	case m.Method == "initialize" && !ok:
		return unsupported(versions, m)
	case !ok:
		return rpcError(wire.CodeInvalidParams, "Missing "+metaVersion)
	case !slices.Contains(versions, version):
		return unsupported(versions, m)
	case !declared || !wire.IsObject(capabilities):
		return rpcError(wire.CodeInvalidParams, "Missing "+metaCapabilities)
	case !slices.Contains(modernMethods, m.Method):
		return rpcError(wire.CodeMethodNotFound, "method not found: "+m.Method)
	case header != nil:
		return s.checkHeaders(m, header)
	}
	return wire.Reply{}
}

// versions returns the revisions that the server names.
func (s *Server) versions() []string {
	if s.sw.Versions != nil {
		return s.sw.Versions
	}
	if s.sw.Eras == EraBoth {
		return []string{Modern, "2025-11-25"}
	}
	return []string{Modern}
}

func unsupported(versions []string, m wire.Message) wire.Reply {
	asked, ok := wire.GetString(m.Params, "_meta", metaVersion)
	if !ok {
		asked, _ = wire.GetString(m.Params, "protocolVersion")
	}
	return wire.Reply{Error: fmt.Appendf(nil, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":%s,"requested":%q}}`, wire.Marshal(versions), asked)}
}

// checkHeaders compares the headers of a request with the body.
func (s *Server) checkHeaders(m wire.Message, header http.Header) wire.Reply {
	want := map[string]string{"Mcp-Method": m.Method}
	want["Mcp-Protocol-Version"], _ = wire.GetString(m.Params, "_meta", metaVersion)
	switch m.Method {
	case "tools/call", "prompts/get":
		want["Mcp-Name"], _ = wire.GetString(m.Params, "name")
	case "resources/read":
		want["Mcp-Name"], _ = wire.GetString(m.Params, "uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		want["Mcp-Name"], _ = wire.GetString(m.Params, "taskId")
	}
	if region, ok := wire.GetString(m.Params, "arguments", "region"); ok && want["Mcp-Name"] == "region" {
		want["Mcp-Param-"+s.region()] = region
	}
	for name, value := range want {
		if got := header.Values(name); len(got) != 1 || decodeHeader(got[0]) != value {
			return wire.Reply{Error: fmt.Appendf(nil, `{"code":-32020,"message":%s}`, wire.Quote(fmt.Sprintf("%s %q does not match body value '%s'", name, got, value)))}
		}
	}
	if header.Get("Mcp-Session-Id") != "" || header.Get("Last-Event-Id") != "" {
		return rpcError(wire.CodeInvalidRequest, "the client sends headers of sessions")
	}
	return wire.Reply{}
}

// modern returns the answer to a request of the stateless era.
func (c *call) modern() wire.Reply {
	if c.msg.Method == "server/discover" {
		return c.discover()
	}
	if c.msg.Method == "subscriptions/listen" {
		return c.listen()
	}
	var reply wire.Reply
	switch {
	case c.tool == "ask":
		reply = c.askModern()
	case c.tool == "task":
		reply = c.callExtended()
	case strings.HasPrefix(c.msg.Method, "tasks/"):
		reply = c.extendedMethod()
	case c.tool == "region":
		reply = result(`{"content":[],"received":%s}`, c.msg.Params)
	default:
		reply = c.legacy()
	}
	if reply.Result == nil {
		return reply
	}
	return c.completed(reply)
}

// completed adds the members of results of the stateless era.
func (c *call) completed(reply wire.Reply) wire.Reply {
	text := string(reply.Result)
	if !strings.Contains(text, `"resultType":`) {
		more := `"resultType":"complete",`
		if slices.Contains(cachedMethods, c.msg.Method) {
			more += cmp.Or(c.srv.sw.Hints, `"ttlMs":60000,"cacheScope":"private",`)
		}
		text = "{" + more + strings.TrimPrefix(text, "{")
	}
	out, err := wire.Set([]byte(text), fmt.Appendf(nil, `{"name":%q,"version":"0.1"}`, c.srv.sw.Name), "_meta", metaServerInfo)
	if err != nil {
		panic(err) // all results are objects
	}
	return wire.Reply{Result: out}
}

func (c *call) discover() wire.Reply {
	if raw := c.srv.sw.Discover; raw != "" {
		return wire.Reply{Result: []byte(raw)}
	}
	capabilities := c.srv.sw.Capabilities
	if capabilities == "" {
		capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},` +
			`"logging":{},"completions":{},"extensions":{"example.com/e":{}},"experimental":{"example.com/x":{"n":9007199254740993}}}`
	}
	return c.completed(result(`{"supportedVersions":%s,"capabilities":%s,"instructions":%q,"_meta":{"example.com/init":{"n":9007199254740993}},"x-init":1.0}`,
		wire.Marshal(c.srv.versions()), capabilities, Instructions))
}

// askModern is the tool "ask" {method, params, times}: the result asks the client, times times (1
// if 0). Without a method the result asks nothing: the client has only to repeat the call with the
// requestState.
func (c *call) askModern() wire.Reply {
	method, params := c.text("method"), c.argument("params")
	if needs := capabilityFor(method, params); needs != nil {
		path := append([]string{"_meta", metaCapabilities}, needs...)
		if _, ok := wire.Get(c.msg.Params, path...); !ok {
			required := strings.Repeat(`{%q:`, len(needs)) + "{}" + strings.Repeat("}", len(needs))
			var names []any
			for _, n := range needs {
				names = append(names, n)
			}
			return wire.Reply{Error: fmt.Appendf(nil, `{"code":-32021,"message":"capability missing","data":{"requiredCapabilities":%s}}`, fmt.Sprintf(required, names...))}
		}
	}
	round := 0
	if state, ok := wire.GetString(c.msg.Params, "requestState"); ok {
		if n, err := fmt.Sscanf(state, c.state()+"-%d", &round); n != 1 || err != nil {
			return rpcError(wire.CodeInvalidParams, "requestState is not valid")
		}
	}
	answer, answered := wire.Get(c.msg.Params, "inputResponses", "question")
	if round >= max(c.number("times"), 1) && (answered || method == "") {
		if !answered {
			answer = []byte("null")
		}
		return result(`{"content":[],"result":%s,"rounds":%d}`, answer, round)
	}
	if round == 0 || answered || method == "" {
		round++
	}
	questions := ""
	if method != "" {
		if params != nil {
			questions = fmt.Sprintf(`"inputRequests":{"question":{"method":%q,"params":%s}},`, method, params)
		} else {
			questions = fmt.Sprintf(`"inputRequests":{"question":{"method":%q}},`, method)
		}
	}
	return result(`{"resultType":"input_required",%s"requestState":"%s-%d"}`, questions, c.state(), round)
}

// state is the beginning of the requestState of a call, which identifies the call.
func (c *call) state() string {
	arguments, _ := wire.Get(c.msg.Params, "arguments")
	sum := sha256.Sum256(arguments)
	return hex.EncodeToString(sum[:8])
}

// capabilityFor returns the capability that a client must declare before the question; nil: none.
func capabilityFor(method string, params []byte) []string {
	switch method {
	case "elicitation/create":
		if mode, _ := wire.GetString(params, "mode"); mode == "url" {
			return []string{"elicitation", "url"}
		}
		return []string{"elicitation"}
	case "sampling/createMessage":
		return []string{"sampling"}
	case "roots/list":
		return []string{"roots"}
	}
	return nil
}

// region is the name of the header for the argument of the tool "region".
func (s *Server) region() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.regionHeader == "" {
		return "Region"
	}
	return s.regionHeader
}

// SetRegionHeader changes the annotation of the tool "region", without a list_changed.
func (s *Server) SetRegionHeader(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.regionHeader
	if old == "" {
		old = "Region"
	}
	s.regionHeader = name
	for i, tool := range s.items[wire.Tools] {
		s.items[wire.Tools][i] = strings.ReplaceAll(tool, `"x-mcp-header":"`+old+`"`, `"x-mcp-header":"`+name+`"`)
	}
}

// headerTools are listed with ServerOptions.HeaderTools: a tool whose argument is repeated in a
// header, and a tool whose annotation is invalid.
var headerTools = []string{
	`{"name":"region","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`,
	`{"name":"misnamed","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"not a token"}}}}`,
}
