package mcptest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
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

// postModern answers a request of the stateless era. Each request has a session here, which ends
// with the response.
func (s *Server) postModern(w http.ResponseWriter, r *http.Request, e Entry) {
	if !e.Msg.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if bad := s.refusal(e.Msg, r.Header); bad.Error != nil {
		refuse(w, e.Msg, bad)
		return
	}
	es := &eventStream{plainJSON: s.sw.Answers != "", refusals: true}
	session := s.newSession("", func(session *session) {
		session.general, session.broken = es, es.abort
	})
	leave := es.attach(w, -1, false)
	session.received(e, es)
	defer session.work.Wait()
	defer session.close()
	defer func() {
		if r.Context().Err() != nil && !es.finished() {
			s.Received.add("", wire.Notification(methodClosed, fmt.Appendf(nil, `{"requestId":%s}`, e.Msg.ID)), nil)
		}
	}()
	es.hold(r, leave)
}

// refuse answers a request with an error and the HTTP status of the error.
func refuse(w http.ResponseWriter, m wire.Message, reply wire.Reply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(wire.ParseError(reply.Error).Code))
	_, _ = w.Write(wire.Response(m.ID, reply))
}

// statusOf returns the HTTP status of an answer with an error code, 0 for none.
func statusOf(code int) int {
	switch code {
	case wire.CodeMethodNotFound:
		return http.StatusNotFound
	case -32020, -32021, -32022, wire.CodeInvalidRequest, wire.CodeInvalidParams:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// decodeHeader decodes the value of Mcp-Name or Mcp-Param-*.
func decodeHeader(value string) string {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	encoded, end := strings.CutSuffix(encoded, "?=")
	if !ok || !end {
		return value
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "bad base64: " + value
	}
	return string(text)
}

// encodeHeader is the reverse of decodeHeader.
func encodeHeader(value string) string {
	plain := strings.TrimSpace(value) == value && decodeHeader(value) == value
	for _, c := range []byte(value) {
		plain = plain && (c >= ' ' && c <= '~' || c == '\t')
	}
	if plain {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// Envelope is the envelope of requests of a client of the stateless era.
type Envelope struct {
	Version      string // "": Modern
	Capabilities string // raw object; "": {}
	ClientInfo   string // raw object; "": none
	LogLevel     string // "": none
}

// Params returns params, a raw object ("" is an empty one), with the envelope.
func (e Envelope) Params(params string) string {
	if params == "" {
		params = "{}"
	}
	if e.Version == "" {
		e.Version = Modern
	}
	if e.Capabilities == "" {
		e.Capabilities = "{}"
	}
	out := []byte(params)
	set := func(key string, value []byte) {
		var err error
		if out, err = wire.Set(out, value, "_meta", key); err != nil {
			panic(err) // a mistake of the test
		}
	}
	set(metaVersion, wire.Quote(e.Version))
	set(metaCapabilities, []byte(e.Capabilities))
	if e.ClientInfo != "" {
		set(metaClientInfo, []byte(e.ClientInfo))
	}
	if e.LogLevel != "" {
		set(metaLogLevel, wire.Quote(e.LogLevel))
	}
	return string(out)
}

// modernHeaders sets the headers of a request with an envelope.
func modernHeaders(h http.Header, m wire.Message) {
	version, ok := wire.GetString(m.Params, "_meta", metaVersion)
	if !ok {
		return
	}
	h.Del("Mcp-Session-Id")
	h.Set("MCP-Protocol-Version", version)
	h.Set("Mcp-Method", m.Method)
	member := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
		"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}[m.Method]
	if name, ok := wire.GetString(m.Params, member); ok && member != "" {
		h.Set("Mcp-Name", encodeHeader(name))
	}
}

// listener is an open subscriptions/listen.
type listener struct {
	call  *call
	kinds []string // the true members of the filter
	uris  []string
	tasks []string
	over  chan struct{} // closed when the server ends the subscription
}

// kindOf maps notifications to their member of the filter.
var kindOf = map[string]string{
	"notifications/tools/list_changed":     "toolsListChanged",
	"notifications/prompts/list_changed":   "promptsListChanged",
	"notifications/resources/list_changed": "resourcesListChanged",
}

// listen answers subscriptions/listen, when the subscription ends.
func (c *call) listen() wire.Reply {
	l := &listener{call: c, over: make(chan struct{})}
	var honoured []string
	for _, kind := range []string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"} {
		if raw, _ := wire.Get(c.msg.Params, "notifications", kind); string(raw) == "true" {
			l.kinds = append(l.kinds, kind)
			honoured = append(honoured, fmt.Sprintf(`%q:true`, kind))
		}
	}
	raw, _ := wire.Get(c.msg.Params, "notifications", "resourceSubscriptions")
	uris, _ := wire.Elements(raw)
	var quoted []string
	for _, raw := range uris {
		uri, ok := wire.Text(raw)
		if refuses := c.srv.sw.RefusesSubscription; refuses != nil && refuses(uri) {
			return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "no resource %s", uri).Raw()}
		}
		if ok && !strings.HasPrefix(uri, "unwatched:") {
			l.uris, quoted = append(l.uris, uri), append(quoted, string(raw))
		}
	}
	if quoted != nil {
		honoured = append(honoured, `"resourceSubscriptions":[`+strings.Join(quoted, ",")+`]`)
	}
	raw, _ = wire.Get(c.msg.Params, "notifications", "taskIds")
	ids, _ := wire.Elements(raw)
	if len(ids) > 0 {
		for _, raw := range ids {
			id, _ := wire.Text(raw)
			l.tasks = append(l.tasks, id)
		}
		honoured = append(honoured, `"taskIds":`+string(raw))
	}
	s := c.srv
	s.mu.Lock()
	before := s.listeners
	s.setListeners(append(slices.Clone(before), l))
	c.notify("notifications/subscriptions/acknowledged", []byte(`{"notifications":{`+strings.Join(honoured, ",")+`},`+l.tag()+`}`))
	if s.sw.OneSubscription {
		for _, other := range before {
			close(other.over)
		}
		s.setListeners([]*listener{l})
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.setListeners(slices.DeleteFunc(slices.Clone(s.listeners), func(other *listener) bool { return other == l }))
		s.mu.Unlock()
	}()
	select {
	case <-c.cancelled:
		if !s.sw.SharedSubscription {
			return wire.Reply{}
		}
		s.mu.Lock()
		for _, other := range s.listeners {
			other.kinds, other.uris = nil, nil
		}
		s.mu.Unlock()
		return result(`{"resultType":"complete",%s}`, l.tag())
	case <-l.over:
		return result(`{"resultType":"complete",%s}`, l.tag())
	}
}

// tag returns the _meta of messages of the subscription.
func (l *listener) tag() string {
	return fmt.Sprintf(`"_meta":{%q:%s}`, metaSubscription, l.call.msg.ID)
}

// Publish sends a notification to the interested subscriptions. params is a raw object without
// _meta; "" for an empty one.
func (s *Server) Publish(method, params string) {
	if params == "" {
		params = "{}"
	}
	uri, _ := wire.GetString([]byte(params), "uri")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		select {
		case <-l.call.cancelled: // the listener's goroutine has not removed the listener yet
			continue
		default:
		}
		if !slices.Contains(l.kinds, kindOf[method]) && (method != "notifications/resources/updated" || !slices.Contains(l.uris, uri)) {
			continue
		}
		separator := ","
		if params == "{}" {
			separator = ""
		}
		l.call.notify(method, []byte(strings.TrimSuffix(params, "}")+separator+l.tag()+"}"))
	}
}

// EndSubscriptions ends all subscriptions with their result.
func (s *Server) EndSubscriptions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		close(l.over)
	}
	s.setListeners(nil)
}

// BreakSubscriptions breaks the streams of all subscriptions. Over stdio the subscriptions are
// cancelled.
func (s *Server) BreakSubscriptions() {
	s.mu.Lock()
	all := s.listeners
	s.setListeners(nil)
	s.mu.Unlock()
	for _, l := range all {
		if _, ok := l.call.out.(*lineStream); ok {
			l.call.notify("notifications/cancelled", fmt.Appendf(nil, `{"requestId":%s,"reason":"shutting down"}`, l.call.msg.ID))
		} else {
			l.call.out.abort()
		}
		l.call.cancel()
	}
}

// setListeners sets the open subscriptions. The caller holds s.mu.
func (s *Server) setListeners(to []*listener) {
	s.listeners = to
	close(s.relistened)
	s.relistened = make(chan struct{})
}

// AwaitSubscriptions waits until n subscriptions are open. If ctx ends, the error wraps the cause
// and has the number of open subscriptions.
func (s *Server) AwaitSubscriptions(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		now, changed := len(s.listeners), s.relistened
		s.mu.Unlock()
		if now == n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d subscriptions while there are %d: %w", n, now, context.Cause(ctx))
		}
	}
}
