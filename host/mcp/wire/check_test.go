package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestAmbiguousMessages checks the errors for messages that parsers read differently.
// All but the last few are about params.
func TestAmbiguousMessages(t *testing.T) {
	many := `"a0":1`
	for i := 1; i < 100; i++ {
		many += fmt.Sprintf(`,"a%d":1`, i)
	}
	params := []struct{ params, want string }{
		{`{"name":"a","Name":"b"}`, `member "Name" of params is taken for "name"`},
		{`{"Name":"b"}`, `"name"`},
		{`{"NAME":"b","name":"a"}`, `"name"`},
		{`{"name":"a","n\u0041me":"b"}`, `member "n\u0041me" of params`},
		{`{"argumentſ":{}}`, `"arguments"`},
		{`{"argument\u017f":{}}`, `"arguments"`},
		{`{"taskId":"a","tasKId":"b"}`, `"taskId"`}, // the Kelvin sign
		{`{"taskId":"a","tas\u212aId":"b"}`, `"taskId"`},
		{`{"urı":"x"}`, `"uri"`},
		{`{"UR\u0130":"x"}`, `"uri"`},
		{`{"_meta":{"progreßToken":1}}`, `"progressToken"`},
		{`{"requeﬆState":"x"}`, `"requestState"`},
		{`{"task_id":"b"}`, `"taskId"`},
		{`{"task-id":"b"}`, `"taskId"`},
		{`{"Request_State":"b"}`, `"requestState"`},
		{`{"t____________________________________________________________________________askId":"b"}`, `"taskId"`},
		{`{"name\u0000x":"b"}`, `"name"`},
		{`{"_Meta":{}}`, `"_meta"`},
		{`{"meta":{"progressToken":1}}`, `"_meta"`},
		{`{"name":"a","_name":"b"}`, `"name"`},
		{`{"_META":{"progressToken":1}}`, `"_meta"`},
		{`{"_meta":{"ProgressToken":1}}`, `params._meta is taken for "progressToken"`},
		{`{"_meta":{"progress_token":1}}`, `"progressToken"`},
		{`{"_meta":{"io.modelcontextprotocol/Related-Task":{}}}`, `"io.modelcontextprotocol/related-task"`},
		{`{"_meta":{"io_modelcontextprotocol_related_task":{}}}`, `"io.modelcontextprotocol/related-task"`},
		{`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a","TaskId":"b"}}}`, `params._meta.io.modelcontextprotocol/related-task is taken for "taskId"`},
		{`{"_meta":{"IO.github.mcp-metatool/receipt":{}}}`, `"io.github.mcp-metatool/receipt"`},
		{`{"task":{"TTL":1}}`, `"ttl"`},
		{`{"ref":{"type":"ref/prompt","Type":"ref/resource"}}`, `params.ref`},
		{`{"capabilities":{"Sampling":{}}}`, `"sampling"`},
		{`{"capabilities":{"elicitation":{"URL":{}}}}`, `params.capabilities.elicitation`},
		{`{"clientInfo":{"Name":"x"}}`, `params.clientInfo`},
		{`{"name":"a","name":"b"}`, `member "name" appears twice in params`},
		{`{"name":"a","n\u0061me":"a"}`, `member "n\u0061me" appears twice in params`},
		{`{"x":1,"y":{"x":2},"\u0078":2}`, `appears twice in params`},
		{`{` + many + `,"a57":2}`, `member "a57" appears twice in params`},
		{`{"_meta":{"k":1,"k":1}}`, `appears twice in params._meta`},
		{`{"inputResponses":{"k":1,"k":1}}`, `appears twice in params.inputResponses`},
		{`{"\ud800":1}`, `the name "\ud800" of a member of params has half a surrogate pair`},
		{`{"\udc00\ud800":1}`, `half a surrogate pair`},
		{`{"uri":"a\ud800"}`, `the value of member "uri" of params has half a surrogate pair`},
		{`{"taskId":"\ud83d\ud83d\ude00"}`, `half a surrogate pair`},
		{`{"cursor":"\\\ude00"}`, `half a surrogate pair`},
		{`{"__proto__":{"name":"b"}}`, `"__proto__" of params is not allowed`},
		{`{"\u005f_proto__":{"name":"b"}}`, `is not allowed`},
		{`{"_meta":{"__proto__":{"progressToken":1}}}`, `is not allowed`},
		{`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"tasks":{},"tasks":{}}}}`, `"tasks" appears twice in params._meta.clientCapabilities`},
		{`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":{},"x":{}}}}`, `"x" appears twice`},
		{`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{"listChanged":true,"listChanged":false}}}}`, `appears twice in params._meta.clientCapabilities.roots`},
		{`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"a/b":{},"a/b":{}}}}}`, `appears twice in params._meta.clientCapabilities.extensions`},
		{`{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"a","name":"b"}}}`, `"name" appears twice in params._meta.clientInfo`},
		{`{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"a","Name":"b"}}}`, `is taken for "name"`},
		{`{"capabilities":{"extensions":{"a/b":{},"a/b":{}}}}`, `appears twice in params.capabilities.extensions`},
	}
	for _, tt := range params {
		for _, raw := range []string{
			`{"jsonrpc":"2.0","id":7,"method":"m","params":` + tt.params + `}`,
			`{"params":` + tt.params + `,"method":"m","jsonrpc":"2.0"}`,
		} {
			m, err := Parse([]byte(raw))
			var e *RPCError
			if !errors.As(err, &e) || e.Code != CodeInvalidParams || !strings.Contains(e.Message, tt.want) {
				t.Errorf("%s: %v, want %s", raw, err, tt.want)
			}
			if m.Method != "m" || m.IsRequest() != strings.Contains(raw, `"id"`) {
				t.Errorf("%s: parsed as %q", raw, m)
			}
		}
	}
	for _, tt := range []struct{ raw, want string }{
		{`{"jsonrpc":"2.0","id":7,"method":"m","Method":"n"}`, `"method"`},
		{`{"jsonrpc":"2.0","id":7,"ID":8,"method":"m"}`, `"id"`},
		{`{"jsonrpc":"2.0","id":7,"method":"m","ParamS":{}}`, `"params"`},
		{`{"jsonrpc":"2.0","id":7,"method":"m","paramſ":{}}`, `"params"`},
		{`{"jsonrpc":"2.0","JSONRPC":"2.0","id":7,"method":"m"}`, `"jsonrpc"`},
		{`{"jsonrpc":"2.0","id":7,"result":{},"Result":{}}`, `"result"`},
		{`{"jsonrpc":"2.0","id":7,"error":{"code":1,"Code":2}}`, `"code"`},
		{`{"jsonrpc":"2.0","id":7,"x":1,"x":2,"method":"m"}`, `appears twice in the message`},
		{`{"jsonrpc":"2.0","id":7,"result":{"isError":false,"IsError":true}}`, `member "IsError" of result`},
		{`{"jsonrpc":"2.0","id":7,"result":{"task":{"taskId":"a","TaskId":"b"}}}`, `result.task`},
		{`{"jsonrpc":"2.0","id":7,"result":{"tools":[],"tools":[{}]}}`, `appears twice in result`},
		{`{"jsonrpc":"2.0","id":7,"result":{"nextCursor":"\ud800"}}`, `half a surrogate pair`},
	} {
		_, err := Parse([]byte(tt.raw))
		var e *RPCError
		if !errors.As(err, &e) || e.Code != CodeInvalidRequest || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s: %v, want %s", tt.raw, err, tt.want)
		}
	}
}

// TestUnambiguousMessages checks that messages that look odd but are unambiguous are
// accepted.
func TestUnambiguousMessages(t *testing.T) {
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"name":"a","arguments":{"name":"a","Name":"b","x":1,"x":2,"__proto__":{},"\ud800":1},"_meta":{"é":1,"É":2,"e\u0301":3}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":{"Name":"b","name":1,"name":2},"nam":1,"names":2,"metas":null,"_":1,"__":2}}`,
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"uri":"\ud83d\ude00\u0000","data":"\ud800","x":"\udc00"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"m","params":["Name","name"]}`,
		`{"jsonrpc":"2.0","id":7,"result":{"is_error":null,"meta":null,"structured_content":null,"structuredContent":{"Name":1,"name":2,"a":1,"a":2}}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"a","Name":"b"}],"content":[{"type":"text","Type":"x"}]}}`,
		`{"jsonrpc":"2.0","id":7,"result":[{"isError":1,"IsError":2}]}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m","data":{"code":1,"Code":2}}}`,
	} {
		if _, err := Parse([]byte(raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestParseRepaired(t *testing.T) {
	m, err := ParseRepaired([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"a\xff\xfeb\xc3\"}}"))
	if err != nil || string(m.Result) != "{\"x\":\"a\uFFFDb\uFFFD\"}" {
		t.Errorf("got %q, %v", m.Result, err)
	}
	// Names that become the same by the repair count as repeated.
	if _, err := ParseRepaired([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"\xff\":1,\"\xfe\":2}}")); err == nil {
		t.Error("two names that became one")
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		shape *Shape
		obj   string
		want  string // "" for none
	}{
		{MetaShape, ` {"traceparent":"x","k":{"progressToken":1,"ProgressToken":2}} `, ""},
		{MetaShape, `{"PROGRESSTOKEN":1}`, `"progressToken"`},
		{MetaShape, `{"k":1,"k":2}`, "twice"},
		{MetaShape, `{"io.modelcontextprotocol/clientCapabilities":{"tasks":{},"tasks":{}}}`, "twice"},
		{MetaShape, `[]`, "not a JSON object"},
		{MetaShape, ``, "not a JSON object"},
		{MetaShape, `{"k":1`, "unexpected EOF"},
		{MetaShape, `{"k":1}{}`, "more than one"},
		{ItemShape, `{"name":"a","inputSchema":{"type":"object","Type":"x"},"x":1}`, ""},
		{ItemShape, `{"name":"a","Name":"b"}`, `"name"`},
		{ItemShape, `{"name":"\udc00"}`, "half"},
		{TaskShape, `{"taskId":"a","STATUS":"x"}`, `"status"`},
		{ExtensionTaskShape, `{"taskId":"a","Result":{}}`, `"result"`},
		{ExtensionTaskShape, `{"taskId":"a","result":{"content":[],"Content":[]}}`, `"content"`},
		{ExtensionTaskShape, `{"taskId":"a","error":{"code":1,"Code":2}}`, `"code"`},
		{ExtensionTaskShape, `{"taskId":"a","inputRequests":{"k":{},"k":{}}}`, "twice"},
		{ElicitationShape, `{"elicitationId":"a","elicitationID":"x"}`, `"elicitationId"`},
	} {
		err := tt.shape.Check([]byte(tt.obj))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.obj, err, tt.want)
		}
		if ambiguous := strings.HasPrefix(tt.want, `"`); ambiguous && !errors.Is(err, ErrAmbiguous) {
			t.Errorf("%s: %v is not ErrAmbiguous", tt.obj, err)
		}
	}
}
