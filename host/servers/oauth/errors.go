package oauth

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

const (
	// maxError limits the text of an error, and maxShown each text of a server in the error, in
	// characters.
	maxError = 800
	maxShown = 200
)

// errTooLong means: an answer is larger than maxDocument.
var errTooLong = errors.New("the answer is too long")

// shown returns text of a server in a form for errors.
func shown(text string) string { return display.Line(text, maxShown) }

// withoutSecrets returns the error err of an authorization server without secrets and
// with a text of bounded length. A transport.OAuthError stays in the chain, and so does
// an error of the context.
func withoutSecrets(err error, secrets ...string) error {
	var answer transport.OAuthError
	if errors.As(err, &answer) {
		return &hiddenError{text: redact(answer.Error(), secrets), err: transport.OAuthError{ErrorCode: redact(answer.ErrorCode, secrets)}}
	}
	text := redact(err.Error(), secrets)
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return &hiddenError{text: text, err: known}
		}
	}
	return &hiddenError{text: text}
}

// hiddenError is an error with a text that is safe to show.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

// redact replaces secrets in text, and makes the text safe to show.
func redact(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "****")
			text = strings.ReplaceAll(text, url.QueryEscape(s), "****")
		}
	}
	return display.Line(text, maxError)
}
