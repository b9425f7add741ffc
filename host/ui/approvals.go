package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Approvals is the queue of calls waiting for a decision; see approval.Queue.
type Approvals interface {
	List(ctx context.Context) ([]approval.Listed, error)
	Remembered(ctx context.Context) ([]approval.Remembered, error)
	Decide(ctx context.Context, id string, v approval.Verdict, how string, remember time.Duration) (approval.Entry, error)
	Forget(ctx context.Context, id string) (approval.Remembered, error)
}

// pageUser is who decides on the page, in the journal.
const pageUser = "user of the page"

// waitingCall is a queued call in the form for the page. The arguments are text, so that their
// numbers keep their digits.
type waitingCall struct {
	approval.Listed
	Target    string `json:"target"`
	Caller    string `json:"caller"`
	Arguments string `json:"arguments"`
}

// approvals answers with the queue, and with the remembered decisions.
func (h *Handler) approvals(w http.ResponseWriter, r *http.Request) error {
	answer := struct {
		Waiting    []waitingCall         `json:"waiting"`
		Remembered []approval.Remembered `json:"remembered"`
		// RememberFor is how long a decision can be remembered, in milliseconds; 0: not at all.
		RememberFor int64 `json:"rememberFor"`
	}{Waiting: []waitingCall{}, Remembered: []approval.Remembered{}, RememberFor: h.opts.Proxy.Config().Approval.Remember.Milliseconds()}
	if h.opts.Approvals != nil {
		list, err := h.opts.Approvals.List(r.Context())
		if err != nil {
			return err
		}
		for _, e := range list {
			answer.Waiting = append(answer.Waiting, waitingCall{e, e.Question.Target(), e.Question.Caller(), indent(e.Question.Arguments)})
		}
		remembered, err := h.opts.Approvals.Remembered(r.Context())
		if err != nil {
			return err
		}
		answer.Remembered = append(answer.Remembered, remembered...)
	}
	return write(w, answer)
}

// maxNote bounds the note of a decision, in bytes.
const maxNote = 1000

// decide decides about a call in the queue: allow, deny; or forgets a decision.
func (h *Handler) decide(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if h.opts.Approvals == nil {
		return badRequest("there is no queue of approvals")
	}
	var ask struct {
		Decision string            `json:"decision"`
		Remember approval.Remember `json:"remember"`
		Note     string            `json:"note"`
	}
	if json.Unmarshal(body, &ask) != nil {
		return badRequest("the body is not a decision")
	}
	id, life := r.PathValue("id"), h.opts.Proxy.Config().Approval.Remember
	switch {
	case ask.Decision == "forget":
		_, err = h.opts.Approvals.Forget(r.Context(), id)
	case ask.Decision != "allow" && ask.Decision != "deny":
		return badRequest(`decision must be "allow", "deny" or "forget"`)
	case ask.Remember != approval.Once && ask.Remember != approval.ForValue && ask.Remember != approval.ForShape:
		return badRequest(`remember must be "", "value" or "shape"`)
	case ask.Remember != approval.Once && life <= 0:
		return badRequest("nothing is remembered (remember in [approval] is 0)")
	default:
		v := approval.Verdict{Allow: ask.Decision == "allow", Remember: ask.Remember, Note: display.Head(ask.Note, maxNote), By: pageUser}
		_, err = h.opts.Approvals.Decide(r.Context(), id, v, approval.HowPage, life)
	}
	var decided *approval.DecidedError
	switch {
	case errors.Is(err, approval.ErrUnknown):
		return &requestError{status: http.StatusNotFound, text: err.Error()}
	case errors.As(err, &decided):
		return &requestError{status: http.StatusConflict, text: err.Error()}
	case err != nil:
		return err
	}
	return h.approvals(w, r)
}

// waiting returns the number of calls waiting for a decision, -1 if the queue is unreadable.
func (h *Handler) waiting(ctx context.Context) int {
	if h.opts.Approvals == nil {
		return 0
	}
	list, err := h.opts.Approvals.List(ctx)
	if err != nil {
		return -1
	}
	n := 0
	for _, e := range list {
		if e.State == approval.Open {
			n++
		}
	}
	return n
}
