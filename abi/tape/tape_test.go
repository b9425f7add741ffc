package tape_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/tape"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// reader reads a tape and checks that everything in it is where it may be.
type reader struct {
	t     testing.TB
	words []uint32
	bytes []byte
}

func newReader(t testing.TB, encoded []byte) *reader {
	t.Helper()
	n := int(binary.LittleEndian.Uint32(encoded))
	if n < 1+tape.SlotWords || 4*n > len(encoded) {
		t.Fatalf("%d words in %d bytes", n, len(encoded))
	}
	r := &reader{t: t, bytes: encoded[4*n:]}
	for i := range n {
		r.words = append(r.words, binary.LittleEndian.Uint32(encoded[4*i:]))
	}
	return r
}

func (r *reader) string(length, offset uint32) string {
	r.t.Helper()
	if uint64(length)+uint64(offset) > uint64(len(r.bytes)) {
		r.t.Fatalf("%d bytes at %d of %d", length, offset, len(r.bytes))
	}
	return string(r.bytes[offset : offset+length])
}

// member is one of an object, whose order matters.
type member struct {
	key   string
	value any
}

func (r *reader) value(slot uint32) any {
	a, b := r.words[slot], r.words[slot+1]
	rest := a >> tape.TagBits
	switch tape.Tag(a & (1<<tape.TagBits - 1)) {
	case tape.Null:
		return nil
	case tape.True:
		return true
	case tape.False:
		return false
	case tape.Int:
		return json.Number(strconv.Itoa(int(int32(b))))
	case tape.BigInt:
		return json.Number(r.string(rest, b))
	case tape.Float:
		return math.Float64frombits(uint64(r.words[b]) | uint64(r.words[b+1])<<32)
	case tape.String:
		return r.string(rest, b)
	case tape.List:
		list := []any{}
		for i := range rest {
			list = append(list, r.value(b+i*tape.SlotWords))
		}
		return list
	case tape.Dict:
		members := []member{}
		n := r.words[rest]
		for i := range n {
			at := rest + 1 + n + i*tape.KeyWords
			key := r.string(r.words[at], r.words[at+1])
			if r.words[rest+1+i] != tape.Signature(key) {
				r.t.Errorf("the signature of %q is %x", key, r.words[rest+1+i])
			}
			members = append(members, member{key, r.value(b + i*tape.SlotWords)})
		}
		return members
	}
	r.t.Fatalf("tag %d", a)
	return nil
}

var errFloat = errors.New("a number that is too large")

// decode is the same with encoding/json.
func decode(d *json.Decoder) (any, error) {
	token, err := d.Token()
	switch token := token.(type) {
	case json.Number:
		if strings.ContainsAny(string(token), ".eE") {
			f, err := strconv.ParseFloat(string(token), 64)
			if err != nil {
				return nil, errFloat
			}
			return f, nil
		}
		if token == "-0" {
			return json.Number("0"), nil
		}
		return token, nil
	case json.Delim:
		if token == '[' {
			list := []any{}
			for d.More() {
				v, err := decode(d)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, err
		}
		return decodeObject(d)
	}
	return token, err
}

func decodeObject(d *json.Decoder) (any, error) {
	members := []member{}
	at := map[string]int{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decode(d)
		if err != nil {
			return nil, err
		}
		k := key.(string)
		if i, ok := at[k]; ok {
			members[i].value = v
			continue
		}
		at[k] = len(members)
		members = append(members, member{k, v})
	}
	_, err := d.Token()
	return members, err
}

// check compares the tape of a text with what encoding/json makes of it.
func check(t testing.TB, text []byte) (ok bool) {
	t.Helper()
	encoded, ok := tape.Encode(text)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	want, err := decode(d)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			err = nil
		} else if err == nil {
			err = errors.New("more than one value")
		}
	}
	switch {
	case ok && !json.Valid(text):
		t.Fatalf("%.200q is not valid and has a tape", text)
	case ok && err != nil:
		t.Fatalf("%.200q has a tape: %v", text, err)
	case !ok && err == nil && json.Valid(text) && depth(text) <= abi.MaxDepth && len(text) <= tape.MaxText:
		if 40*len(text) < 1024 { // else it may be too large
			t.Fatalf("%.200q has no tape", text)
		}
		return false
	case !ok:
		return false
	}
	if got := newReader(t, encoded).value(tape.Root); !reflect.DeepEqual(got, want) {
		t.Fatalf("%.200q: the tape has %.500v, want %.500v", text, got, want)
	}
	if len(encoded) > 4*len(text)+1024 {
		t.Errorf("a tape of %d bytes for %d", len(encoded), len(text))
	}
	return true
}

func depth(text []byte) (deepest int) {
	d := json.NewDecoder(bytes.NewReader(text))
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
			deepest = max(deepest, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
}

var texts = []string{
	`null`, `true`, `false`, `-0`, `-0.0`, `1.5e-400`, `1e999`, `[1e999]`, `01`, `2147483647`, `2147483648`, `-2147483648`, `-2147483649`, strings.Repeat("7", 4000),
	`"\ud83d\ude00\ud83d\u0041\ude00"`, `"\ud83d\ud83d\ude00"`, "\"\xff\xc3\\u00a9\xe2\x82\"", `"\ud83d\uzz"`, `"\u00`, "\"\x1f\"", "\"\u2028\x7f\"",
	`{"a":1,"b":{"a":2},"a":[{"a":3,"b":4,"\u0061":5}],"":0,"":1}`, `[{},{"x":[]},{"x":{}}]`, `{"a":1,}`, `[1,]`, `[1}`, `{"a":1]`, `{"a" 1}`, "[1\v]", `{} {}`, ``,
	strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001),
}

func TestEncode(t *testing.T) {
	tapes := 0
	for _, text := range texts {
		if check(t, []byte(text)) {
			tapes++
		}
	}
	if tapes != 19 {
		t.Errorf("%d of %d texts have a tape", tapes, len(texts))
	}
	if _, ok := tape.Encode([]byte(`"` + strings.Repeat("a", tape.MaxText) + `"`)); ok {
		t.Error("a text that is too long has a tape")
	}
}

// TestEncodeIsLinear checks that no form of JSON takes much more memory than others: many
// keys, many shapes, many equal keys.
func TestEncodeIsLinear(t *testing.T) {
	many := func(open, element, end string) []byte {
		var b bytes.Buffer
		b.WriteString(open)
		for i := 0; b.Len() < 1<<20; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strings.ReplaceAll(element, "#", strconv.Itoa(i)))
		}
		return append(b.Bytes(), end...)
	}
	for name, text := range map[string][]byte{
		"numbers": many("[", "0", "]"), "empty": many("[", "[]", "]"), "floats": many("[", "0.5", "]"), "keys": many("{", `"#":0`, "}"), "equal keys": many("{", `"":0`, "}"),
		"shapes": many("[", `{"#":0}`, "]"), "shapes of two": many("[", `{"a":0,"#":0}`, "]"), "strings": many("[", `""`, "]"), "escapes": many("[", `"\u00e9"`, "]"), "bad UTF-8": many("[", "\"\xff\xff\xff\xff\"", "]"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		encoded, _ := tape.Encode(text)
		runtime.ReadMemStats(&after)
		if len(encoded) > 4*len(text)+1024 {
			t.Errorf("%s: %d bytes become %d", name, len(text), len(encoded))
		}
		if used, most := after.TotalAlloc-before.TotalAlloc, uint64(120*len(text)); used > most {
			t.Errorf("%s: %d bytes of memory, want at most %d", name, used, most)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { check(t, text) })
}

func ExampleEncode() {
	encoded, ok := tape.Encode([]byte(`[1]`))
	fmt.Println(len(encoded), ok)
	// Output: 20 true
}
