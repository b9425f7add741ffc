package mcptest

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Diff compares two JSON texts token by token. The order of members counts, and so do all digits of
// numbers. Strings are equal if they have the same value, even if escaped differently. White space
// between tokens is ignored. Diff returns "" for equal texts, else the first difference, with a
// JSON pointer (RFC 6901) and both values.
func Diff(want, got []byte) string {
	w, g := tokens(want), tokens(got)
	for {
		wantToken, wantErr := w.next()
		gotToken, gotErr := g.next()
		switch {
		case errors.Is(wantErr, io.EOF) && errors.Is(gotErr, io.EOF):
			return ""
		case wantErr != nil || gotErr != nil:
			return fmt.Sprintf("at %s: want %s, got %s", w.place(), describe(wantToken, wantErr), describe(gotToken, gotErr))
		case !sameToken(wantToken, gotToken):
			return fmt.Sprintf("at %s: want %s, got %s", w.place(), describe(wantToken, nil), describe(gotToken, nil))
		}
	}
}

type tokenReader struct{ *jsontext.Decoder }

func tokens(raw []byte) tokenReader {
	return tokenReader{jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// next returns the next token as written.
func (r tokenReader) next() ([]byte, error) {
	switch r.PeekKind() {
	case '{', '}', '[', ']':
		token, err := r.ReadToken()
		if err != nil {
			return nil, err
		}
		return []byte(token.String()), nil
	default:
		value, err := r.ReadValue()
		return bytes.Clone(value), err
	}
}

func (r tokenReader) place() string {
	if p := r.StackPointer(); p != "" {
		return string(p)
	}
	return "the top"
}

func sameToken(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) == 0 || len(b) == 0 || a[0] != '"' || b[0] != '"' {
		return false
	}
	// Invalid Unicode has no value to compare.
	x, errX := jsontext.AppendUnquote(nil, a)
	y, errY := jsontext.AppendUnquote(nil, b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func describe(token []byte, err error) string {
	const most = 200
	switch {
	case errors.Is(err, io.EOF):
		return "the end"
	case err != nil:
		return err.Error()
	case len(token) > most:
		return fmt.Sprintf("%s... (%d bytes)", token[:most], len(token))
	}
	return string(token)
}
