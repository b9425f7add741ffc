package front

import (
	"errors"
	"net/http"
	"strconv"
)

// get opens the session's own stream, or resumes one.
func (h *HTTP) get(w http.ResponseWriter, r *http.Request, token digest) {
	if !accepts(r, "text", "event-stream") {
		h.refuse(w, nil, refusal{http.StatusNotAcceptable, codeRefused, "Accept must have text/event-stream"})
		return
	}
	v, bad := h.visitOf(r, token)
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	defer h.leave(v)
	if !h.enter(v) {
		h.refuse(w, nil, noSession)
		return
	}
	defer v.inside.Done()
	v.used.Store(true)
	c := newConn(w)
	if last := r.Header.Get(resumeHeader); last != "" {
		bad = v.resume(c, last)
	} else if !v.main.attach(c, 0, true) {
		bad = &refusal{http.StatusConflict, codeRefused, "the session has an open GET stream already"}
	}
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	v.serve(r.Context(), c, v.primes(r))
}

// resume attaches c to the stream of the event that the client has seen last.
func (v *visit) resume(c *conn, last string) *refusal {
	id, ok := parseEventID(last)
	if !ok {
		return &refusal{http.StatusBadRequest, codeRefused, "Last-Event-ID " + strconv.Quote(clip(last)) + " is not one of ours"}
	}
	s, ok := v.find(id.stream)
	if !ok || !s.attach(c, id.place, false) {
		return &refusal{http.StatusBadRequest, codeRefused, "Last-Event-ID " + last + ": the stream is over or was never there"}
	}
	return nil
}

// clip bounds what is quoted of a client's header.
func clip(s string) string { return s[:min(len(s), 64)] }

var errDeleted = errors.New("the client has ended the session")

// delete ends a session, and answers when nothing is left of it.
func (h *HTTP) delete(w http.ResponseWriter, r *http.Request, token digest) {
	v, bad := h.visitOf(r, token)
	if bad != nil {
		h.refuse(w, nil, *bad)
		return
	}
	h.leave(v)
	v.session.End(errDeleted)
	h.forget(v)
	<-v.gone
	w.WriteHeader(http.StatusNoContent)
}
