package interp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
)

func TestDecodeJSON(t *testing.T) {
	for text, want := range map[string]string{
		` { } `:                        `{}`,
		`[ ]`:                          `[]`,
		"\t[1 ,\r\n2]\n":               `[1, 2]`,
		`{"b":1,"a":2,"b":3}`:          `{'b': 3, 'a': 2}`,
		`{"":0,"\u0061":1,"é":2}`:      `{'': 0, 'a': 1, 'é': 2}`,
		`-0`:                           `0`,
		`-0.0`:                         `-0.0`,
		`1e2`:                          `100.0`,
		`1E-2`:                         `0.01`,
		`0`:                            `0`,
		`999999999999999999`:           `999999999999999999`,
		`-999999999999999999`:          `-999999999999999999`,
		`9223372036854775808`:          `9223372036854775808`,
		`-123456789012345678901234567`: `-123456789012345678901234567`,
		`1e-400`:                       `0.0`,
		`[true,false,null]`:            `[True, False, None]`,
		`"\"\\\/\b\f\n\r\t"`:           `'"\\/\x08\x0c\n\r\t'`,
		`"\u00e9\uD83D\uDE00"`:         `'é😀'`,
		`"\ud83d"`:                     `'` + "\uFFFD" + `'`,
		`"\ude00\ud83d"`:               `'` + "\uFFFD\uFFFD" + `'`,
		`"\ud83dx"`:                    `'` + "\uFFFD" + `x'`,
		`"\ud83d\u0041"`:               `'` + "\uFFFD" + `A'`,
		`"\ud83d\ud83d\ude00"`:         `'` + "\uFFFD" + `😀'`,
		"\"a\xffb\"":                   `'a` + "\uFFFD" + `b'`,
		"\"\xff\\n\"":                  `'` + "\uFFFD" + `\n'`,
		"\"\xed\xa0\x80\"":             `'` + strings.Repeat("\uFFFD", 3) + `'`,
		"{\"\xff\":1}":                 `{'` + "\uFFFD" + `': 1}`,
		"\"\x7f\u2028\"":               "\"\x7f\u2028\"",
		strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth): strings.Repeat("[", abi.MaxDepth) + strings.Repeat("]", abi.MaxDepth),
	} {
		v, err := decodeJSON([]byte(text))
		if err != nil {
			t.Errorf("%.60s: %v", text, err)
			continue
		}
		got := repr(v)
		if want == "\"\x7f\u2028\"" { // only the value matters here
			got = `"` + string(v.(starlark.String)) + `"`
		}
		if got != want {
			t.Errorf("%.60s: got %.60s, want %.60s", text, got, want)
		}
	}
}

func TestDecodeJSONErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  `at offset 0: unexpected end where a value should be`,
		` `:                                 `at offset 1: unexpected end where a value should be`,
		`{`:                                 `at offset 1: unexpected end where a key should be`,
		`{"a"}`:                             `at offset 4: unexpected '}' after a key`,
		`{"a":1,}`:                          `at offset 7: unexpected '}' where a key should be`,
		`{"a":1 "b"`:                        `at offset 7: unexpected '"' in an object`,
		`{1:2}`:                             `at offset 1: unexpected '1' where a key should be`,
		`[1,]`:                              `at offset 3: unexpected ']' where a value should be`,
		`[1 2]`:                             `at offset 3: unexpected '2' in an array`,
		`[`:                                 `at offset 1: unexpected end where a value should be`,
		`tru`:                               `at offset 0: unexpected 't' where a value should be`,
		`nulll`:                             `at offset 4: unexpected 'l' after the value`,
		`NaN`:                               `at offset 0: unexpected 'N' where a value should be`,
		`-`:                                 `at offset 1: unexpected end in a number`,
		`+1`:                                `at offset 0: unexpected '+' where a value should be`,
		`01`:                                `at offset 0: a number has a leading zero`,
		`-01`:                               `at offset 1: a number has a leading zero`,
		`1.`:                                `at offset 2: unexpected end in a number`,
		`.5`:                                `at offset 0: unexpected '.' where a value should be`,
		`1e`:                                `at offset 2: unexpected end in a number`,
		`1e+x`:                              `at offset 3: unexpected 'x' in a number`,
		`1e400`:                             `at offset 0: a number is too large for a float`,
		`"abc`:                              `at offset 4: a string is not closed`,
		`"abc\`:                             `at offset 5: a string is not closed`,
		`"a\`:                               `at offset 3: a string is not closed`,
		"\"a\nb\"":                          `at offset 2: control character '\n' in a string`,
		`"a\qb"`:                            `at offset 2: bad escape in a string`,
		`"\u12"`:                            `at offset 1: bad escape in a string`,
		`"\u12G4"`:                          `at offset 1: bad escape in a string`,
		`{"\x":1}`:                          `at offset 2: bad escape in a string`,
		`1 é`:                               `at offset 2: unexpected 'é' after the value`,
		strings.Repeat("[", abi.MaxDepth+1): fmt.Sprintf(`at offset %d: nested deeper than %d levels, a fixed limit`, abi.MaxDepth, abi.MaxDepth),
		strings.Repeat(`{"a":`, 100000):     fmt.Sprintf(`at offset %d: nested deeper than %d levels, a fixed limit`, 5*abi.MaxDepth, abi.MaxDepth),
	} {
		v, err := decodeJSON([]byte(text))
		if err == nil {
			t.Errorf("%.60s: got %s, want an error", text, repr(v))
		} else if got := strings.TrimPrefix(err.Error(), "invalid JSON "); got != want {
			t.Errorf("%.60s: got %q, want %q", text, got, want)
		}
	}
}

// TestDecodedKeysAreShared checks that keys with the same slot in the cache are not
// confused.
func TestDecodedKeysAreShared(t *testing.T) {
	v, err := decodeJSON([]byte(`[{"name":1,"mane":2},{"name":3,"mane":4},{"mane":5,"name":6}]`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := repr(v), `[{'name': 1, 'mane': 2}, {'name': 3, 'mane': 4}, {'mane': 5, 'name': 6}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEncodeJSONRejects(t *testing.T) {
	deep := starlark.NewList(nil)
	for range abi.MaxDepth - 1 {
		deep = starlark.NewList([]starlark.Value{deep})
	}
	if _, err := encodeJSON("result", deep); err != nil {
		t.Errorf("the deepest allowed: %v", err)
	}
	if _, err := encodeJSON("result", starlark.NewList([]starlark.Value{deep})); err == nil {
		t.Error("one level deeper: no error")
	}
	cycle := starlark.NewList(nil)
	if err := cycle.Append(starlark.Tuple{cycle}); err != nil {
		t.Fatal(err)
	}
	if _, err := encodeJSON("result", cycle); err == nil || err.Error() != "result[0][0]: it is part of itself" {
		t.Errorf("cycle: %v", err)
	}
}

func TestEncodeTooLarge(t *testing.T) {
	shared := starlark.NewList([]starlark.Value{starlark.String("0123456789")})
	for range 20 { // a million strings in 20 lists
		shared = starlark.NewList([]starlark.Value{shared, shared})
	}
	numbers, err := starlark.Call(&starlark.Thread{}, starlark.Universe["range"], starlark.Tuple{starlark.MakeInt(1 << 40)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []starlark.Value{shared, numbers} {
		text, err := encodeWithin(1000, "result", v)
		if !errors.Is(err, errTooLarge) || text != nil {
			t.Errorf("%.20s: %.20q, %v", v.Type(), text, err)
		}
	}
	if _, err := encodeWithin(1000, "result", starlark.Tuple{starlark.String("x")}); err != nil {
		t.Error(err)
	}
	r := &run{}
	err = r.encodeFailed("json.encode", fmt.Errorf("value: %w", errTooLarge))
	if out := r.scriptError(err); out.Type != abi.ErrResource {
		t.Errorf("got %+v", out)
	}
	if out := r.resultError(fmt.Errorf("result: %w", errTooLarge)); out.Type != abi.ErrResource {
		t.Errorf("got %+v", out)
	}
}

// jsonSeeds are texts for the fuzz targets.
var jsonSeeds = []string{
	`{"a":[1,2.5,-0,1e3,"\u00e9\ud83d\ude00\ud800",true,false,null],"a":{}}`, `"\u0000\u001f\u2028"`, `[123456789012345678901234567890]`,
	"\"\xff\xed\xa0\x80\"", `[[[[]]]]`, `{"":{"":{}}}`, `1.7976931348623157e308`, `5e-324`, `-1E+2`, `[1,]`, `"\ud83d\u`, ` 1 `,
}

// FuzzDecodeJSON compares with encoding/json, and with itself after encoding.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decodeJSON(data)
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var want any
		wantErr := dec.Decode(&want)
		if wantErr == nil && dec.More() || !json.Valid(data) {
			wantErr = fmt.Errorf("not one value")
		}
		if wantErr == nil && err != nil && (strings.Contains(err.Error(), "nested deeper") || strings.Contains(err.Error(), "too large")) {
			return // limits that only we have
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: got error %v, encoding/json %v", data, err, wantErr)
		}
		if err != nil {
			return
		}
		if err := sameJSON(v, want); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		text, err := encodeJSON("value", v)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if !json.Valid(text) {
			t.Fatalf("%q was encoded as %q", data, text)
		}
		again, err := decodeJSON(text)
		if err != nil {
			t.Fatalf("%q was encoded as %q: %v", data, text, err)
		}
		if repr(again) != repr(v) {
			t.Fatalf("%q: %s came back as %s", data, repr(v), repr(again))
		}
		if laidOut := indent(string(data), "", "  "); !json.Valid([]byte(laidOut)) {
			t.Fatalf("%q was indented as %q", data, laidOut)
		}
	})
}

// sameJSON compares a decoded value with the one from encoding/json.
func sameJSON(v starlark.Value, want any) error {
	mismatch := fmt.Errorf("got %s, want %v", repr(v), want)
	switch v := v.(type) {
	case starlark.NoneType:
		if want != nil {
			return mismatch
		}
	case starlark.Bool:
		if want != bool(v) {
			return mismatch
		}
	case starlark.String:
		if want != string(v) {
			return mismatch
		}
	case starlark.Int:
		n, _ := want.(json.Number)
		if i, ok := new(big.Int).SetString(n.String(), 10); !ok || v.BigInt().Cmp(i) != 0 {
			return mismatch
		}
	case starlark.Float:
		n, _ := want.(json.Number)
		if f, err := n.Float64(); err != nil || f != float64(v) || !strings.ContainsAny(n.String(), ".eE") {
			return mismatch
		}
	case *starlark.List:
		list, ok := want.([]any)
		if !ok || len(list) != v.Len() {
			return mismatch
		}
		for i, w := range list {
			if err := sameJSON(v.Index(i), w); err != nil {
				return err
			}
		}
	case Object:
		object, ok := want.(map[string]any)
		if !ok || len(object) != v.Len() {
			return mismatch
		}
		for k, e := range v.Entries() {
			w, ok := object[string(k.(starlark.String))]
			if !ok {
				return mismatch
			}
			if err := sameJSON(e, w); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("unexpected %T", v)
	}
	return nil
}

// FuzzAppendString checks string encoding against encoding/json's reading of it.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "abc", "\x00\x1f\"\\", "é\xff\u2028", "😀\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if want := string([]rune(s)); back != want {
			t.Fatalf("%q: got %q, want %q", s, back, want)
		}
	})
}
