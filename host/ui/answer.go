package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// requestError is an error with an HTTP status.
type requestError struct {
	status int
	text   string
	code   string // for the page's scripts; "" for none
}

func (e *requestError) Error() string { return e.text }

func badRequest(format string, a ...any) error {
	return &requestError{status: http.StatusBadRequest, text: fmt.Sprintf(format, a...)}
}

// answer calls f, and answers with the error of f, if any.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, f func(w http.ResponseWriter, r *http.Request) error) {
	err := f(w, r)
	if err == nil || r.Context().Err() != nil {
		return
	}
	var bad *requestError
	var ambiguous *journal.AmbiguousError
	switch {
	case errors.As(err, &bad):
		writeJSON(w, bad.status, map[string]string{"error": bad.text, "code": bad.code})
	case errors.Is(err, journal.ErrNotFound), errors.Is(err, tools.ErrNotFound), errors.Is(err, tools.ErrNoVersion):
		refuse(w, http.StatusNotFound, err.Error())
	case errors.As(err, &ambiguous):
		refuse(w, http.StatusConflict, err.Error())
	default:
		text := h.mask(err.Error())
		h.opts.Log.Warn("the page gets an error", "path", r.URL.Path, "err", text)
		refuse(w, http.StatusInternalServerError, text)
	}
}

func (h *Handler) mask(text string) string { return h.opts.Proxy.Config().NewMasker().Mask(text) }

func refuse(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"error": text})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil { // a member that should be raw JSON is not JSON
		status, raw = http.StatusInternalServerError, []byte(`{"error":"the answer is not JSON"}`)
	}
	writeRaw(w, status, raw)
}

// writeRaw answers with raw JSON.
func writeRaw(w http.ResponseWriter, status int, raw []byte) {
	deadline(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // fails only if the page is gone
}

// write answers with JSON.
func write(w http.ResponseWriter, v any) error {
	writeJSON(w, http.StatusOK, v)
	return nil
}

// maxBody is the largest body of a request, in bytes.
const maxBody = 8 << 20

// readBody reads a JSON object from the body of a request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, &requestError{status: http.StatusUnsupportedMediaType, text: "Content-Type must be application/json"}
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, &requestError{status: http.StatusRequestEntityTooLarge, text: "the body is larger than " + display.Size(maxBody)}
		}
		return nil, badRequest("the body cannot be read")
	}
	if !wire.IsObject(body.Bytes()) {
		return nil, badRequest("the body is not a JSON object")
	}
	return body.Bytes(), nil
}

// indent formats raw JSON for people. Numbers keep their digits. Invalid JSON is returned
// unchanged.
func indent(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// untilEnd returns a context until the end of the request or of the Handler.
func (h *Handler) untilEnd(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(h.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
