package smoke

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// updateError says why an answer cannot be written as an expectation.
type updateError struct{ reason string }

func (e *updateError) Error() string { return e.reason }

func notUpdatable(format string, args ...any) error {
	return &updateError{fmt.Sprintf(format, args...)}
}

// tomlValue writes a JSON value as TOML, on a single line.
func tomlValue(raw []byte) (string, error) {
	var b strings.Builder
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := writeTOML(&b, d); err != nil {
		return "", err
	}
	return b.String(), nil
}

func writeTOML(b *strings.Builder, d *jsontext.Decoder) error {
	token, err := d.ReadToken()
	if err != nil {
		return notUpdatable("the answer is not JSON")
	}
	switch token.Kind() {
	case '"':
		b.WriteString(tomlString(token.String()))
	case '0':
		return writeNumber(b, token.String())
	case 't', 'f':
		b.WriteString(token.String())
	case 'n':
		return notUpdatable("the answer contains null, which TOML does not have (write it as JSON, under the key with _json at the end)")
	case '[':
		return writeList(b, d)
	case '{':
		return writeTable(b, d)
	}
	return nil
}

func writeList(b *strings.Builder, d *jsontext.Decoder) error {
	b.WriteByte('[')
	for i := 0; d.PeekKind() != ']'; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := writeTOML(b, d); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	_, err := d.ReadToken()
	return err
}

func writeTable(b *strings.Builder, d *jsontext.Decoder) error {
	seen := map[string]bool{}
	b.WriteByte('{')
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return notUpdatable("the answer is not JSON")
		}
		if key := name.String(); !seen[key] {
			seen[key] = true
			b.WriteString(map[bool]string{true: " ", false: ", "}[len(seen) == 1] + tomlKey(key) + " = ")
		} else {
			return notUpdatable("the answer contains an object with two members of the same name")
		}
		if err := writeTOML(b, d); err != nil {
			return err
		}
	}
	if len(seen) > 0 {
		b.WriteByte(' ')
	}
	b.WriteByte('}')
	_, err := d.ReadToken()
	return err
}

func writeNumber(b *strings.Builder, text string) error {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) {
			return notUpdatable("the answer contains the number %s, which TOML does not have", text)
		}
	} else if n, err := strconv.ParseInt(text, 10, 64); err != nil {
		return notUpdatable("the answer contains the number %s, which TOML does not have", text)
	} else {
		text = strconv.FormatInt(n, 10) // -0 would be read as a different value
	}
	b.WriteString(text)
	return nil
}

func tomlKey(key string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if key != "" && strings.IndexFunc(key, func(r rune) bool { return !bare(r) }) < 0 {
		return key
	}
	return quoted(key) // nothing in a key is expanded
}

// tomlString returns text as a TOML string on a line. ${ becomes $${ and {{ becomes \{{, which
// would otherwise be a variable or a reference.
func tomlString(text string) string { return quoted(protected(text)) }

// protected escapes the beginnings of variables and references.
func protected(text string) string {
	return strings.NewReplacer("${", "$${", "{{", `\{{`).Replace(text)
}

// quoted returns text between quotes, with TOML's escapes.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	writeEscaped(&b, text, false)
	b.WriteByte('"')
	return b.String()
}

// tomlText returns text as a TOML string, on several lines if the text has several.
func tomlText(text string) string {
	if strings.Count(text, "\n") < 2 || strings.Contains(text, "\r") {
		return tomlString(text)
	}
	var b strings.Builder
	b.WriteString("\"\"\"\n")
	writeEscaped(&b, protected(text), true)
	b.WriteString(`"""`)
	return b.String()
}

func writeEscaped(b *strings.Builder, text string, lines bool) {
	for _, r := range text {
		switch {
		case r == '\n' && lines:
			b.WriteByte('\n')
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xFFFF && unicode.In(r, unicode.C):
			fmt.Fprintf(b, `\U%08X`, r)
		case unicode.In(r, unicode.C, unicode.Zl, unicode.Zp): // including characters that only change the display
			fmt.Fprintf(b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
}

func tomlStrings(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = tomlString(t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// grouped writes a number with its digits grouped: 50_000_000.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	var parts []string
	for len(text) > 3 {
		parts = append(parts, text[len(text)-3:])
		text = text[:len(text)-3]
	}
	parts = append(parts, text)
	slices.Reverse(parts)
	return strings.Join(parts, "_")
}

// asJSONText updates an expectation in the form of JSON text.
func asJSONText(key string) updater {
	if key != "result" {
		return nil
	}
	return func(a *answer) (string, error) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, a.value()); err != nil {
			return "", notUpdatable("the answer is not JSON")
		}
		text := strings.ReplaceAll(compact.String(), "{{", `\\{{`) // in a string, JSON has no {{ elsewhere
		if !strings.ContainsAny(text, "'\n") {
			return "'" + text + "'", nil
		}
		return quoted(text), nil
	}
}

// memberNames returns the names of the members of a JSON object, in order.
func memberNames(raw []byte) []string {
	var names []string
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return names
		}
		text := name.String()
		if err := d.SkipValue(); err != nil {
			return names
		}
		if !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	return names
}

var errChanged = errors.New("it has changed since it was read (run again)")
