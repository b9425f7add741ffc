package envelope

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestValues has the examples of revision 2026-07-28, basic/transports/streamable-http,
// "Value Encoding".
func TestValues(t *testing.T) {
	for value, want := range map[string]string{
		"us-west1": "us-west1", "": "", "a\tb": "a\tb",
		"Hello, 世界":            "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":             "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":         "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=":   "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"=?base64?":            "=?base64?",
		"a\r\nX-Injected: yes": "=?base64?YQ0KWC1JbmplY3RlZDogeWVz?=",
	} {
		if got := EncodeValue(value); got != want {
			t.Errorf("%q: %q", value, got)
		}
		if got, ok := DecodeValue(want); !ok || got != value {
			t.Errorf("%q: decoded as %q, %t", want, got, ok)
		}
	}
	for _, bad := range []string{"=?base64?a?=", "=?base64?SGVsbG8?=", "=?base64?/w==?=", "ä", " x", "x\n", "=?base64?SGVs\nbG8=?="} {
		if got, ok := DecodeValue(bad); ok {
			t.Errorf("%q: decoded as %q", bad, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	call := []byte(`{"name":"tööl","uri":"u","taskId":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)
	for method, name := range map[string]string{
		"tools/call": "=?base64?dMO2w7Zs?=", "prompts/get": "=?base64?dMO2w7Zs?=", "resources/read": "u", "tasks/get": "t", "tools/list": "",
	} {
		h := http.Header{}
		SetHeaders(h, protocol.Stateless.Newest(), method, call)
		if h.Get("Mcp-Name") != name || h.Get("Mcp-Method") != method || h.Get("MCP-Protocol-Version") != "2026-07-28" {
			t.Errorf("%s: %v", method, h)
		}
		if bad := CheckHeaders(h, method, call); bad != nil {
			t.Errorf("%s: %v", method, bad)
		}
		for header := range h {
			for _, values := range [][]string{nil, {"x"}, {h.Get(header), h.Get(header)}, {h.Get(header) + " "}} {
				other := h.Clone()
				other[header] = values
				if bad := CheckHeaders(other, method, call); bad == nil || bad.Code != protocol.CodeHeaderMismatch {
					t.Errorf("%s: %s %q: %v", method, header, values, bad)
				}
			}
		}
	}
}

// schema has the cases of revision 2026-07-28, basic/transports/streamable-http, "Schema
// Extension".
func TestParseParams(t *testing.T) {
	for schema, want := range map[string]string{
		`{}`: "",
		`{"properties":{"r":{"type":"string","x-mcp-header":"Region"}}}`:                                                            "Mcp-Param-Region=r",
		`{"properties":{"o":{"properties":{"b":{"type":"boolean","x-mcp-header":"b"}}},"n":{"type":"integer","x-mcp-header":"N"}}}`: "Mcp-Param-B=o.b Mcp-Param-N=n",
		`{"properties":{"x-mcp-header":{"type":"string"}}}`:                                                                         "",
		`{"properties":{"a":{"default":{"x-mcp-header":""},"enum":[{"x-mcp-header":1}]}}}`:                                          "",
		`{"properties":{"r":{"type":"string","x-mcp-h\u0065ader":"Region"}}}`:                                                       "Mcp-Param-Region=r",
		`{"properties":{"r":{"type":"string","x-mcp-header":""}}}`:                                                                  "error: not empty",
		`{"properties":{"r":{"type":"string","x-mcp-header":null}}}`:                                                                "error: not empty",
		`{"properties":{"r":{"type":"string","x-mcp-header":"a b"}}}`:                                                               "error: no name",
		`{"properties":{"r":{"type":"string","x-mcp-header":"a\r\nb"}}}`:                                                            "error: no name",
		`{"properties":{"r":{"type":"number","x-mcp-header":"a"}}}`:                                                                 "error: type",
		`{"properties":{"r":{"type":["string","null"],"x-mcp-header":"a"}}}`:                                                        "error: type",
		`{"properties":{"r":{"x-mcp-header":"a"}}}`:                                                                                 "error: type",
		`{"properties":{"r":{"type":"string","x-mcp-header":"a"},"s":{"type":"string","x-mcp-header":"A"}}}`:                        "error: twice",
		`{"type":"string","x-mcp-header":"a"}`:                                                                                      "error: only properties",
		`{"properties":{"r":{"items":{"type":"string","x-mcp-header":"a"}}}}`:                                                       "error: only properties",
		`{"anyOf":[{"properties":{"r":{"type":"string","x-mcp-header":"a"}}}]}`:                                                     "error: only properties",
		`{"$defs":{"d":{"type":"string","x-mcp-header":"a"}}}`:                                                                      "error: only properties",
		`{"$defs":{"d":{"properties":{"e":{"type":"string","x-mcp-header":"a"}}}}}`:                                                 "error: only properties",
		`{"properties":{"r":{"type":"string","x-mcp-header":"a"},"r":{"type":"string"}}}`:                                           "error: duplicate",
		strings.Repeat(`{"not":`, 200) + `{"x-mcp-header":1}` + strings.Repeat(`}`, 200):                                            "error: levels",
	} {
		p, err := ParseParams([]byte(schema))
		var got []string
		for _, param := range p.all {
			got = append(got, param.header+"="+strings.Join(param.path, "."))
		}
		says, wantErr := strings.CutPrefix(want, "error: ")
		if (err != nil) != wantErr || err != nil && !strings.Contains(err.Error(), says) || err == nil && strings.Join(got, " ") != want {
			t.Errorf("%.200s: %v, %v", schema, got, err)
		}
	}
}

func TestParams(t *testing.T) {
	p, err := ParseParams([]byte(`{"properties":{"s":{"type":"string","x-mcp-header":"S"},"i":{"type":"integer","x-mcp-header":"I"},
		"o":{"properties":{"b":{"type":"boolean","x-mcp-header":"B"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		``: "", `{}`: "", `{"s":null,"o":7}`: "", `{"s":"a","i":-7,"o":{"b":true}}`: "B=true I=-7 S=a",
		`{"i":4.20e1}`: "I=42", `{"s":"ä"}`: "S==?base64?w6Q=?=", `{"s":{"x":1}}`: "", `{"i":1e999999999}`: "I=1e999999999",
	} {
		h := http.Header{}
		if err := p.SetHeaders(h, []byte(arguments)); err != nil {
			t.Errorf("%s: %v", arguments, err)
		}
		var got []string
		for _, name := range []string{"B", "I", "S"} {
			if v := h.Get("mcp-param-" + name); v != "" {
				got = append(got, name+"="+v)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", arguments, got)
		}
		if bad := p.CheckHeaders(h, []byte(arguments)); bad != nil {
			t.Errorf("%s: %v", arguments, bad)
		}
	}
	check := func(arguments, header, value string) *wire.RPCError {
		h := http.Header{}
		if header != "" {
			h.Set(header, value)
		}
		return p.CheckHeaders(h, []byte(arguments))
	}
	for _, test := range []struct {
		arguments, header, value string
		code                     int
	}{
		{`{"i":42}`, "Mcp-Param-I", "42.0", 0}, {`{"i":42}`, "Mcp-Param-I", "4.2e1", 0}, {`{}`, "Mcp-Param-Other", "x", 0},
		{`{"i":42}`, "Mcp-Param-I", "43", protocol.CodeHeaderMismatch},
		{`{"i":42}`, "Mcp-Param-I", "1e99999999", protocol.CodeHeaderMismatch},
		{`{"s":"a"}`, "", "", protocol.CodeHeaderMismatch}, {`{"s":"a"}`, "Mcp-Param-S", "A", protocol.CodeHeaderMismatch},
		{`{}`, "Mcp-Param-S", "a", protocol.CodeHeaderMismatch}, {`{"s":null}`, "Mcp-Param-S", "null", protocol.CodeHeaderMismatch},
		{`{"s":"a"}`, "Mcp-Param-S", "=?base64?!?=", protocol.CodeHeaderMismatch},
		{`{"s":"a","s":"b"}`, "Mcp-Param-S", "b", wire.CodeInvalidParams},
	} {
		if bad := check(test.arguments, test.header, test.value); bad == nil && test.code != 0 || bad != nil && bad.Code != test.code {
			t.Errorf("%+v: %v", test, bad)
		}
	}
	if err := p.SetHeaders(http.Header{}, []byte(`{"s":"a","s":"b"}`)); err == nil {
		t.Error("a repeated argument has got a header")
	}
}

// FuzzValue checks that every text survives its header, and that the header is one.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{"", "a", " ", "=?base64??=", "\x00", "ä", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		value = strings.ToValidUTF8(value, "?")
		header := EncodeValue(value)
		if got, ok := DecodeValue(header); !ok || got != value || strings.ContainsFunc(header, func(c rune) bool { return c != '\t' && (c < ' ' || c > '~') }) {
			t.Fatalf("%q: %q, decoded %q, %t", value, header, got, ok)
		}
	})
}

// FuzzParams checks that headers made from arguments match these arguments.
func FuzzParams(f *testing.F) {
	f.Add([]byte(`{"properties":{"s":{"type":"string","x-mcp-header":"S"}}}`), []byte(`{"s":"x"}`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		p, err := ParseParams(schema)
		if err != nil {
			return
		}
		h := http.Header{}
		if p.SetHeaders(h, arguments) != nil {
			return
		}
		if bad := p.CheckHeaders(h, arguments); bad != nil {
			t.Fatalf("%s: %s: %v: %v", schema, arguments, h, bad)
		}
	})
}
