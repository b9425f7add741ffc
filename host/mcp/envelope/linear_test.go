package envelope

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv/linear"
)

// within returns an object with a value at a place.
func within(name string, raw []byte) []byte { return fmt.Appendf(nil, `{"x":1,%q:%s}`, name, raw) }

// entryPoints are the functions that take bytes, each with a name that is looked for.
var entryPoints = map[string]struct {
	name string
	do   func(raw []byte)
}{
	"IsPresent":         {"_meta", func(raw []byte) { IsPresent(raw); IsPresent(within("_meta", raw)) }},
	"Version":           {"_meta", func(raw []byte) { Version(raw); Version(within("_meta", raw)) }},
	"Parse":             {KeyCapabilities, func(raw []byte) { _, _ = Parse(raw); _, _ = Parse(within("_meta", raw)) }},
	"MissingCapability": {"x", func(raw []byte) { _ = MissingCapability(raw, "x") }},
	"Of": {"capabilities", func(raw []byte) {
		e := Of(protocol.Revision{}, raw, "")
		e.Client()
		Of(protocol.Revision{}, within("capabilities", raw), "")
	}},
	"Envelope.Put": {KeyClientInfo, func(raw []byte) {
		e := Envelope{Capabilities: raw, ClientInfo: raw}
		_, _ = e.Put(raw)
		_, _ = e.Put(within("_meta", raw))
	}},
	"Remove":     {KeyClientInfo, func(raw []byte) { _, _ = Remove(raw); _, _ = Remove(within("_meta", raw)) }},
	"NameOf":     {"name", func(raw []byte) { NameOf(protocol.MethodToolsCall, raw) }},
	"SetHeaders": {"name", func(raw []byte) { SetHeaders(http.Header{}, protocol.Revision{}, protocol.MethodToolsCall, raw) }},
	"CheckHeaders": {"name", func(raw []byte) {
		_ = CheckHeaders(http.Header{HeaderName: {string(raw)}}, protocol.MethodToolsCall, raw)
	}},
	"ReadHints": {"ttlMs", func(raw []byte) {
		ReadHints(raw)
		ReadHints(within("ttlMs", raw))
		ReadHints(within("cacheScope", raw))
	}},
	"Question": {"_meta", func(raw []byte) {
		_, _ = Question(protocol.MethodElicit, raw)
		_, _ = Question(protocol.MethodElicit, within("_meta", raw))
	}},
	"CheckAnswer": {"action", func(raw []byte) { CheckAnswer(protocol.MethodElicit, raw) }},
	"ResultType":  {"resultType", func(raw []byte) { ResultType(raw) }},
	"NewStamp":    {"name", func(raw []byte) { NewStamp(raw) }},
	"Stamp.Complete": {"_meta", func(raw []byte) {
		s := NewStamp([]byte(`{"name":"x"}`))
		_, _ = s.Complete(raw, &Hints{})
		_, _ = s.Complete(within("_meta", raw), nil)
	}},
	"Legacy":        {"resultType", func(raw []byte) { _, _ = Legacy(raw); _, _ = Legacy(within("_meta", raw)) }},
	"FromHandshake": {KeyServerInfo, func(raw []byte) { _, _ = FromHandshake(raw); _, _ = FromHandshake(within("_meta", raw)) }},
	"ParseParams": {"properties", func(raw []byte) {
		_, _ = ParseParams(raw)
		_, _ = ParseParams(fmt.Appendf(nil, `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":%s}}`, raw))
	}},
	// This one takes a string.
	"DecodeValue": {"a", func(raw []byte) { DecodeValue(EncodeValue(string(raw))); DecodeValue(string(raw)) }},
}

// TestLinear checks that no message makes us work out of proportion to its size.
func TestLinear(t *testing.T) {
	var table []string
	for entry, e := range entryPoints {
		if entry != "DecodeValue" {
			table = append(table, entry)
		}
		for _, shape := range linear.Shapes {
			t.Run(entry+"/"+shape.Name, func(t *testing.T) {
				linear.Check(t, func(size int) []byte { return shape.Make(size, e.name) }, e.do)
			})
		}
	}
	const own = "reads the arguments once; see TestParams"
	linear.CheckTable(t, ".", table, map[string]string{"Params.SetHeaders": own, "Params.CheckHeaders": own})
}
