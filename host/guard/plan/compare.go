package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Difference is where something is not as planned.
type Difference struct {
	Pointer      string // JSON pointer (RFC 6901)
	Planned, Now string // JSON or the name of a member, shortened; "" for nothing
}

func (d *Difference) Error() string {
	at := ""
	if d.Pointer != "" {
		at = "at " + display.Line(d.Pointer, 200) + " "
	}
	return fmt.Sprintf("%sthe plan has %s, and now there is %s", at, cmp.Or(d.Planned, "nothing"), cmp.Or(d.Now, "nothing"))
}

// maxShown limits each side of a Difference, in code points.
const maxShown = 300

// errSpaced means that the script's text would have other bytes than the plan.
var errSpaced = errors.New("there is white space between its values, which the plan does not have")

// comparison compares JSON of a plan with the current JSON of the script, as tokens: no values are
// built.
type comparison struct {
	// answer returns the answer of a write to which the plan refers, nil if not known. A nil
	// function means that the plan has no references to answers.
	answer func(write int) []byte
	// decoded means that the plan side is an answer, which scripts pass on decoded: escapes and the
	// text of numbers make no difference. The order of members does.
	decoded bool
	at      jsontext.Pointer // of the compared values
}

// compare returns the first difference of two texts, nil if the bytes are the same without the white
// space of the plan, and with the answers in place of references.
func (c comparison) compare(planned, now []byte) (*Difference, error) {
	switch {
	case bytes.Equal(planned, now) && !bytes.Contains(planned, []byte(RefMember)) && !bytes.ContainsRune(planned, '\\'):
		return nil, badJSON(planned)
	case len(planned) == 0 || len(now) == 0:
		return &Difference{string(c.at), display.Line(string(planned), maxShown), display.Line(string(now), maxShown)}, nil
	case !json.Valid(now): // values in a row have no brackets that show where they end
		return nil, errors.New("not JSON")
	}
	a, b := partsOf(planned), partsOf(now)
	for {
		x, err := a.next()
		if err != nil {
			return nil, err
		}
		if c.answer != nil && string(x) == "{" {
			write, err := a.reference()
			if err != nil {
				return nil, err
			}
			if write > 0 {
				if d, err := c.answered(write, a, b); d != nil || err != nil {
					return d, err
				}
				continue
			}
		}
		y, err := b.next()
		switch {
		case err != nil:
			return nil, err
		case b.spaced:
			return nil, errSpaced
		case !c.same(x, y):
			return c.differ(a, b, x, y), nil
		case x == nil: // the end of both
			return nil, nil
		}
	}
}

// answered compares the answer of a write with the next value of the script.
func (c comparison) answered(write int, a, b *parts) (*Difference, error) {
	at := c.at + a.pointer()
	now, err := b.value()
	if err != nil {
		return nil, err
	}
	known := c.answer(write)
	if known == nil || now == nil {
		wanted := fmt.Sprintf("the answer of write %d", write)
		if known == nil {
			wanted += ", which is not known"
		}
		return &Difference{string(at), wanted, display.Line(string(now), maxShown)}, nil
	}
	d, err := comparison{decoded: true, at: at}.compare(known, now)
	if err != nil {
		err = fmt.Errorf("the answer of write %d: %w", write, err)
	}
	return d, err
}

// same reports whether two parts are the same.
func (c comparison) same(x, y []byte) bool {
	switch {
	case bytes.Equal(x, y):
		return true
	case !c.decoded || len(x) == 0 || len(y) == 0:
		return false
	case x[0] == '"' && y[0] == '"':
		return unquoted(x) == unquoted(y)
	}
	return sameNumber(string(x), string(y))
}

// unquoted decodes a string as a guest does: invalid Unicode becomes U+FFFD.
func unquoted(raw []byte) string {
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

// sameNumber reports whether a script gets the same number from two literals: the same
// integer, or the same float.
func sameNumber(a, b string) bool {
	isFloat := func(s string) bool { return strings.ContainsAny(s, ".eE") }
	if isFloat(a) != isFloat(b) {
		return false
	}
	if !isFloat(a) {
		return a == b || strings.TrimPrefix(a, "-") == "0" && strings.TrimPrefix(b, "-") == "0"
	}
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && math.Float64bits(x) == math.Float64bits(y)
}

// differ describes the difference of two parts.
func (c comparison) differ(a, b *parts, x, y []byte) *Difference {
	at := b.pointer()
	switch planned, now := a.show(x), b.show(y); {
	case now == "":
		return &Difference{string(c.at + a.pointer()), a.member(x, planned), ""}
	case planned == "":
		return &Difference{string(c.at + at), "", b.member(y, now)}
	case a.isName(x) && b.isName(y):
		return &Difference{string(c.at + at.Parent()), planned, now}
	default:
		return &Difference{string(c.at + at), planned, now}
	}
}

// parts are the brackets, names, and values without parts of a JSON text, in their order.
type parts struct {
	d      *jsontext.Decoder
	text   []byte
	end    int64  // of the last part
	held   []byte // a part that was read, and comes next again
	spaced bool   // the text had white space
}

func partsOf(text []byte) *parts {
	return &parts{text: text, d: jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// next returns the next part; nil at the end. The result aliases the text.
func (p *parts) next() (part []byte, err error) {
	if part, p.held = p.held, nil; part != nil {
		return part, nil
	}
	size := 1
	switch p.d.PeekKind() {
	case '{', '}', '[', ']':
		_, err = p.d.ReadToken()
	default:
		var v jsontext.Value
		v, err = p.d.ReadValue()
		size = len(v)
	}
	switch {
	case errors.Is(err, io.EOF):
		return p.took(int64(len(p.text)), 0), nil
	case err != nil:
		return nil, fmt.Errorf("not JSON: %w", err)
	case p.d.StackDepth() > maxDepth:
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	return p.took(p.d.InputOffset(), size), nil
}

// took notes that a part was read, and returns the part.
func (p *parts) took(end int64, size int) []byte {
	start := end - int64(size)
	p.spaced = p.spaced || bytes.ContainsAny(p.text[p.end:start], " \t\r\n")
	p.end = end
	if size == 0 {
		return nil
	}
	return p.text[start:end]
}

// value returns the next value with all its parts; nil for none.
func (p *parts) value() ([]byte, error) {
	switch p.d.PeekKind() {
	case '}', ']':
		return nil, nil
	}
	v, err := p.d.ReadValue()
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return p.took(p.d.InputOffset(), len(v)), nil
}

// reference reads the rest of an object whose bracket was read, if the object is a reference, and
// returns the number of the write; 0 for another object.
func (p *parts) reference() (write int, err error) {
	if p.d.PeekKind() != '"' {
		return 0, nil
	}
	name, err := p.next()
	if err != nil {
		return 0, err
	}
	if unquoted(name) != RefMember {
		p.held = name
		return 0, nil
	}
	number, err := p.next()
	if err != nil {
		return 0, err
	}
	last, err := p.next()
	if err == nil && (!isNumber(string(number)) || string(last) != "}") {
		err = fmt.Errorf("a member %s that is no reference", RefMember)
	}
	write, _ = strconv.Atoi(string(number))
	return write, err
}

// pointer returns where the last part is.
func (p *parts) pointer() jsontext.Pointer {
	at := p.d.StackPointer()
	if p.held != nil {
		return at.Parent()
	}
	return at
}

// isName reports whether the last part is the name of a member.
func (p *parts) isName(part []byte) bool {
	kind, n := p.d.StackIndex(p.d.StackDepth())
	return len(part) > 0 && part[0] == '"' && kind == '{' && n%2 == 1
}

// show returns the last part for readers, a value with its parts; "" for a closing bracket.
func (p *parts) show(part []byte) string {
	switch string(part) {
	case "", "}", "]":
		return ""
	case "{", "[":
		start := p.end - 1
		if p.held != nil {
			start = int64(bytes.LastIndexByte(p.text[:p.end-int64(len(p.held))], part[0]))
		}
		rest := partsOf(p.text[start:])
		if whole, err := rest.value(); err == nil {
			part = whole
		}
	}
	text := display.Line(string(part), maxShown)
	if p.isName(part) {
		return "a member " + text
	}
	return text
}

// member returns the value of a member whose name is the last part, for readers; otherwise shown.
func (p *parts) member(part []byte, shown string) string {
	if !p.isName(part) {
		return shown
	}
	v, _ := p.value()
	return display.Line(string(v), maxShown)
}

// RefMember is the only member of a reference: {"$withheld": 2} is the answer of write 2.
const RefMember = "$withheld"

// errForged is the error for a script that uses RefMember itself, in imitation of a reference.
var errForged = fmt.Errorf("a member called %s is in it, which would look like the answer of a write", RefMember)

// withRefs returns JSON of a script with references in place of the strings that stand for withheld
// answers, and the numbers of the references.
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

// badRefs returns the mistake in JSON of a plan, in which references must be complete, and to
// writes up to the last. Of several members with the same name, none may be a reference.
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

// badJSON returns why JSON cannot be part of a plan.
func badJSON(raw []byte) error {
	return readTokens(raw, func(*jsontext.Decoder, string) error { return nil })
}

// readTokens reads JSON of a foreign plan, without values for its parts. named is called after the
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

// maxDepth is the deepest nesting in the JSON of plans. JSON from scripts is less deep.
const maxDepth = 1200
