package wire

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"
)

// paths are the paths of the strings that we or a receiver act on.
var paths = [][]string{
	{"method"}, {"params", "name"}, {"params", "taskId"}, {"params", "uri"}, {"params", "cursor"}, {"params", "level"},
	{"params", "logger"}, {"params", "mode"}, {"params", "elicitationId"}, {"params", "status"}, {"params", "requestState"},
	{"params", "protocolVersion"}, {"params", "clientInfo", "name"},
	{"params", "ref", "type"}, {"params", "ref", "name"}, {"params", "ref", "uri"},
	{"params", "_meta", "progressToken"}, {"params", "_meta", "io.modelcontextprotocol/related-task", "taskId"},
	{"params", "task", "taskId"},
	{"result", "nextCursor"}, {"result", "taskId"}, {"result", "status"}, {"result", "protocolVersion"},
	{"result", "resultType"}, {"result", "requestState"}, {"result", "task", "taskId"}, {"result", "task", "status"},
	{"result", "_meta", "io.modelcontextprotocol/related-task", "taskId"}, {"error", "message"},
}

// view is what a reader finds at the paths; "" for anything but a string.
type view []string

// forwarded returns the message that the router and a connection would send on for m,
// and the values that they have acted on.
func forwarded(m Message) (raw []byte, acted view) {
	const token = `"our token"`
	if m.IsResponse() {
		m.Params = nil // it is neither read nor sent on
	}
	params, result := m.Params, m.Result
	if name, ok := GetString(params, "name"); ok {
		params, _ = Set(params, Quote(name), "name")
	}
	if _, ok := Get(params, "_meta", "progressToken"); ok {
		params, _ = Set(params, []byte(token), "_meta", "progressToken")
	}
	switch {
	case m.IsRequest():
		raw = Request(7, m.Method, params)
	case m.IsNotification():
		raw = Notification(m.Method, params)
	default:
		raw = Response([]byte("7"), Reply{Result: result, Error: m.Error})
	}
	of := map[string][]byte{"params": m.Params, "result": m.Result, "error": m.Error}
	for _, path := range paths {
		text := m.Method
		if path[0] != "method" {
			text, _ = GetString(of[path[0]], path[1:]...)
		}
		if path[len(path)-1] == "progressToken" {
			text, _ = GetString(params, "_meta", "progressToken")
		}
		acted = append(acted, text)
	}
	return raw, acted
}

// goReaders are ways to find a member of an object, as programs in Go and other
// languages do.
var goReaders = map[string]func(obj []jsonMember, name string) []byte{
	"the first":             func(obj []jsonMember, name string) []byte { return pickMember(obj, name, false, exactly) },
	"the last":              func(obj []jsonMember, name string) []byte { return pickMember(obj, name, true, exactly) },
	"the first, any case":   func(obj []jsonMember, name string) []byte { return pickMember(obj, name, false, strings.EqualFold) },
	"the last, any case":    func(obj []jsonMember, name string) []byte { return pickMember(obj, name, true, strings.EqualFold) },
	"the last, C strings":   func(obj []jsonMember, name string) []byte { return pickMember(obj, name, true, untilNUL) },
	"the last, Turkish":     func(obj []jsonMember, name string) []byte { return pickMember(obj, name, true, turkish) },
	"encoding/json structs": unmarshalMember,
}

type jsonMember struct {
	name  string
	value []byte
}

func exactly(a, b string) bool  { return a == b }
func untilNUL(a, b string) bool { a, _, _ = strings.Cut(a, "\x00"); return a == b }
func turkish(a, b string) bool {
	return strings.EqualFold(strings.NewReplacer("ı", "i", "İ", "i").Replace(a), b)
}

func pickMember(obj []jsonMember, name string, last bool, same func(a, b string) bool) (value []byte) {
	for _, m := range obj {
		if same(m.name, name) {
			if value = m.value; !last {
				return value
			}
		}
	}
	return value
}

// unmarshalMember finds a member with encoding/json, as a field of a struct.
func unmarshalMember(obj []jsonMember, name string) []byte {
	var params struct {
		Method, Params, Result, Error                                     json.RawMessage
		Name, URI, Cursor, Level, Logger, Mode, Status, Type, Ref, Task   json.RawMessage
		TaskID                                                            json.RawMessage `json:"taskId"`
		ElicitationID                                                     json.RawMessage `json:"elicitationId"`
		RequestState, ProtocolVersion, ClientInfo, NextCursor, ResultType json.RawMessage
		Message, ProgressToken                                            json.RawMessage
		Meta                                                              json.RawMessage `json:"_meta"`
		Related                                                           json.RawMessage `json:"io.modelcontextprotocol/related-task"`
	}
	text := []byte{'{'}
	for i, m := range obj {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(AppendQuote(text, m.name), ':'), m.value...)
	}
	if json.Unmarshal(append(text, '}'), &params) != nil {
		return nil
	}
	return map[string]json.RawMessage{
		"method": params.Method, "params": params.Params, "result": params.Result, "error": params.Error,
		"name": params.Name, "uri": params.URI, "cursor": params.Cursor, "level": params.Level, "logger": params.Logger,
		"mode": params.Mode, "status": params.Status, "type": params.Type, "ref": params.Ref, "task": params.Task,
		"taskId": params.TaskID, "elicitationId": params.ElicitationID, "requestState": params.RequestState,
		"protocolVersion": params.ProtocolVersion, "clientInfo": params.ClientInfo, "nextCursor": params.NextCursor,
		"resultType": params.ResultType, "message": params.Message, "progressToken": params.ProgressToken,
		"_meta": params.Meta, "io.modelcontextprotocol/related-task": params.Related,
	}[name]
}

// membersOf returns the members of an object, in order.
func membersOf(raw []byte) (all []jsonMember, ok bool) {
	err := jsontextMembers(raw, func(name []byte, start, end int) {
		text, _ := jsontext.AppendUnquote(nil, name)
		all = append(all, jsonMember{string(text), raw[start:end]})
	})
	return all, err == nil
}

func readAs(raw []byte, find func([]jsonMember, string) []byte) (found view) {
	for _, path := range paths {
		value := raw
		for _, name := range path {
			if obj, ok := membersOf(value); ok {
				value = find(obj, name)
			} else {
				value = nil
			}
		}
		var text string
		if len(value) > 0 && value[0] == '"' {
			_ = json.Unmarshal(value, &text)
		}
		found = append(found, text)
	}
	return found
}

// FuzzReaders checks that every reader reads what we forward in the same way as we do.
// If the seed is not zero, a message is generated from it. If METATOOL_READERS is set in
// the environment, Node, Python, go-sdk and encoding/json/v2 are also used.
func FuzzReaders(f *testing.F) {
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"name":"b","Name":"c"},"_meta":{"progressToken":1,"k":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a\u0000\ud83d\ude00","tasKid":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"\ud800","__proto_":{}}}`,
		`{"jsonrpc":"2.0","id":"x","result":{"nextCursor":"c","task":{"taskId":"t"},"structuredContent":{"a":1,"a":2}}}`,
		`{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_name":"b"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"meta":{"progressToken":"b"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m\ud800","params":{"name":"a","Name":"b"}}`,
	} {
		f.Add([]byte(raw), uint64(0))
	}
	for seed := range uint64(400) {
		f.Add([]byte(nil), seed+1)
	}
	others := startReaders(f)
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) {
		if seed != 0 {
			raw = oddMessage(rand.New(rand.NewPCG(seed, 1)))
		}
		compareReaders(t, raw, others)
	})
}

// TestReaders runs FuzzReaders on many generated messages; METATOOL_READERS sets how
// many.
func TestReaders(t *testing.T) {
	n := 2000
	if text := os.Getenv("METATOOL_READERS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	others := startReaders(t)
	sent := 0
	for seed := range n {
		if compareReaders(t, oddMessage(rand.New(rand.NewPCG(uint64(seed), 2))), others) {
			sent++
		}
	}
	t.Logf("%d messages, %d sent on and read by %d and %d readers", n, sent, len(goReaders)+1, len(others))
	if sent < n/4 || sent > n*9/10 {
		t.Errorf("of %d messages, %d were sent on: the test says little", n, sent)
	}
	for _, other := range others {
		for i, found := range other.found {
			if found < sent/2 {
				t.Errorf("%s, way %d, found %d strings in %d messages: it says little", other.name, i, found, sent)
			}
		}
		t.Logf("%s found %d strings", other.name, other.found)
	}
}

// compareReaders compares how readers read a message that we send on. It returns false
// for a message that we do not send on.
func compareReaders(t *testing.T, raw []byte, others []*otherReader) bool {
	t.Helper()
	m, err := Parse(raw)
	if err != nil || len(raw) > 4000 || bytes.Count(raw, []byte{'['})+bytes.Count(raw, []byte{'{'}) > 100 {
		return false // it is refused, or too large for some readers
	}
	sent, acted := forwarded(m)
	if !utf8.Valid(sent) {
		t.Fatalf("%q is not UTF-8", sent)
	}
	compare := func(reader string, found view) {
		t.Helper()
		for i, path := range paths {
			if found[i] != acted[i] {
				t.Fatalf("%s\nsent as %s:\n%s is %q to %s, and was %q to us", raw, sent, strings.Join(path, "."), found[i], reader, acted[i])
			}
		}
	}
	for name, find := range goReaders {
		compare("a reader of "+name, readAs(sent, find))
	}
	compareTyped(t, sent, acted)
	for _, other := range others {
		for _, found := range other.read(t, AppendLine(nil, sent)) {
			compare(other.name, asView(found, acted))
		}
	}
	return true
}

// asView converts what a reader found. What it does not support is taken from acted.
func asView(found []any, acted view) view {
	all := make(view, len(acted))
	for i, value := range found {
		switch value := value.(type) {
		case string:
			all[i] = value
		case bool:
			all[i] = acted[i]
		}
	}
	return all
}

// compareTyped reads a call with the types of mcp-go.
func compareTyped(t *testing.T, sent []byte, acted view) {
	var call mcp.CallToolRequest
	if json.Unmarshal(sent, &call) != nil || call.Method != "tools/call" {
		return
	}
	token := ""
	if call.Params.Meta != nil {
		token, _ = call.Params.Meta.ProgressToken.(string)
	}
	if call.Params.Name != acted[1] || token != acted[16] {
		t.Fatalf("%s: mcp-go reads name %q and token %q", sent, call.Params.Name, token)
	}
}

// oddMessage generates a message with names that look like known ones.
func oddMessage(r *rand.Rand) []byte {
	envelope := []string{"method", "params", "result", "error", "id", "jsonrpc"}
	b := []byte(`{"jsonrpc":"2.0"`)
	member := func(name string, value []byte) {
		b = append(append(append(append(b, ','), Quote(name)...), ':'), value...)
	}
	if r.IntN(8) == 0 {
		member(oddName(r, envelope[r.IntN(len(envelope))]), oddValue(r, 2, ""))
	}
	switch r.IntN(4) {
	case 0:
		member("id", []byte("1"))
		member("result", oddObject(r, 0, "result"))
	case 1:
		member("method", Quote([]string{"tools/call", "notifications/x", "é"}[r.IntN(3)]))
		member("params", oddObject(r, 0, "params"))
	default:
		member("id", []byte(`"x"`))
		member("method", []byte(`"tools/call"`))
		member("params", oddObject(r, 0, "params"))
	}
	return append(b, '}')
}

// memberNames returns the names that can occur in the object called parent.
func memberNames(parent string) (names []string) {
	for _, path := range paths {
		for i := 1; i < len(path); i++ {
			if path[i-1] == parent {
				names = append(names, path[i])
			}
		}
	}
	return append(names, "arguments", "x")
}

func oddObject(r *rand.Rand, depth int, parent string) []byte {
	b := []byte{'{'}
	names := memberNames(parent)
	for i := range r.IntN(4) {
		if i > 0 {
			b = append(b, ',')
		}
		name := names[r.IntN(len(names))]
		written := oddName(r, name)
		b = append(append(append(b, oddQuote(r, written)...), ':'), oddValue(r, depth+1, name)...)
	}
	return append(b, '}')
}

func oddValue(r *rand.Rand, depth int, name string) []byte {
	if depth < 4 && (len(memberNames(name)) > 2 || r.IntN(6) == 0) {
		return oddObject(r, depth, name)
	}
	return []byte([]string{`"a"`, `"b"`, `1`, `1.0`, `null`, `"\u0061\u0000"`, `"\ud83d\ude00"`, `"\udc00"`, `[]`, `{"name":"c"}`, `"é\u2028"`}[r.IntN(11)])
}

// oddName returns a variant of a name, but mostly the name itself.
func oddName(r *rand.Rand, name string) string {
	if r.IntN(6) != 0 {
		return name
	}
	swap := strings.NewReplacer([][]string{
		{"s", "ſ"}, {"k", "\u212a"}, {"i", "ı"}, {"i", "İ"}, {"I", "ı"}, {"T", "_t"}, {"I", "_i"}, {"e", "E"}, {"n", "N"}, {"ss", "ß"},
		{"st", "ﬆ"}, {"k", "K"}, {"a", "а"}, {"/", "_"}, {"t", "T"}, {"S", "s"}, {"_", ""}, {"-", "."},
	}[r.IntN(18)]...)
	switch r.IntN(8) {
	case 0:
		return name + "\x00x"
	case 1:
		return "__proto__"
	case 2:
		return strings.ToUpper(name)
	case 3:
		return strings.ToLower(name)
	}
	return swap.Replace(name)
}

// oddQuote quotes a name, sometimes with escapes.
func oddQuote(r *rand.Rand, name string) []byte {
	quoted := Quote(name)
	if len(name) > 0 && name[0] < utf8.RuneSelf && name[0] >= ' ' && r.IntN(6) == 0 {
		return append([]byte(`"\u00`), append([]byte{"0123456789abcdef"[name[0]>>4], "0123456789abcdef"[name[0]&15]}, quoted[2:]...)...)
	}
	return quoted
}
