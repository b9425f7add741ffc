package cassette

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// redactJSON applies redact to the text of each string, name and number in raw, which is valid
// JSON. A changed number becomes a string, so the result is valid JSON for any redact. The result
// is compact and valid UTF-8.
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
		if err != nil { // io.EOF, or nested too deeply for the decoder
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

// separators returns the colon or comma before a token.
func separators(raw []byte) []byte {
	if len(raw) > 0 && (raw[0] == ':' || raw[0] == ',') {
		return raw[:1]
	}
	return nil
}
