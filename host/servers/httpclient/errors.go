package httpclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

const (
	// MaxErrorBody limits how much is read of the body of an HTTP error that is not a JSON-RPC
	// message, in bytes.
	MaxErrorBody = 4 << 10
	// maxShown limits text of the server in errors, in characters.
	maxShown = 200
)

// StatusError is the error of a request answered with an HTTP status other than success, and
// without a JSON-RPC response in the body.
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

// NewStatusError returns the error for a response, and closes the response's body.
func NewStatusError(resp *http.Response) *StatusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody))
	Discard(resp.Body)
	return &StatusError{Status: resp.StatusCode, Body: display.Line(string(body), maxShown)}
}

// Discard reads up to MaxErrorBody bytes of a body, so that the connection can be reused, and
// closes the body.
func Discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, MaxErrorBody)
	body.Close()
}

// AuthError is the error of a request refused by the server for lack of authorization. AuthError
// contains no token.
type AuthError struct {
	Upstream string
	Reason   string // the problem, of bounded length
	// OAuth means that oauth is configured for the upstream, so the command auth helps.
	OAuth bool
	// Final means that another login would not help.
	Final bool
	// Unasked means that the server has answered 401 without a challenge.
	Unasked bool
	Err     error // cause, or nil
}

func (e *AuthError) Error() string {
	switch {
	case e.Final:
		return "not authorized: " + e.Reason
	case e.OAuth:
		return fmt.Sprintf("not authorized: %s (run `mcp-metatool auth %s`)", e.Reason, e.Upstream)
	}
	return fmt.Sprintf("not authorized: %s (set a header with a valid token, or configure oauth and run `mcp-metatool auth %s`)", e.Reason, e.Upstream)
}

func (e *AuthError) Unwrap() error { return e.Err }

func (c *Client) unauthorized(resp *http.Response) error {
	err := NewStatusError(resp)
	return &AuthError{Upstream: c.config.Name, Reason: "it answered " + err.Error(), OAuth: c.auth != nil, Unasked: len(Challenges(resp.Header)) == 0, Err: err}
}

// maxStepUps is how many other tokens are tried for a request after the server has refused a token
// because of the scopes.
const maxStepUps = 2

// stepUp gets another token after the server has refused the token in used with resp, because of
// the scopes. tried is how many other tokens have been tried for the request.
func (c *Client) stepUp(ctx context.Context, resp *http.Response, used string, tried int) error {
	err := NewStatusError(resp)
	scopes, _ := missingScopes(resp.Header)
	if tried < maxStepUps {
		return c.auth.StepUp(ctx, used, scopes)
	}
	return &AuthError{Upstream: c.config.Name, OAuth: true, Final: true, Err: err,
		Reason: fmt.Sprintf("the server refuses new tokens too, and requires the scope %q", display.Line(strings.Join(scopes, " "), maxShown))}
}

// lacksScopes reports whether the server refuses a token because of the scopes (RFC 6750, 3.1).
func lacksScopes(resp *http.Response) bool {
	if resp.StatusCode != http.StatusForbidden {
		return false
	}
	_, ok := missingScopes(resp.Header)
	return ok
}

// missingScopes returns the scopes required by the server; ok is false if the server does not
// report missing scopes.
func missingScopes(h http.Header) (scopes []string, ok bool) {
	for _, c := range Challenges(h) {
		if c.Params["error"] == "insufficient_scope" {
			return strings.Fields(c.Params["scope"]), true
		}
	}
	return nil, false
}

// RedirectError is the error of a request that the server redirects to a forbidden address.
type RedirectError struct {
	To string // without user, query and fragment
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("it redirects to %s, which is not followed (if that is right, set url to it)", e.To)
}
