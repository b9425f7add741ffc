package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

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
