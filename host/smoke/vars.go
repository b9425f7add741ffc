package smoke

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// value is the value of a reference.
type value struct {
	raw []byte // JSON
	err error  // why the value is unknown
}

// errNoReference is the error for a reference in a place without references.
var errNoReference = errors.New(`cannot refer to other values (write \{{ for a literal {{)`)

func noReference(string) ([]byte, error) { return nil, errNoReference }

// captureError is why the value of a reference is not known: no check has captured the value.
type captureError struct {
	name string
	from *Check // captures the value
	why  string // such as "that check has failed"
}

func (e *captureError) Error() string {
	return fmt.Sprintf("{{%s}} is not known: %s should have captured it, but %s", e.name, e.from.label(), e.why)
}

// notYet is the reason of a captureError while the file is read.
const notYet = "it has not run yet"

// ParseVar reads NAME=VALUE. A VALUE in JSON has the JSON value; any other VALUE is text.
func ParseVar(text string) (name string, raw []byte, err error) {
	name, written, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return "", nil, errors.New("want NAME=VALUE")
	case !config.IsReferenceName(name):
		return "", nil, fmt.Errorf("%q is not the name of a variable (use letters, digits, _ and -, and begin with a letter)", name)
	}
	return name, config.ValueOf(written), nil
}

// secretTexts returns the secret texts in a value, judging by the value's name and the names of its
// members. Numbers are as written. The value is read as tokens, since the value may be a server's
// answer of any size.
func secretTexts(name string, raw []byte) []string {
	r := secretReader{text: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	r.value(config.LooksSecret(name))
	return r.found
}

type secretReader struct {
	text  *jsontext.Decoder
	found []string
}

// value reads a value, and reports success.
func (r *secretReader) value(secret bool) bool {
	tok, err := r.text.ReadToken()
	if err != nil {
		return false
	}
	switch tok.Kind() {
	case '"', '0':
		if secret {
			r.found = append(r.found, tok.String())
		}
	case '{', '[':
		end := tok.Kind() + 2 // in ASCII
		for r.text.PeekKind() != end {
			inner := secret
			if end == '}' {
				name, err := r.text.ReadToken()
				if err != nil {
					return false
				}
				inner = secret || config.LooksSecret(name.String())
			}
			if !r.value(inner) {
				return false
			}
		}
		_, err = r.text.ReadToken()
	}
	return err == nil
}

// filling returns how references in the table of a check are replaced. captured returns the values
// that checks have captured.
func (r *fileReader) filling(from *source, c *Check, captured func(name string) ([]byte, error)) config.Filling {
	c.uses = map[string]int{}
	return config.Filling{
		Skip:     []string{"code", "capture", "rows"},
		Verbatim: []string{"name", "server", "call"},
		JSONText: isJSONText,
		Value: func(name string) ([]byte, error) {
			c.uses[name]++
			if v, ok := from.row.values[name]; ok {
				return v.raw, v.err
			}
			if v, ok := r.file.vars[name]; ok {
				return v.raw, v.err
			}
			if at, ok := r.file.captures[name]; ok && at.order < from.order {
				if !slices.Contains(c.needs, name) {
					c.needs = append(c.needs, name)
				}
				return captured(name)
			}
			return nil, r.unknown(from, name)
		},
	}
}

// isJSONText reports whether a key in the table of a check is for JSON text.
func isJSONText(key string) bool {
	key, ok := strings.CutSuffix(key, "_json")
	if !ok {
		return false
	}
	of, member, nested := strings.Cut(key, ".")
	of, _, _ = strings.Cut(of, "[")
	return !nested || !strings.Contains(member, ".") && (of == "expect" || of == "mock")
}

// unknown returns the error for a reference without a value.
func (r *fileReader) unknown(from *source, name string) error {
	if at, ok := r.file.captures[name]; ok {
		if at.order == from.order {
			return fmt.Errorf("{{%s}} is captured by this very check (only later checks can refer to it)", name)
		}
		return fmt.Errorf("{{%s}} is captured only later, on line %d (move that check up)", name, at.line)
	}
	var known []string
	for _, of := range []map[string]value{from.row.values, r.file.vars} {
		for n := range of {
			known = append(known, n)
		}
	}
	for n, at := range r.file.captures {
		if at.order < from.order {
			known = append(known, n)
		}
	}
	slices.Sort(known)
	if from.row.columns[name] {
		return fmt.Errorf("row %d has no %q", from.row.number, name)
	}
	return fmt.Errorf("there is no variable %q%s; set it in [vars] or with --var %s=VALUE, or capture it in a check before", name, hint(name, slices.Compact(known)), name)
}

// secretOf is secretTexts for a value that is a secret as a whole.
func secretOf(raw []byte) []string {
	if text, ok := wire.Text(raw); ok {
		return []string{text}
	}
	return append(secretTexts("secret", raw), string(raw))
}
