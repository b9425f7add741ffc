package mcptest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
