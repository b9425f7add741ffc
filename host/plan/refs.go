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
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
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

// badRefs returns what is wrong with JSON of a plan, in which references must be complete, and to
// writes up to the last one. Of several members with the same name, none may be a reference.
func badRefs(raw []byte, last int) error {
	return readTokens(raw, func(d *jsontext.Decoder, name string) error {
		if name != RefMember {
			return nil
		}
		_, before := d.StackIndex(d.StackDepth())
		number, err := d.ReadToken()
		if err != nil {
			return err
		}
		if before != 1 || number.Kind() != '0' || !isNumber(number.String()) || d.PeekKind() != '}' {
			return fmt.Errorf("a member %s that is no reference", RefMember)
		}
		if n, _ := strconv.Atoi(number.String()); n > last {
			return fmt.Errorf("a reference to write %d, which is not before it", n)
		}
		return nil
	})
}

// badJSON returns why JSON cannot be that of a plan.
func badJSON(raw []byte) error {
	return readTokens(raw, func(*jsontext.Decoder, string) error { return nil })
}

// readTokens reads JSON of a plan, of others, without values for its parts. named is called after the
// name of each member was read.
func readTokens(raw []byte, named func(d *jsontext.Decoder, name string) error) error {
	if len(raw) == 0 {
		return nil
	}
	if !json.Valid(raw) {
		return errors.New("not JSON")
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		kind, n := d.StackIndex(d.StackDepth())
		tok, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("not JSON: %w", err)
		case d.StackDepth() > maxDepth:
			return fmt.Errorf("nested deeper than %d levels", maxDepth)
		case kind == '{' && n%2 == 0 && tok.Kind() == '"':
			if err := named(d, tok.String()); err != nil {
				return err
			}
		}
	}
}

// maxDepth is how deep the JSON of plans may be nested. What scripts pass on is less deep.
const maxDepth = 1200

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

// comparison compares JSON of a plan with what the script has now.
type comparison struct {
	room jsonvalue.Room // has the memory of the values; nil: they must be small
	// answer returns the answer of a write to which the plan refers, nil if it is not known.
	answer func(write int) []byte
	trees  []*jsonvalue.Tree
	known  map[int]any // answers
}

// compare compares two texts. The order of members does not matter, and nothing else is left out.
func (c comparison) compare(planned, now []byte) (*Difference, error) {
	if bytes.Equal(planned, now) && !bytes.Contains(planned, []byte(RefMember)) && !bytes.ContainsRune(planned, '\\') {
		return nil, badJSON(planned)
	}
	defer func() {
		for _, t := range c.trees {
			t.Free()
		}
	}()
	c.known = map[int]any{}
	a, err := c.tree(planned)
	if err != nil {
		return nil, err
	}
	b, err := c.tree(now)
	if err != nil {
		return nil, err
	}
	return c.values("", a, b)
}

// tree decodes JSON as a guest does: of equal names the last one counts, and what is no
// Unicode is U+FFFD. Numbers keep their text.
func (c *comparison) tree(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	t, err := jsonvalue.Options{Room: c.room, Depth: maxDepth}.Decode(raw)
	if err != nil {
		return nil, err
	}
	c.trees = append(c.trees, t)
	return t.Value, nil
}

// answered returns the answer of a write.
func (c *comparison) answered(write int) (v any, ok bool, err error) {
	if v, ok = c.known[write]; ok {
		return v, true, nil
	}
	raw := c.answer(write)
	if raw == nil {
		return nil, false, nil
	}
	if v, err = c.tree(raw); err != nil {
		return nil, false, fmt.Errorf("the answer of write %d: %w", write, err)
	}
	c.known[write] = v
	return v, true, nil
}

func (c *comparison) values(at string, planned, now any) (*Difference, error) {
	if n := refOf(planned); n > 0 && c.answer != nil {
		known, ok, err := c.answered(n)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return &Difference{at, fmt.Sprintf("the answer of write %d, which is not known", n), display.Line(string(wire.Marshal(now)), maxShown)}, nil
		}
		plain := comparison{} // an answer cannot refer to others
		return plain.values(at, known, now)
	}
	switch a := planned.(type) {
	case json.Number:
		if b, ok := now.(json.Number); ok && sameNumber(string(a), string(b)) {
			return nil, nil
		}
	case map[string]any:
		if b, ok := now.(map[string]any); ok {
			return c.objects(at, a, b)
		}
	case []any:
		if b, ok := now.([]any); ok {
			return c.arrays(at, a, b)
		}
	default: // text, booleans, null
		switch now.(type) {
		case string, bool, nil:
			if planned == now {
				return nil, nil
			}
		}
	}
	return differ(at, planned, now), nil
}

func (c *comparison) objects(at string, a, b map[string]any) (*Difference, error) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		here := at + "/" + jsontext.Pointer("").AppendToken(name).LastToken()
		other, ok := b[name]
		if !ok {
			d := differ(here, a[name], nil)
			d.Now = ""
			return d, nil
		}
		if d, err := c.values(here, a[name], other); d != nil || err != nil {
			return d, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			d := differ(at+"/"+name, nil, b[name])
			d.Planned = ""
			return d, nil
		}
	}
	return nil, nil
}

func (c *comparison) arrays(at string, a, b []any) (*Difference, error) {
	for i := range min(len(a), len(b)) {
		if d, err := c.values(at+"/"+strconv.Itoa(i), a[i], b[i]); d != nil || err != nil {
			return d, err
		}
	}
	switch {
	case len(a) > len(b):
		d := differ(at+"/"+strconv.Itoa(len(b)), a[len(b)], nil)
		d.Now = ""
		return d, nil
	case len(b) > len(a):
		d := differ(at+"/"+strconv.Itoa(len(a)), nil, b[len(a)])
		d.Planned = ""
		return d, nil
	}
	return nil, nil
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
