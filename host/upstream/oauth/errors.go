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
	// maxError bounds the text of an error, and maxShown what is shown of one
	// piece of text from a server, in characters.
	maxError = 800
	maxShown = 200
)

// errTooLong means that an answer is larger than maxDocument.
var errTooLong = errors.New("the answer is too long")

// shown makes text of a server fit for an error.
func shown(text string) string { return display.Line(text, maxShown) }

// hide returns an error of bounded length without secrets for err, an error of an
// authorization server. It keeps a transport.OAuthError in the chain.
func hide(err error, secrets ...string) error {
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

// hiddenError is an error whose text is safe to show.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

func redact(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "****")
			text = strings.ReplaceAll(text, url.QueryEscape(s), "****")
		}
	}
	return display.Line(text, maxError)
}
