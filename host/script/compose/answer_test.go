package compose

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

func TestAnswerValue(t *testing.T) {
	text := func(s string) string { return `{"content":[{"type":"text","text":` + string(wire.Quote(s)) + `}]}` }
	tests := []struct {
		name, result, want string
	}{
		{"structured content first", `{"content":[{"type":"text","text":"x"}],"structuredContent":{"id":9007199254740993}}`, `{"id":9007199254740993}`},
		{"structured content of any kind", `{"structuredContent":[1.50],"content":[]}`, `[1.50]`},
		{"structured content null", `{"structuredContent":null,"content":[{"type":"text","text":"x"}]}`, `"x"`},
		{"object", text(` {"b":1.10,"a":12345678901234567890} ` + "\n"), `{"b":1.10,"a":12345678901234567890}`},
		{"array", text(`[1, 2]`), `[1, 2]`},
		{"string in quotes", text(`"a b"`), `"a b"`},
		{"integer", text(`5`), `5`},
		{"large integer", text(`123456789012345678901234567890`), `123456789012345678901234567890`},
		{"negative", text(`-7`), `-7`},
		{"fraction", text(`0.25`), `0.25`},
		{"true", text(`true`), `true`},
		{"null", text(`null`), `null`},
		{"version stays text", text(`1.10`), `"1.10"`},
		{"exponent stays text", text(`1e5`), `"1e5"`},
		{"hash stays text", text(`12345e67`), `"12345e67"`},
		{"leading zero stays text", text(`007`), `"007"`},
		{"minus zero stays text", text(`-0`), `"-0"`},
		{"file content stays text", text("5\n"), `"5\n"`},
		{"space around null stays text", text(" null"), `" null"`},
		{"empty", text(``), `""`},
		{"blank", text(" \n"), `" \n"`},
		{"prose", text(`The sum is 5.`), `"The sum is 5."`},
		{"two values", text(`{} {}`), `"{} {}"`},
		{"cut short", text(`{"a":`), `"{\"a\":"`},
		{"two blocks", `{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}`, `[{"type":"text","text":"1"},{"type":"text","text":"2"}]`},
		{"image", `{"content":[{"type":"image","data":"aa==","mimeType":"image/png","x":1}]}`, `[{"type":"image","data":"aa==","mimeType":"image/png","x":1}]`},
		{"no blocks", `{"content":[]}`, `[]`},
		{"text is no string", `{"content":[{"type":"text","text":5}]}`, `[{"type":"text","text":5}]`},
		{"block is no object", `{"content":[5]}`, `[5]`},
		{"content is no array", `{"content":5}`, `5`},
		{"no content", `{"x":1}`, `null`},
		{"case matters", `{"StructuredContent":1,"content":[]}`, `[]`},
		{"isError false", `{"isError":false,"content":[]}`, `[]`},
		{"deep text stays text", text(strings.Repeat("[", 1001) + strings.Repeat("]", 1001)), `"` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `"`},
		{"invalid UTF-8", "{\"content\":[{\"type\":\"text\",\"text\":\"a\xff\xfeb\"}]}", `"a` + "\uFFFD" + `b"`},
		{"invalid UTF-8 in structured content", "{\"structuredContent\":{\"\xff\":\"\xc3\"}}", `{"` + "\uFFFD" + `":"` + "\uFFFD" + `"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := answerOf(&stack.Request{}, wire.Reply{Result: []byte(tt.result)})
			if got.Err != nil || string(got.Value) != tt.want {
				t.Errorf("value = %s (%+v), want %s", got.Value, got.Err, tt.want)
			}
		})
	}
}

func TestAnswerRaw(t *testing.T) {
	for _, result := range []string{
		`{"content":[{"type":"text","text":"5"}],"_meta":{"k":1},"future":[1.0]}`,
		`{"isError":true,"content":[]}`,
	} {
		got := answerOf(&stack.Request{ToolCall: abi.ToolCall{Raw: true}}, wire.Reply{Result: []byte(result)})
		if got.Err != nil || string(got.Value) != result {
			t.Errorf("raw value = %s (%+v), want %s", got.Value, got.Err, result)
		}
	}
}

func TestAnswerError(t *testing.T) {
	tests := []struct {
		name             string
		reply            wire.Reply
		message, details string
	}{
		{"isError", wire.Reply{Result: []byte(`{"isError":true,"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}`)},
			"a\nb", `[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]`},
		{"isError with structured content", wire.Reply{Result: []byte(`{"isError": true ,"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1.0}}`)},
			"a", `{"n":1.0}`},
		{"isError without text", wire.Reply{Result: []byte(`{"isError":true}`)}, "the tool reported an error without a message", ``},
		{"rpc error", wire.Reply{Error: []byte(`{"code":-32602,"message":"no such thing","data":{"x":9007199254740993},"more":1}`)},
			"no such thing", `{"code":-32602,"data":{"x":9007199254740993}}`},
		{"rpc error without message", wire.Reply{Error: []byte(`{"code":1e400}`)}, "the server answered with an error that cannot be read", `{"code":1e400}`},
		{"rpc error of odd kind", wire.Reply{Error: []byte(`"x"`)}, "the server answered with an error that cannot be read", ``},
		{"result of odd kind", wire.Reply{Result: []byte(`[]`)}, "the server's answer is not a JSON object", ``},
		{"nothing", wire.Reply{}, "the server's answer is not a JSON object", ``},
		{"too deep", wire.Reply{Result: []byte(`{"structuredContent":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`)},
			"the server's answer is nested deeper than 1000 levels, a fixed limit", ``},
		{"details that no strict reader takes", wire.Reply{Error: []byte(`{"code":1,"message":"m","data":{"a":1,"a":2}}`)}, "m", ``},
		{"lone surrogate", wire.Reply{Error: []byte(`{"code":1,"message":"m","data":"\ud800"}`)}, "m", ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := answerOf(&stack.Request{Server: "s", Tool: "t"}, tt.reply)
			if got.Value != nil || got.Err == nil {
				t.Fatalf("answer = %+v", got)
			}
			if e := got.Err; e.Type != abi.ErrTool || e.Server != "s" || e.Tool != "t" || e.Message != tt.message || string(e.Details) != tt.details {
				t.Errorf("error = %+v with details %s\nwant %q, %s", e, e.Details, tt.message, tt.details)
			}
			if deep := tt.name == "too deep"; (got.Err.Limit == abi.LimitDepth) != deep {
				t.Errorf("limit %q", got.Err.Limit)
			}
		})
	}
	long := answerOf(&stack.Request{}, wire.Reply{Error: []byte(`{"message":"` + strings.Repeat("é", 1<<20) + `"}`)}).Err.Message
	if len(long) > maxCallMessage+100 || !utf8.ValidString(long) || !strings.HasSuffix(long, "… (2097152 bytes)") {
		t.Errorf("long message has %d bytes, ends %q", len(long), long[len(long)-40:])
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"content":[{"type":"text","text":"{\"a\":1}"}]}`, `{"isError":true,"content":[{"text":"x"}]}`,
		"{\"structuredContent\":\"\xff\"}", `{"content":[{"type":"text","text":"\ud800"}]}`, `{"code":1,"message":"\u0000"}`, `{`, ``} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, rpcError bool) {
		if !wire.IsObject(raw) {
			return // package wire accepts nothing else
		}
		reply := wire.Reply{Result: raw}
		if rpcError {
			reply = wire.Reply{Error: raw}
		}
		a := answerOf(&stack.Request{Server: "s", Tool: "t"}, reply)
		if (a.Err == nil) == (a.Value == nil) {
			t.Fatalf("neither or both of value and error: %+v", a)
		}
		for _, v := range [][]byte{a.Value, detailsOf(a.Err)} {
			if v != nil && (!json.Valid(v) || !utf8.Valid(v)) {
				t.Fatalf("%q made %q", raw, v)
			}
		}
	})
}

func detailsOf(e *abi.CallError) []byte {
	if e == nil {
		return nil
	}
	return e.Details
}
