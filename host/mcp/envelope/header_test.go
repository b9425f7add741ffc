package envelope

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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
		`{"properties":{"r":{"type":"string","x-mcp-header":"a","default":{"b":1,"b":2}}}}`:                                         "Mcp-Param-A=r",
		`{"properties":{"r":{"properties":{"s":{"type":"string","x-mcp-header":"b"}},"type":"string","x-mcp-header":"a"}}}`:         "Mcp-Param-A=r Mcp-Param-B=r.s",
		`{"properties":{"r":{"type":"string","x-mcp-header":"a","x-mcp-header":"b"}}}`:                                              "error: duplicate",
		`{"x-mcp-header":"a"`:    "error: EOF",
		`{} "x-mcp-header"`:      "error: more than one",
		`"x-mcp-header"`:         "",
		annotated(maxParams + 1): "error: more than 64 arguments",
		`{"x-mcp-header":1,"x":{` + strings.Repeat(`"":{},`, 2) + `"":1}}`:               "error: duplicate",
		strings.Repeat(`{"not":`, 200) + `{"x-mcp-header":1}` + strings.Repeat(`}`, 200): "error: levels",
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

// annotated returns a schema with n arguments that are repeated in headers.
func annotated(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"a%d":{"type":"string","x-mcp-header":"H%[1]d"}`, i)
	}
	return `{"properties":{` + b.String()[1:] + `}}`
}

// TestLargeSchemas checks that schemas are read without values for their parts. Seven bytes of
// a schema would become 350.
func TestLargeSchemas(t *testing.T) {
	const objects = 300_000
	tiny := "[" + strings.Repeat(`{"":1},`, objects) + "1]"
	for schema, want := range map[string]string{
		`{"properties":{"a":{"type":"string","x-mcp-header":"H","examples":` + tiny + `}}}`: "",
		`{"properties":{"a":{"type":"string","x-mcp-header":"H","default":` + tiny + `}}}`:  "",
		`{"properties":{"a":{"type":"string","x-mcp-header":"H","anyOf":` + tiny + `}}}`:    "more than 100000 members",
		`{"x-mcp-header":` + tiny + `}`:            "must be a string",
		`{"a":"x-mcp-header","type":` + tiny + `}`: "",
	} {
		var p Params
		var err error
		if allocated := allocations(func() { p, err = ParseParams([]byte(schema)) }); allocated > 3*int64(len(schema))+16<<20 {
			t.Errorf("%.100s: %d bytes were allocated for %d", schema, allocated, len(schema))
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && p.IsEmpty() != !strings.Contains(schema, "properties") {
			t.Errorf("%.100s: %v, %v", schema, p.all, err)
		}
	}
}

func allocations(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestArgumentsAreReadOnce checks that the work for a call does not grow with the number of
// arguments in headers times that of all arguments.
func TestArgumentsAreReadOnce(t *testing.T) {
	const others = 2000
	var b strings.Builder
	for i := range others {
		fmt.Fprintf(&b, `"o%d":%[1]d,`, i)
	}
	arguments := []byte(`{` + b.String() + `"a0":"x","a63":"y"}`)
	for _, n := range []int{1, maxParams} {
		p, err := ParseParams([]byte(annotated(n)))
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		if allocs := testing.AllocsPerRun(3, func() {
			if err := p.SetHeaders(h, arguments); err != nil {
				t.Error(err)
			}
		}); allocs > 2*others {
			t.Errorf("%d arguments in headers: %v allocations", n, allocs)
		}
		if allocs := testing.AllocsPerRun(3, func() {
			if bad := p.CheckHeaders(h, arguments); bad != nil {
				t.Error(bad)
			}
		}); allocs > 2*others {
			t.Errorf("%d arguments in headers: %v allocations to check them", n, allocs)
		}
		if h.Get("Mcp-Param-H0") != "x" || (n > 1) != (h.Get("Mcp-Param-H63") == "y") {
			t.Errorf("%d: %v", n, h)
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
	for _, arguments := range []string{`{"s":"a","s":"b"}`, `{"o":{"b":true},"o":{"b":true}}`, `{"o":1,"o":{"b":true}}`, `{"o":{"b":true,"b":false}}`, `{"s":"a"`, `{"s":"\ud800"}`} {
		h := http.Header{}
		if err := p.SetHeaders(h, []byte(arguments)); err == nil || len(h) > 0 {
			t.Errorf("%s: %v, %v", arguments, h, err)
		}
	}
	if err := p.SetHeaders(http.Header{}, []byte(`{"x":1,"x":2,"s":"a"}`)); err != nil {
		t.Errorf("an argument that is in no header is repeated: %v", err)
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
