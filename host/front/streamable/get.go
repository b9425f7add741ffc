package streamable

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/mcp-metatool/mcp-metatool/host/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// get opens the session's own stream, or resumes any stream.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, token bearer.Digest) {
	if !accepts(r, "text", "event-stream") {
		h.refuse(w, nil, refusal{http.StatusNotAcceptable, protocol.CodeHTTPRefused, "Accept must have text/event-stream"})
		return
	}
	s, bad := h.sessionOf(r, token)
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	defer h.leave(s)
	if !h.enter(s) {
		h.refuse(w, nil, noSession)
		return
	}
	defer s.serving.Done()
	s.used.Store(true)
	e := newEventWriter(w)
	if last := r.Header.Get(resumeHeader); last != "" {
		bad = s.resume(e, last)
	} else if !s.main.attach(e, 0, true) {
		bad = &refusal{http.StatusConflict, protocol.CodeHTTPRefused, "the session has an open GET stream already"}
	}
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	s.serve(r.Context(), e, s.primes(r))
}

// resume attaches e to the stream of the last event that the client has received.
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
func (h *Handler) delete(w http.ResponseWriter, r *http.Request, token bearer.Digest) {
	s, bad := h.sessionOf(r, token)
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	h.leave(s)
	s.mcp.End(errDeleted)
	h.remove(s)
	<-s.ended
	w.WriteHeader(http.StatusNoContent)
}
