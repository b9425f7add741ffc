package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// RefMember is the only member of a reference: {"$withheld": 2} is the answer of write 2.
const RefMember = "$withheld"

// errForged says that a script uses RefMember itself, which would look like a reference.
var errForged = fmt.Errorf("a member called %s is in it, which would look like the answer of a write", RefMember)

// withRefs returns JSON of a script in which strings that stand for withheld answers are
// references, and the numbers of these.
func withRefs(raw []byte, marker string) (out jsontext.Value, refs []int, err error) {
	if raw == nil {
		return nil, nil, nil
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
	for {
		kind, n := d.StackIndex(d.StackDepth())
		tok, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSuffix(b.Bytes(), []byte("\n")), refs, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if tok.Kind() == '"' {
			text := tok.String()
			number, marked := strings.CutPrefix(text, marker)
			switch {
			case kind == '{' && n%2 == 0:
				if text == RefMember {
					return nil, nil, errForged
				}
			case marked && isNumber(number):
				write, _ := strconv.Atoi(number)
				refs = append(refs, write)
				if err := e.WriteValue(fmt.Appendf(nil, `{%q:%d}`, RefMember, write)); err != nil {
					return nil, nil, err
				}
				continue
			}
		}
		if err := e.WriteToken(tok); err != nil {
			return nil, nil, err
		}
	}
}

// isNumber reports whether text is the decimal number of a write.
func isNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0 && strconv.Itoa(n) == text
}

// refOf returns the number of the write to whose answer a value refers; 0 if it is no
// reference.
func refOf(v any) int {
	o, ok := v.(map[string]any)
	if !ok || len(o) != 1 {
		return 0
	}
	number, ok := o[RefMember].(json.Number)
	if !ok || !isNumber(string(number)) {
		return 0
	}
	n, _ := strconv.Atoi(string(number))
	return n
}

// badRefs returns what is wrong with the references in JSON of a plan: they must be
// complete, and to writes up to the last one.
func badRefs(raw []byte, last int) error {
	v, err := tree(raw)
	if err != nil {
		return err
	}
	var walk func(v any) error
	walk = func(v any) error {
		if n := refOf(v); n > last {
			return fmt.Errorf("a reference to write %d, which is not before it", n)
		} else if n > 0 {
			return nil
		}
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				if name == RefMember {
					return fmt.Errorf("a member %s that is no reference", RefMember)
				}
				if err := walk(member); err != nil {
					return err
				}
			}
		case []any:
			for _, item := range v {
				if err := walk(item); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk(v)
}

// maxDepth is how deep the JSON of plans may be nested. What scripts pass on is less deep.
const maxDepth = 1200

// tree decodes JSON as a guest does: of equal names the last one counts, and what is no
// Unicode is U+FFFD. Numbers keep their text.
func tree(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if depth(v) > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	return v, nil
}

// depth returns how deep a value is nested. encoding/json has refused more than 10000.
func depth(v any) (deepest int) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			deepest = max(deepest, depth(member)+1)
		}
	case []any:
		for _, item := range v {
			deepest = max(deepest, depth(item)+1)
		}
	}
	return deepest
}

// Difference is where something is not as planned.
type Difference struct {
	Pointer      string // JSON pointer (RFC 6901)
	Planned, Now string // JSON, shortened; "" for nothing
}

func (d *Difference) Error() string {
	or := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return s
	}
	at := ""
	if d.Pointer != "" {
		at = "at " + display.Line(d.Pointer, 200) + " "
	}
	return fmt.Sprintf("%sthe plan has %s, and now there is %s", at, or(d.Planned), or(d.Now))
}

// maxShown limits each side of a Difference, in code points.
const maxShown = 300

func differ(pointer string, planned, now any) *Difference {
	show := func(v any) string { return display.Line(string(wire.Marshal(v)), maxShown) }
	return &Difference{pointer, show(planned), show(now)}
}

// compare compares JSON of a plan with what the script has now. answer returns the answer
// of a write to which the plan refers. The order of members does not matter, and nothing
// else is left out.
func compare(planned, now []byte, answer func(write int) (any, bool)) (*Difference, error) {
	a, err := tree(planned)
	if err != nil {
		return nil, err
	}
	b, err := tree(now)
	if err != nil {
		return nil, err
	}
	return compareValues("", a, b, answer), nil
}

func compareValues(at string, planned, now any, answer func(int) (any, bool)) *Difference {
	if n := refOf(planned); n > 0 && answer != nil {
		known, ok := answer(n)
		if !ok {
			return &Difference{at, fmt.Sprintf("the answer of write %d, which is not known", n), display.Line(string(wire.Marshal(now)), maxShown)}
		}
		return compareValues(at, known, now, nil) // an answer cannot refer to others
	}
	switch a := planned.(type) {
	case json.Number:
		if b, ok := now.(json.Number); ok && sameNumber(string(a), string(b)) {
			return nil
		}
	case map[string]any:
		if b, ok := now.(map[string]any); ok {
			return compareObjects(at, a, b, answer)
		}
	case []any:
		if b, ok := now.([]any); ok {
			return compareArrays(at, a, b, answer)
		}
	default: // text, booleans, null
		switch now.(type) {
		case string, bool, nil:
			if planned == now {
				return nil
			}
		}
	}
	return differ(at, planned, now)
}

func compareObjects(at string, a, b map[string]any, answer func(int) (any, bool)) *Difference {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		here := at + "/" + jsontext.Pointer("").AppendToken(name).LastToken()
		other, ok := b[name]
		if !ok {
			d := differ(here, a[name], nil)
			d.Now = ""
			return d
		}
		if d := compareValues(here, a[name], other, answer); d != nil {
			return d
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			d := differ(at+"/"+name, nil, b[name])
			d.Planned = ""
			return d
		}
	}
	return nil
}

func compareArrays(at string, a, b []any, answer func(int) (any, bool)) *Difference {
	for i := range min(len(a), len(b)) {
		if d := compareValues(at+"/"+strconv.Itoa(i), a[i], b[i], answer); d != nil {
			return d
		}
	}
	switch {
	case len(a) > len(b):
		d := differ(at+"/"+strconv.Itoa(len(b)), a[len(b)], nil)
		d.Now = ""
		return d
	case len(b) > len(a):
		d := differ(at+"/"+strconv.Itoa(len(a)), nil, b[len(a)])
		d.Planned = ""
		return d
	}
	return nil
}

// sameNumber reports whether a script gets the same number from two literals: the same
// integer, or the same float.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	isFloat := func(s string) bool { return strings.ContainsAny(s, ".eE") }
	if isFloat(a) != isFloat(b) {
		return false
	}
	if !isFloat(a) {
		return strings.TrimPrefix(a, "-") == "0" && strings.TrimPrefix(b, "-") == "0"
	}
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && x == y
}
