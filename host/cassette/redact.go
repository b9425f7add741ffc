package cassette

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// redactJSON is raw, valid JSON, with redact applied to the text of each string,
// name and number in it; a number that is another then becomes a string. So the
// outcome is JSON whatever redact puts in place of a secret. It is compact, and
// valid UTF-8.
func redactJSON(raw []byte, redact func([]byte) []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	raw = compact(raw)
	if redact == nil {
		return raw
	}
	var out []byte
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	end := 0
	for {
		token, err := d.ReadToken()
		if err != nil { // io.EOF, or nested too deep to be looked through
			if end < len(raw) {
				return wire.Quote(string(redact(raw)))
			}
			return out
		}
		from := end
		end = int(d.InputOffset())
		text := token.String()
		kind := token.Kind()
		if kind != '"' && kind != '0' {
			out = append(out, raw[from:end]...)
			continue
		}
		if clean := string(redact([]byte(text))); clean != text {
			out = append(append(out, separators(raw[from:end])...), wire.Quote(clean)...)
		} else {
			out = append(out, raw[from:end]...)
		}
	}
}

// separators are the colon or comma in front of a token.
func separators(raw []byte) []byte {
	if len(raw) > 0 && (raw[0] == ':' || raw[0] == ',') {
		return raw[:1]
	}
	return nil
}
