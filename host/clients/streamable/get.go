package streamable

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// get opens the session's own stream, or resumes any stream.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest) {
	if !accepts(r, "text", "event-stream") {
		h.refuse(w, nil, refusal{http.StatusNotAcceptable, protocol.CodeHTTPRefused, "Accept must have text/event-stream"})
		return
	}
	s, ok := h.session(w, r, p, token, nil)
	if !ok {
		return
	}
	defer h.leave(s)
	defer s.serving.Done()
	s.used.Store(true)
	e := newEventWriter(w)
	var bad *refusal
	last := r.Header.Get(resumeHeader)
	id, known := parseEventID(last)
	switch {
	case known && id.term != s.term && id.stream != 0:
		s.answerUnresumed(e, id)
		return
	case last != "" && !(known && id.term != s.term): // else nothing can be replayed
		bad = s.resume(e, last)
	case !s.main.attach(e, 0, true):
		bad = &refusal{http.StatusConflict, protocol.CodeHTTPRefused, "the session has an open GET stream already"}
	}
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	s.serve(r.Context(), e, s.primes(r))
}

// answerUnresumed answers a client that resumes the stream of a request of another replica: this
// replica has no part of the stream.
func (s *session) answerUnresumed(e *eventWriter, id eventID) {
	request := []byte(id.request)
	if msg, err := wire.Parse([]byte(`{"jsonrpc":"2.0","method":"x","id":` + id.request + `}`)); err != nil || !msg.IsRequest() {
		s.handler.refuse(e.w, nil, refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "Last-Event-ID: the replica of the stream no longer has the session"})
		return
	}
	answer := wire.Response(request, wire.Reply{Error: wire.Errorf(wire.CodeInternal, "%s", errLostText).Raw()})
	e.writeHeader()
	if e.writeEvent(eventID{}, answer, false) == nil {
		_ = e.flush() // fails only if the client has disconnected
	}
}

// resume attaches e to the stream of the last event received by the client.
func (s *session) resume(e *eventWriter, last string) *refusal {
	id, ok := parseEventID(last)
	if !ok {
		return &refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "Last-Event-ID " + strconv.Quote(display.Clip(last, maxQuoted)) + " is not an event id of this server"}
	}
	out, ok := s.stream(id.stream)
	if !ok || !out.attach(e, id.seq, false) {
		return &refusal{http.StatusBadRequest, protocol.CodeHTTPRefused, "Last-Event-ID " + last + ": the stream has ended or never existed"}
	}
	return nil
}

var errDeleted = errors.New("the client has ended the session")

// delete ends a session, and answers when the session has been cleaned up.
func (h *Handler) delete(w http.ResponseWriter, r *http.Request, p *policy, token bearer.Digest) {
	s, ok := h.session(w, r, p, token, nil)
	if !ok {
		return
	}
	s.serving.Done()
	h.leave(s)
	s.mcp.End(errDeleted)
	h.remove(s)
	<-s.ended
	w.WriteHeader(http.StatusNoContent)
}
