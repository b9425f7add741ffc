package clientconfig

import (
	"bytes"
	"fmt"

	"github.com/tailscale/hujson"
)

var utf8BOM = []byte("\ufeff")

// parseJSON parses JSON with comments and trailing commas. An empty text is an empty object, as in
// the hosts. The result refers to data.
func parseJSON(data []byte) (*hujson.Value, error) {
	data = bytes.TrimPrefix(data, utf8BOM)
	if err := checkDepth(data); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &hujson.Value{Value: &hujson.Object{}, AfterExtra: hujson.Extra("\n")}, nil
	}
	// The parser refuses a comment at the end without a line break.
	closed := append(data[:len(data):len(data)], '\n')
	v, err := hujson.Parse(closed)
	if err != nil {
		return nil, jsonError(err)
	}
	v.AfterExtra = bytes.TrimSuffix(v.AfterExtra, []byte("\n"))
	return &v, nil
}

// jsonError returns an error of the parser without quoted text.
func jsonError(err error) error {
	e := &SyntaxError{Text: "is not valid JSON"}
	// The parser has no other way to tell the position.
	if n, _ := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &e.Line, &e.Column); n < 2 {
		e.Line, e.Column = 0, 0
	}
	return e
}

// checkDepth refuses too deep nesting: the parser recurses. checkDepth counts brackets outside of
// strings and comments.
func checkDepth(data []byte) error {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i = skipComment(data, i)
		case '{', '[':
			if depth++; depth > maxDepth {
				line := 1 + bytes.Count(data[:i], []byte("\n"))
				return &SyntaxError{
					Line: line, Column: i - bytes.LastIndexByte(data[:i], '\n'),
					Text: fmt.Sprintf("is nested deeper than %d levels", maxDepth),
				}
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// skipComment returns the offset of the last byte of the comment at i, or i.
func skipComment(data []byte, i int) int {
	for _, c := range []struct{ begin, end string }{{"//", "\n"}, {"/*", "*/"}} {
		rest, ok := bytes.CutPrefix(data[i:], []byte(c.begin))
		if !ok {
			continue
		}
		at := bytes.Index(rest, []byte(c.end))
		if at < 0 {
			return len(data)
		}
		return i + len(c.begin) + at + len(c.end) - 1
	}
	return i
}

// readJSON converts a text to a tree. The top level must be an object.
func readJSON(data []byte) (*object, error) {
	v, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	root, ok := fromJSON(v.Value).(*object)
	if !ok {
		return nil, &shapeError{"does not contain a JSON object"}
	}
	return root, nil
}

// fromJSON converts a value of the parser.
func fromJSON(v hujson.ValueTrimmed) any {
	switch v := v.(type) {
	case *hujson.Object:
		o := newObject()
		for _, m := range v.Members {
			o.set(memberName(m), fromJSON(m.Value.Value))
		}
		return o
	case *hujson.Array:
		list := make([]any, len(v.Elements))
		for i, e := range v.Elements {
			list[i] = fromJSON(e.Value)
		}
		return list
	case hujson.Literal:
		switch v.Kind() {
		case '"':
			return v.String()
		case 't', 'f':
			return v.Bool()
		case '0':
			return number(v)
		}
	}
	return nil
}

func memberName(m hujson.ObjectMember) string {
	name, _ := m.Name.Value.(hujson.Literal)
	return name.String()
}
