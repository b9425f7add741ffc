package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// odd has texts that are barely valid JSON, or barely invalid.
var odd = []string{
	``, ` `, `{}`, ` { } `, `{`, `}`, `{,}`, `{"a":1,}`, `{"a" 1}`, `{"a":}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":1}}`, `{"a":1} x`,
	`[]`, `[ ]`, `[,]`, `[1,]`, `[1 2]`, `[1] 2`, `{"a":[{}]}`, `{"a":[{]}}`, `{"a":1,"\u0061":2}`, "{\"a\":1,\n\t\"a\" :\r2}",
	`{"n":[0,-0,01,1.5]}`, `{"n":[-,1]}`, `{"n":1.}`, `{"n":1e5}`, `{"n":1E+05}`, `{"n":1e}`, `{"n":.5}`, `{"n":+1}`, `{"n":-0.0e-0}`, `{"n":-01}`,
	`{"s":"\ud800"}`, `{"s":"\ud83d\ude00"}`, `{"s":"\uD8"}`, `{"s":"\x"}`, `{"s":"\U0041"}`, "{\"s\":\"\x00\"}", "{\"s\":\"1234567\x1f\"}",
	"{\"s\":\"\x7f\xff\"}", "{\"\xff\":1}", "{\"\xff\\n\":1}", `{"s":"12345678\"` + `","t":"1234567\\"}`, `{"s":"é12345678"}`, `{"s":"`, `{"s":"\`,
	`{"a":true,"b":false,"c":null}`, `{"a":tru}`, `{"a":truth}`, `{"a":nul`, "\xef\xbb\xbf{}", "{\"a\":\v1}", "{\"a\":1}\x00", `1`, `"x"`, `nul`, `tru e`,
	`{"a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`,
	`{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`,
	strings.Repeat(`{"a":`, 10000) + `1` + strings.Repeat("}", 10000),
	strings.Repeat(`{"a":`, 10001) + `1` + strings.Repeat("}", 10001),
	strings.Repeat(`[`, 10000) + strings.Repeat("]", 10000),
	strings.Repeat(`[`, 10001) + strings.Repeat("]", 10001),
}

func TestSameAsJsontext(t *testing.T) {
	for _, text := range odd {
		compareScans(t, []byte(text))
	}
}

func FuzzScan(f *testing.F) {
	for _, text := range odd {
		if len(text) < 1000 {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(compareScans)
}

// compareScans checks that our scanner and jsontext agree about raw.
func compareScans(t *testing.T, raw []byte) {
	type pair struct {
		name       string
		start, end int
	}
	var want, got []pair
	wantErr := jsontextMembers(raw, func(name []byte, start, end int) {
		s := string(name[1 : len(name)-1])
		if bytes.IndexByte(name, '\\') >= 0 {
			b, _ := jsontext.AppendUnquote(nil, name)
			s = string(b)
		}
		want = append(want, pair{s, start, end})
	})
	o := walk(raw)
	for o.next() {
		got = append(got, pair{string(o.name()), o.start, o.end})
	}
	if (o.err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
		t.Fatalf("%.200q:\ngot  %v, %v\nwant %v, %v", raw, got, o.err, want, wantErr)
	}
	if errors.Is(o.err, io.ErrUnexpectedEOF) && json.Valid(raw) {
		t.Fatalf("%.200q is cut short?", raw)
	}
	end, f := scanValue(raw, skipSpace(raw, 0), 0)
	valid := f == noFault && checkEnd(raw, end) == nil
	if want := jsontext.Value(raw).IsValid(lenient...); valid != want {
		t.Fatalf("%.200q: valid is %t, want %t", raw, valid, want)
	}
	items, ok, err := split(raw, 1<<20)
	if array := firstByte(raw) == '['; ok != array || array && (err == nil) != valid {
		t.Fatalf("%.200q: %t, %v", raw, ok, err)
	}
	var elements []json.RawMessage
	if ok && err == nil && json.Unmarshal(raw, &elements) == nil {
		if len(items) != len(elements) {
			t.Fatalf("%.200q: %d items, want %d", raw, len(items), len(elements))
		}
		for i := range items {
			if !bytes.Equal(items[i], elements[i]) {
				t.Fatalf("%.200q: item %q, want %q", raw, items[i], elements[i])
			}
		}
		for _, most := range []int{0, len(items) / 2, len(items)} {
			first, more, err := FirstElements(raw, most)
			if err != nil || len(first) != most || more != (most < len(items)) || !reflect.DeepEqual(append([][]byte{}, first...), append([][]byte{}, items[:most]...)) {
				t.Fatalf("%.200q: the first %d are %q, more: %t, %v", raw, most, first, more, err)
			}
		}
	}
	for _, p := range want {
		value, ok := Get(raw, p.name)
		picked := make([][]byte, 2)
		if Pick(raw, []string{"", p.name}, picked); ok != (wantErr == nil) || p.name != "" && !bytes.Equal(value, picked[1]) {
			t.Fatalf("%.200q: %q is %q, %t and %q", raw, p.name, value, ok, picked[1])
		}
	}
}

var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// jsontextMembers calls f for each member of the object raw, with its quoted name.
func jsontextMembers(raw []byte, f func(name []byte, start, end int)) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), lenient...)
	tok, err := d.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return errors.New("not a JSON object")
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		name = bytes.Clone(name)
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		end := int(d.InputOffset())
		f(name, end-len(v), end)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

func TestScanDoesNotAllocate(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t"}}}`)
	if n := testing.AllocsPerRun(100, func() {
		m, err := Parse(raw)
		if _, ok := Get(m.Params, "_meta", "progressToken"); err != nil || !ok {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v objects", n)
	}
}

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{"small": "hello, 17 bytes..", "large": strings.Repeat("hello, \\\"17\\\" bytes.. ", 50_000)} {
		raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"` + text + `"}}}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
