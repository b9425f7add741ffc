package rpc

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// FuzzExcerpt checks that the id read from the excerpt of a line that is too long is
// the one that a parser finds in the whole line.
func FuzzExcerpt(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("z", 600) + `"}}`,
		`{"result":{"x":"` + strings.Repeat(`\",\"id\":5},`, 60) + `"},"jsonrpc":"2.0","id":7}`,
		`{"result":{"x":"` + strings.Repeat("z", 600) + `","id":5}}`,
		`{"id":3,"params":{"x":"` + strings.Repeat("z", 600) + `"},"method":"m"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var m map[string]json.RawMessage
		if bytes.ContainsAny(line, "\r\n") || json.Unmarshal(line, &m) != nil || m["method"] != nil {
			return
		}
		e := newLineSampler(bytes.NewReader(line), 1)
		if _, err := io.Copy(io.Discard, e); err != nil {
			t.Fatal(err)
		}
		if id := e.pop().responseID(); id != nil && bytes.Count(line, []byte(`"id"`)) == 1 && string(id) != string(m["id"]) {
			t.Fatalf("read %s, the id is %s", id, m["id"])
		}
	})
}
