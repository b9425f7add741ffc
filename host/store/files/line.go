package files

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// maxLine bounds a line, in bytes.
const maxLine = (store.MaxEvent+store.Slack)/3*4 + 1024

// kindData is the kind of event that has any bytes, which readers of the journal ignore.
const kindData = "data"

// toLine returns the line for an event, with its newline.
func toLine(log string, data []byte) []byte {
	if isLine(log, data) {
		return append(append(make([]byte, 0, len(data)+1), data...), '\n')
	}
	line := make([]byte, 0, base64.StdEncoding.EncodedLen(len(data))+128)
	line = fmt.Appendf(line, `{"t":"%s","run":"%s","base64":"`, kindData, log)
	line = base64.StdEncoding.AppendEncode(line, data)
	return append(line, "\"}\n"...)
}

// isLine reports whether data is a line of the journal about that log, of another kind than
// those that toLine makes.
func isLine(log string, data []byte) bool {
	rest, ok := bytes.CutPrefix(data, []byte(`{"t":"`))
	if !ok || bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		return false
	}
	kind, rest, ok := bytes.Cut(rest, []byte(`","run":"`))
	return ok && string(kind) != kindData && bytes.HasPrefix(rest, []byte(log+`"`)) && json.Valid(data)
}

// fromLine returns the event of a line.
func fromLine(log string, line []byte) ([]byte, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	text, ok := bytes.CutPrefix(line, fmt.Appendf(nil, `{"t":"%s","run":"%s","base64":"`, kindData, log))
	if !ok {
		return line, nil
	}
	data, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSuffix(text, []byte(`"}`)))
	if err != nil {
		return nil, &store.CorruptError{What: "log " + log, Reason: "a line has wrong base64"}
	}
	return data, nil
}
