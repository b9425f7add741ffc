package streamable

import (
	"errors"
	"net/http"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/stateless"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// isStateless reports whether a POST is of the stateless era according to the headers: the body has
// to agree. If the headers name an unknown revision, the body decides the error.
func isStateless(r *http.Request) bool {
	era := stateless.EraOfHeader(r.Header)
	return era == stateless.StatelessHeader || era == stateless.UnknownHeader
}

// postStateless answers a POST with headers of the stateless era, or of an unknown revision.
func (h *Handler) postStateless(w http.ResponseWriter, r *http.Request, access *policy, token bearer.Digest) {
	address := clientAddress(r.RemoteAddr)
	p, err := h.principalOf(token, address)
	var over *quotaError
	switch {
	case errors.As(err, &over):
		h.refuseUnread(w, r, refusal{http.StatusTooManyRequests, protocol.CodeHTTPRefused, err.Error()})
		return
	case err != nil:
		h.refuseUnread(w, r, refusal{http.StatusServiceUnavailable, protocol.CodeHTTPRefused, err.Error()})
		return
	}
	defer h.leavePrincipal(p, address)
	b, bad := h.readBody(w, r, route.BudgetKey(p.mcp), h.opts.Session.MaxMessage)
	defer b.release()
	if bad != nil {
		h.refuseUnread(w, r, *bad)
		return
	}
	msg, err := wire.Parse(b.raw)
	switch {
	case err != nil:
		h.refuse(w, msg.ID, *malformed(err))
	case stateless.EraOfHeader(r.Header) == stateless.UnknownHeader && len(r.Header[sessionHeader]) > 0 && !stateless.IsStateless(msg):
		h.refuse(w, requestID(msg), *unknownVersion(r))
	case msg.Method == protocol.MethodInitialize && stateless.EraOfHeader(r.Header) == stateless.UnknownHeader && !envelope.IsPresent(msg.Params):
		h.initialize(w, r, access, token, msg, b.raw)
	case msg.IsRequest():
		h.answerStateless(w, r, p, msg, b.raw)
	case msg.IsNotification():
		w.WriteHeader(http.StatusAccepted) // none has any effect over HTTP
	default:
		h.refuse(w, nil, refusal{http.StatusBadRequest, wire.CodeInvalidRequest, "invalid request: a client of this revision does not send responses"})
	}
}

// requestID returns the id of a request, nil for other messages.
func requestID(m wire.Message) []byte {
	if m.IsRequest() {
		return m.ID
	}
	return nil
}

// answerStateless answers a request of the stateless era.
func (h *Handler) answerStateless(w http.ResponseWriter, r *http.Request, p *principal, msg wire.Message, raw []byte) {
	e, bad := stateless.Check(r.Header, msg)
	if bad == nil && msg.Method == protocol.MethodToolsCall && e.Revision.Has(protocol.StandardHeaders) {
		bad = h.checkParams(p, r.Header, msg.Params)
	}
	if bad != nil {
		h.refuseStateless(w, msg.ID, bad)
		return
	}
	if h.passOn(w, r, p, msg, raw) {
		return
	}
	params, err := envelope.Remove(msg.Params)
	if err != nil {
		h.refuseStateless(w, msg.ID, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", msg.Method, err))
		return
	}
	msg.Params = params
	out := newResponse(w, e, h.opts.Buffer, p.memory)
	p.serve(msg, out)
	err = out.write(w, r, &h.timers, h.opts.KeepAlive)
	if full := (*budget.FullError)(nil); errors.Is(err, errOverflow) || errors.As(err, &full) {
		h.log().Warn("request ended: its client does not read the messages", "principal", p.mcp.ID(), "buffer", h.opts.Buffer, "cause", limits.Explain(err))
	}
	p.served(out, err)
}

// checkParams compares the headers for arguments of a tool with the arguments.
func (h *Handler) checkParams(p *principal, header http.Header, params []byte) *wire.RPCError {
	name, _ := wire.GetString(params, "name")
	wanted := h.opts.Session.Backend.HeaderParams(p.mcp, name)
	if wanted.IsEmpty() {
		return nil
	}
	arguments, _ := wire.Get(params, "arguments")
	return wanted.CheckHeaders(header, arguments)
}

// refuseStateless answers a request of the stateless era with a wrong description of the request
// itself.
func (h *Handler) refuseStateless(w http.ResponseWriter, id []byte, bad *wire.RPCError) {
	status := http.StatusBadRequest
	if bad.Code == wire.CodeMethodNotFound {
		status = http.StatusNotFound
	}
	writeJSON(w, status, wire.Response(id, wire.Reply{Error: bad.Raw()}))
}

// refusesEra refuses a message of the stateless era, judged by the body, with headers of another
// era. refusesEra returns false if the message is not of the stateless era.
func (h *Handler) refusesEra(w http.ResponseWriter, r *http.Request, msg wire.Message) bool {
	if !stateless.IsStateless(msg) {
		return false
	}
	if msg.IsNotification() { // a notification needs no header
		w.WriteHeader(http.StatusAccepted)
		return true
	}
	bad := stateless.Contradicts(r.Header, msg)
	if bad == nil {
		_, bad = stateless.Check(r.Header, msg)
	}
	if bad == nil { // cannot happen: the headers are not of this era
		bad = envelope.Mismatch("the header %s is missing", envelope.HeaderVersion)
	}
	h.refuseStateless(w, msg.ID, bad)
	return true
}
