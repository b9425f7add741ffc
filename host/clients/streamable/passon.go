package streamable

import (
	"context"
	"errors"
	"net/http"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Replicas are the other replicas of a fleet.
type Replicas interface {
	// Home returns the replica that has the object of a request of the stateless era; "" if this
	// replica answers the request. Home does not wait.
	Home(principal, method string, params []byte) string
	// Forward passes a request on; see peer.Link.Forward.
	Forward(w http.ResponseWriter, r *http.Request, p peer.Passage) error
}

// passOn passes a request on to the replica that has the request's object. passOn returns false
// without such a replica, or if the request never reached the replica: then this replica answers as
// well as possible. A request is passed on only once.
func (h *Handler) passOn(w http.ResponseWriter, r *http.Request, p *principal, msg wire.Message, body []byte) bool {
	if h.opts.Replicas == nil {
		return false
	}
	if _, passed := peer.From(r.Context()); passed {
		return false
	}
	to := h.opts.Replicas.Home(p.mcp.Principal(), msg.Method, msg.Params)
	if to == "" {
		return false
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(errClosing) })()
	err := h.opts.Replicas.Forward(w, r.WithContext(ctx), peer.Passage{To: to, Token: p.token, Body: body})
	var bad *peer.Error
	switch {
	case r.Context().Err() != nil: // the client has gone
	case errors.Is(err, peer.ErrUnreached):
		h.log().Debug("a request could not be passed on", "method", msg.Method, "err", err)
		return false
	case errors.As(err, &bad) && !bad.Started && msg.Method == protocol.MethodTasksGet: // which changes nothing
		return false
	case errors.As(err, &bad):
		h.log().Warn("a request that was passed on got no answer", "method", msg.Method, "err", err)
		reply := wire.Response(msg.ID, wire.Reply{Error: wire.Errorf(wire.CodeInternal,
			"%s: the connection to replica %s, which has the object of this request, was lost: the request may have been carried out", msg.Method, to).Raw()})
		if bad.Started {
			_ = newEventSink(w).writeEvent(eventID{}, reply, false)
		} else {
			writeJSON(w, http.StatusOK, reply)
		}
	}
	return true
}
