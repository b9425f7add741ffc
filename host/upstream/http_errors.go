package upstream

import (
	"fmt"
	"io"
	"net/http"
)

// maxErrorBody is how much is read of the body of an HTTP error that is no
// JSON-RPC message, in bytes; what is shown of it is clipped further.
const maxErrorBody = 4 << 10

// StatusError says that a server answered a request with an HTTP status that
// is no success and a body that is no JSON-RPC answer to it.
type StatusError struct {
	Status int    // HTTP status code
	Body   string // the beginning of the body, printable; "" for none
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("HTTP status %d", e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " (" + name + ")"
	}
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// AuthError says that a server refuses us for want of an authorization. It
// names no token.
type AuthError struct {
	Upstream string
	Reason   string // what is wrong, bounded
	// OAuth tells that tokens are configured, so that the command auth helps.
	OAuth bool
	Err   error // cause, or nil
}

func (e *AuthError) Error() string {
	if e.OAuth {
		return fmt.Sprintf("not authorized: %s (run `mcp-metatool auth %s`)", e.Reason, e.Upstream)
	}
	return fmt.Sprintf("not authorized: %s (set a header with a valid token, or configure oauth and run `mcp-metatool auth %s`)", e.Reason, e.Upstream)
}

func (e *AuthError) Unwrap() error { return e.Err }

// redirectError says that a server sends us elsewhere and we do not go there.
type redirectError struct {
	to string // without user, query and fragment
}

func (e *redirectError) Error() string {
	return fmt.Sprintf("it redirects to %s, which is not followed (if that is right, set url to it)", e.to)
}

// statusError makes an error of a response and closes its body.
func statusError(resp *http.Response) *StatusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	doneWith(resp.Body)
	return &StatusError{Status: resp.StatusCode, Body: clip(string(body))}
}

// doneWith reads what little is left of a body, so that its connection can be
// used again, and closes it.
func doneWith(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxErrorBody)
	body.Close()
}
