package envelope

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// meta returns params whose _meta has the given members.
func meta(members string) []byte { return []byte(`{"name":"x","_meta":{` + members + `}}`) }

const (
	version      = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	capabilities = `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		params string
		code   int    // 0 if accepted
		says   string // part of the error
	}{
		{string(meta(version + "," + capabilities)), 0, ""},
		{string(meta(version + "," + capabilities + `,"io.modelcontextprotocol/logLevel":"debug","x":1`)), 0, ""},
		{``, wire.CodeInvalidParams, "_meta is missing"},
		{`{"name":"x"}`, wire.CodeInvalidParams, "_meta is missing"},
		{`{"_meta":[]}`, wire.CodeInvalidParams, "_meta is missing"},
		{string(meta(capabilities)), wire.CodeInvalidParams, "protocolVersion"},
		{string(meta(version)), wire.CodeInvalidParams, "clientCapabilities"},
		{string(meta(version + `,"io.modelcontextprotocol/clientCapabilities":null`)), wire.CodeInvalidParams, "clientCapabilities"},
		{string(meta(`"io.modelcontextprotocol/protocolVersion":1,` + capabilities)), wire.CodeInvalidParams, "must be a string"},
		{string(meta(version + "," + capabilities + `,"io.modelcontextprotocol/clientInfo":"me"`)), wire.CodeInvalidParams, "clientInfo"},
		{string(meta(version + "," + capabilities + `,"io.modelcontextprotocol/logLevel":"loud"`)), wire.CodeInvalidParams, "log level"},
		{string(meta(version + "," + capabilities + `,"io.modelcontextprotocol/logLevel":3`)), wire.CodeInvalidParams, "log level"},
		{string(meta(`"io.modelcontextprotocol/protocolVersion":"1900-01-01",` + capabilities)), protocol.CodeUnsupportedVersion, "unsupported"},
		{string(meta(version + `,"io.modelcontextprotocol/clientCapabilities":{"x":"` + strings.Repeat("x", MaxClient) + `"}`)), wire.CodeInvalidParams, "too large"},
		{string(meta(version + "," + capabilities + `,"io.modelcontextprotocol/clientInfo":{"name":"` + strings.Repeat("x", MaxClient) + `"}`)), wire.CodeInvalidParams, "too large"},
		{string(meta(version + "," + capabilities + `,"x":"` + strings.Repeat("x", MaxClient) + `"`)), 0, ""},
		// The handshake era's revisions are not for envelopes.
		{string(meta(`"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + capabilities)), protocol.CodeUnsupportedVersion, "unsupported"},
	} {
		e, bad := Parse([]byte(test.params))
		switch {
		case bad == nil && test.code == 0:
			if e.Revision != protocol.Stateless.Newest() || string(e.Capabilities) != `{"elicitation":{}}` {
				t.Errorf("%s: %+v", test.params, e)
			}
		case bad == nil || bad.Code != test.code || !strings.Contains(bad.Message, test.says):
			t.Errorf("%s: %v", test.params, bad)
		}
	}
}

func TestUnsupportedNamesWhatThereIs(t *testing.T) {
	var data struct {
		Supported []string
		Requested string
	}
	if err := json.Unmarshal(Unsupported("x\"y").Data, &data); err != nil {
		t.Fatal(err)
	}
	if len(data.Supported) < 2 || data.Supported[0] != "2026-07-28" || data.Requested != "x\"y" {
		t.Errorf("%+v", data)
	}
}

// TestPutAndRemove checks that an envelope can be added and removed, and that the rest of
// the params keeps its bytes.
func TestPutAndRemove(t *testing.T) {
	client := []byte(`{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"},"x":1}`)
	e := Of(protocol.Stateless.Newest(), client, "info")
	for _, test := range []struct{ params, put, removed string }{
		{``, `{"_meta":{E}}`, `{}`},
		{`{"a": 1e0}`, `{"a": 1e0,"_meta":{E}}`, `{"a": 1e0}`},
		{`{"_meta":{"progressToken":7,"traceparent":"00"} ,"a":[ ]}`, `{"_meta":{"progressToken":7,"traceparent":"00",E} ,"a":[ ]}`,
			`{"_meta":{"progressToken":7,"traceparent":"00"} ,"a":[ ]}`},
		// One that the sender has put there is replaced.
		{`{"_meta":{"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/protocolVersion":"x"}}`, `{"_meta":{E}}`, `{}`},
	} {
		var params []byte // nil for none
		if test.params != "" {
			params = []byte(test.params)
		}
		put, err := e.Put(params)
		want := strings.ReplaceAll(test.put, "E", `"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},`+
			`"io.modelcontextprotocol/logLevel":"info"`)
		if err != nil || string(put) != want {
			t.Errorf("%s: put: %s, %v", test.params, put, err)
		}
		if got, bad := Parse(put); bad != nil || got.LogLevel != "info" || string(got.Client()) !=
			`{"protocolVersion":"2026-07-28","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}` {
			t.Errorf("%s: parsed: %s, %v", test.params, got.Client(), bad)
		}
		if removed, err := Remove(put); err != nil || string(removed) != test.removed {
			t.Errorf("%s: removed: %s, %v", test.params, removed, err)
		}
	}
	for _, params := range []string{`[]`, `{"_meta":1}`} {
		if put, err := e.Put([]byte(params)); err == nil {
			t.Errorf("%s: put: %s", params, put)
		}
	}
	if e := Of(protocol.Stateless.Newest(), []byte(`{"capabilities":[],"clientInfo":0}`), ""); string(e.Capabilities) != "{}" || e.ClientInfo != nil {
		t.Errorf("%s, %s", e.Capabilities, e.ClientInfo)
	}
}

func TestResults(t *testing.T) {
	info := []byte(`{"name":"s","version":"1"}`)
	for _, test := range []struct {
		result, complete, legacy string
		hints                    *Hints
	}{
		{`{}`, `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`, `{}`, nil},
		{`{"tools":[]}`, `{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private",` +
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`, `{"tools":[]}`, &Hints{-1, ScopePrivate}},
		// What a server has said stays.
		{`{"ttlMs":9,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{},"k":1},"resultType":"complete"}`,
			`{"ttlMs":9,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{},"k":1},"resultType":"complete"}`,
			`{"_meta":{"k":1}}`, &Hints{5, ScopePrivate}},
	} {
		stamp := NewStamp(info)
		complete, err := stamp.Complete([]byte(test.result), test.hints)
		if err != nil || string(complete) != test.complete {
			t.Errorf("%s: complete: %s, %v", test.result, complete, err)
		}
		if legacy, err := Legacy(complete); err != nil || string(legacy) != test.legacy {
			t.Errorf("%s: legacy: %s, %v", test.result, legacy, err)
		}
	}
	for result, want := range map[string]string{`{}`: TypeComplete, `{"resultType":"input_required"}`: TypeInputRequired, `{"resultType":"x"}`: "x"} {
		if kind, ok := ResultType([]byte(result)); !ok || kind != want {
			t.Errorf("%s: %q", result, kind)
		}
	}
	if _, ok := ResultType([]byte(`{"resultType":null}`)); ok {
		t.Error("null is a type")
	}
}

// TestFromHandshake checks that nothing that a server of the handshake era says can be
// taken for what only the stateless era has, and that the rest keeps its bytes.
func TestFromHandshake(t *testing.T) {
	for result, want := range map[string]string{
		`{ "x" : 1.0 , "_meta" : {"k":1e2} }`: `{ "x" : 1.0 , "_meta" : {"k":1e2} }`,
		`{}`:                                  `{}`,
		`{"a":9007199254740993,"resultType":"input_required","b":{"resultType":1, "ttlMs":2}}`:   `{"a":9007199254740993,"b":{"resultType":1, "ttlMs":2}}`,
		`{"result\u0054ype":"x","ttlMs":1,"cacheScope":"public","a":[1.50]}`:                     `{"a":[1.50]}`,
		`{"inputRequests":{},"requestState":"s","content":[]}`:                                   `{"content":[]}`,
		`{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"}},"content":[]}`:             `{"content":[]}`,
		`{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"k":1.0},"contents":[1.0]}`: `{"_meta":{"k":1.0},"contents":[1.0]}`,
		`{"_meta":7}`: `{"_meta":7}`,
	} {
		if got, err := FromHandshake([]byte(result)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", result, got, err, want)
		}
	}
	if got, err := FromHandshake([]byte(`[]`)); err == nil {
		t.Errorf("an array became %s", got)
	}
}

// FuzzEnvelope checks that an envelope that was put can be parsed and removed again, and
// that nothing else of the params changes.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"_meta":{}}`, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"a":1}`, `{"_meta":null}`, `{"_meta":{},"_meta":{}}`} {
		f.Add([]byte(seed), []byte(`{"capabilities":{}}`))
	}
	f.Fuzz(func(t *testing.T, params, client []byte) {
		if len(params) > 0 && !json.Valid(params) || len(client) > 0 && !json.Valid(client) {
			return
		}
		e := Of(protocol.Stateless.Newest(), client, "")
		put, err := e.Put(params)
		if err != nil {
			return
		}
		got, bad := Parse(put)
		if bad != nil || string(got.Client()) != string(e.Client()) {
			t.Fatalf("%s: %v", put, bad)
		}
		removed, err := Remove(put)
		if err != nil || IsPresent(removed) {
			t.Fatalf("%s: %v", removed, err)
		}
		if again, err := e.Put(removed); err != nil || !sameJSON(again, put) {
			t.Fatalf("%s\n%s, %v", again, put, err)
		}
	})
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}
