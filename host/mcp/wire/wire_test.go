package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, in string
		want     Message
		code     int
		msg      string // substring of the error
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a": 1}}`,
			Message{ID: []byte("1"), Method: "tools/call", Params: []byte(`{"a": 1}`)}, 0, ""},
		{"string id kept raw", `{"id":"\u0061b","method":"ping","jsonrpc":"2.0"}`,
			Message{ID: []byte(`"\u0061b"`), Method: "ping"}, 0, ""},
		{"huge integer id", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}`,
			Message{ID: []byte("123456789012345678901234567890"), Method: "ping"}, 0, ""},
		{"notification", `{"jsonrpc":"2.0","method":"n"}`, Message{Method: "n"}, 0, ""},
		{"escaped member name", `{"jsonrpc":"2.0","m\u0065thod":"n"}`, Message{Method: "n"}, 0, ""},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"x":1e400}}`,
			Message{ID: []byte("1"), Result: []byte(`{"x":1e400}`)}, 0, ""},
		{"null result", `{"jsonrpc":"2.0","id":1,"result":null}`,
			Message{ID: []byte("1"), Result: []byte(`null`)}, 0, ""},
		{"error", `{"jsonrpc":"2.0","id":"x","error":{"code":1}}`,
			Message{ID: []byte(`"x"`), Error: []byte(`{"code":1}`)}, 0, ""},
		{"error without readable id", `{"jsonrpc":"2.0","id":null,"error":{}}`,
			Message{ID: []byte(`null`), Error: []byte(`{}`)}, 0, ""},

		{"empty", ``, Message{}, CodeParse, "parse error"},
		{"cut short", `{"jsonrpc":"2.0","id":1,`, Message{}, CodeParse, "unexpected EOF"},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"x"} 1`, Message{}, CodeParse, "parse error"},
		{"array", `[1]`, Message{}, CodeInvalidRequest, "a message is a JSON object"},
		{"broken array", `[1`, Message{}, CodeParse, "parse error"},
		{"no version", `{"id":7,"method":"x"}`, Message{ID: []byte("7"), Method: "x"}, CodeInvalidRequest, "jsonrpc"},
		{"old version", `{"id":7,"method":"x","jsonrpc":"1.0"}`, Message{ID: []byte("7"), Method: "x"}, CodeInvalidRequest, "jsonrpc"},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"x\":\"\xff\"}}", Message{}, CodeParse, "not UTF-8"},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"x"}`, Message{}, CodeInvalidRequest, "id must be"},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"x"}`, Message{}, CodeInvalidRequest, "id must be"},
		{"method type", `{"jsonrpc":"2.0","id":1,"method":5}`, Message{ID: []byte("1")}, CodeInvalidRequest, "method must be"},
		{"params type", `{"jsonrpc":"2.0","id":1,"method":"x","params":5}`,
			Message{ID: []byte("1"), Method: "x", Params: []byte("5")}, CodeInvalidRequest, "params must be"},
		{"both outcomes", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`,
			Message{ID: []byte("1"), Result: []byte("1"), Error: []byte("{}")}, CodeInvalidRequest, "exactly one"},
		{"nothing", `{"jsonrpc":"2.0","id":1}`, Message{ID: []byte("1")}, CodeInvalidRequest, "exactly one"},
		{"response without id", `{"jsonrpc":"2.0","result":1}`, Message{Result: []byte("1")}, CodeInvalidRequest, "needs an id"},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`,
			Message{ID: []byte("2"), Method: "x"}, CodeInvalidRequest, `"id" appears twice`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.in))
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("message = %+q, want %+q", got, tt.want)
			}
			var e *RPCError
			switch {
			case tt.code == 0 && err != nil:
				t.Fatalf("error = %v", err)
			case tt.code != 0 && (!errors.As(err, &e) || e.Code != tt.code || !strings.Contains(e.Message, tt.msg)):
				t.Fatalf("error = %v, want code %d with %q", err, tt.code, tt.msg)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	items, ok, err := Split([]byte(` [ {"a":1} , 2,"x,]" ] `))
	if err != nil || !ok || string(bytes.Join(items, []byte("|"))) != `{"a":1}|2|"x,]"` {
		t.Errorf("got %q %v %v", items, ok, err)
	}
	if _, ok, _ := Split([]byte(`{"a":1}`)); ok {
		t.Error("an object is no batch")
	}
	if _, ok, err := Split([]byte("[" + strings.Repeat("1,", maxBatch) + "1]")); !ok || err == nil {
		t.Error("a batch of more than the most messages")
	}
	for _, bad := range []string{`[1,`, `[1] 2`, `[1 2]`, `[`} {
		if _, ok, err := Split([]byte(bad)); !ok || err == nil {
			t.Errorf("Split(%q) = %v, %v; want an error", bad, ok, err)
		}
	}
}

func TestIDKey(t *testing.T) {
	if IDKey([]byte(`1`)) == IDKey([]byte(`"1"`)) {
		t.Error("the number 1 and the string 1 are different ids")
	}
	if IDKey([]byte(`"\u0061"`)) != IDKey([]byte(`"a"`)) {
		t.Error("two spellings of one string are one id")
	}
}

func TestEdit(t *testing.T) {
	const obj = `{ "z":1, "_meta" : {"k":9007199254740993,"progressToken":"a"} ,"z":2}`
	tests := []struct {
		name string
		f    func() ([]byte, error)
		want string
	}{
		{"replace deep", func() ([]byte, error) { return Set([]byte(obj), []byte("7"), "_meta", "progressToken") },
			`{ "z":1, "_meta" : {"k":9007199254740993,"progressToken":7} ,"z":2}`},
		{"last duplicate wins", func() ([]byte, error) { return Set([]byte(obj), []byte("3"), "z") },
			`{  "_meta" : {"k":9007199254740993,"progressToken":"a"} ,"z":3}`},
		{"earlier duplicates go", func() ([]byte, error) { return Set([]byte(`{"a":1,"b":0,"a":2,"a":3}`), []byte("4"), "a") },
			`{"b":0,"a":4}`},
		{"add", func() ([]byte, error) { return Set([]byte(`{"a":1 }`), []byte("3"), "b", "c") }, `{"a":1 ,"b":{"c":3}}`},
		{"add to empty", func() ([]byte, error) { return Set([]byte(`{ }`), []byte("3"), "b") }, `{ "b":3}`},
		{"add to nothing", func() ([]byte, error) { return Set(nil, []byte("3"), "b", "c") }, `{"b":{"c":3}}`},
		{"delete deep", func() ([]byte, error) { return Delete([]byte(obj), "_meta", "progressToken") },
			`{ "z":1, "_meta" : {"k":9007199254740993} ,"z":2}`},
		{"delete all duplicates", func() ([]byte, error) { return Delete([]byte(obj), "z") },
			`{  "_meta" : {"k":9007199254740993,"progressToken":"a"} }`},
		{"delete only member", func() ([]byte, error) { return Delete([]byte(`{"a":1}`), "a") }, `{}`},
		{"delete nothing", func() ([]byte, error) { return Delete([]byte(`{"a":1}`), "b", "c") }, `{"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.f()
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
			}
		})
	}
	for _, bad := range []string{`[]`, `5`, `{"a":5}`, `{"a"`} {
		if got, err := Set([]byte(bad), []byte("1"), "a", "b"); err == nil {
			t.Errorf("Set in %s gave %s", bad, got)
		}
	}
	if v, ok := Get([]byte(obj), "z"); !ok || string(v) != "2" {
		t.Errorf("Get = %s, %v", v, ok)
	}
	if _, ok := Get([]byte(obj), "z", "y"); ok {
		t.Error("found a member of a number")
	}
	if s, ok := GetString([]byte(`{"a":"\u00e9\n"}`), "a"); !ok || s != "é\n" {
		t.Errorf("GetString = %q, %v", s, ok)
	}
}

func TestBuild(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{string(Request(7, "tools/call", []byte(`{"a":1}`))), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":1}}`},
		{string(Notification("x\"y", nil)), `{"jsonrpc":"2.0","method":"x\"y"}`},
		{string(Response([]byte(`"a"`), Reply{Result: []byte(`{}`)})), `{"jsonrpc":"2.0","id":"a","result":{}}`},
		{string(Response(nil, Reply{Error: Errorf(CodeParse, "<no>").Raw()})), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"<no>"}}`},
	} {
		if tt.got != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	r := NewReader(strings.NewReader("one\n\r\n  \ntwo\r\n"+long+"\nthree\n"+long[:100<<10]+"\nlast"), 100<<10)
	for _, want := range []string{"one", "two", "!", "three", long[:100<<10], "last"} {
		got, err := r.Read()
		var large *TooLargeError
		if want == "!" {
			if !errors.As(err, &large) || large.Limit != 100<<10 {
				t.Fatalf("got %d bytes, %v; want a TooLargeError", len(got), err)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Fatalf("got %.20q (%d), %v; want %.20q", got, len(got), err, want)
		}
	}
	if _, err := r.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	r = NewReader(strings.NewReader(long), 10)
	var large *TooLargeError
	if _, err := r.Read(); !errors.As(err, &large) {
		t.Errorf("unterminated large line: %v", err)
	}
	if _, err := r.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("behind it: %v", err)
	}
}
