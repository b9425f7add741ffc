package interp

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

func TestReadRequest(t *testing.T) {
	for _, want := range []abi.Request{
		{},
		{Op: abi.OpCheck, Name: "t", Code: "return 1"},
		{Op: abi.OpRun, Name: "a \"name\"", Code: "x = 'é\u2028\U0001F600'\n\treturn \\ \x00\x1f", Params: json.RawMessage(`{"a":[1,{"b":"}]\"\\"},null],"c":1e400}`), Servers: []string{"s", "t_u"}, Memory: 1<<64 - 1},
		{Op: abi.OpRun, Params: json.RawMessage(`12`), Servers: []string{"s"}, AgentTools: []string{"save_tool", "x"}},
		{Op: abi.OpRun, Params: json.RawMessage(`"x"`), Memory: 1},
		{Op: abi.OpRun, Params: json.RawMessage(`[[],{}]`)},
	} {
		message, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(message), " " + strings.ReplaceAll(string(message), `","`, "\" ,\n\"") + "\n"} {
			got, err := ReadRequest([]byte(text))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", text, got, err)
			}
		}
	}
	for _, text := range []string{
		"", "[]", "{", "{}x", `{"op"}`, `{"op":1}`, `{"op":"run"`, `{"op":"run",}`, `{"Op":"run"}`, `{"more":1}`, `{"memory":-1}`, `{"memory":}`,
		`{"memory":99999999999999999999}`, `{"servers":"s"}`, `{"servers":[1]}`, `{"servers":["s"`, `{"agentTools":"s"}`, `{"agentTools":[1]}`, `{"agentTools":["s"`, `{"params":}`, `{"params":{`, `{"params":"a`, `{"params":,}`, `{"params":]}`,
	} {
		if got, err := ReadRequest([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// FuzzReadRequest checks that requests are read as by encoding/json, without panics.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{`{"op":"run","params":{"a":[1,"\\\""]},"servers":["s"],"agentTools":["save_tool"],"memory":5}`, `{"code":"\ud83d\ude00\n"}`, `{"params":tru}`, `{"a":`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadRequest([]byte(text))
		var want abi.Request
		if json.Unmarshal([]byte(text), &want) != nil || err != nil {
			return
		}
		if got.Op != want.Op || got.Name != want.Name || got.Code != want.Code || got.Memory != want.Memory || len(got.Servers) != len(want.Servers) || len(got.AgentTools) != len(want.AgentTools) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	})
}

func TestAppendCalls(t *testing.T) {
	calls := []abi.ToolCall{
		{Server: "s", Tool: "t", Arguments: json.RawMessage(`{"a":"<&>"}`)},
		{Server: "s_1", Tool: "odd \"name\" \\ \u2028 é \x00", Exact: true, Raw: true, Arguments: json.RawMessage(`{}`)},
	}
	for n := range len(calls) + 1 {
		text := AppendCalls([]byte("x"), calls[:n])[1:]
		got := []abi.ToolCall{}
		dec := json.NewDecoder(strings.NewReader(string(text)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&got); err != nil || !reflect.DeepEqual(got, calls[:n:n]) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
