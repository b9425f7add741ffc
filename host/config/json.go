package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// parseJSON parses a file's text into a tree. Numbers stay as they are written. A
// duplicate key is an error.
func parseJSON(data []byte) (*node, *Problem) {
	data = bytes.TrimPrefix(data, utf8BOM)
	j := &jsonFile{data: data, dec: jsontext.NewDecoder(bytes.NewReader(data))}
	root, err := j.value()
	if err == nil {
		_, err = j.dec.ReadToken()
		if err == nil {
			return nil, j.problem(j.dec.InputOffset(), errors.New("there is more after the end of the configuration"))
		}
		if errors.Is(err, io.EOF) {
			return root, nil
		}
	}
	var syntax *jsontext.SyntacticError
	switch {
	case !errors.As(err, &syntax):
		return nil, j.problem(j.dec.InputOffset(), err)
	case errors.Is(err, jsontext.ErrDuplicateName):
		problem := j.problem(syntax.ByteOffset, err)
		problem.Text = fmt.Sprintf("key %q has already been defined", syntax.JSONPointer.LastToken())
		return nil, problem
	default:
		return nil, j.problem(syntax.ByteOffset, syntax.Err)
	}
}

// jsonFile is a JSON text that is being read.
type jsonFile struct {
	data []byte
	dec  *jsontext.Decoder
}

func (j *jsonFile) problem(offset int64, err error) *Problem {
	line, column := lineColumn(j.data, int(offset))
	text := "the text ends too early"
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		text = withoutQuotes(strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return &Problem{Line: line, Column: column, Text: text}
}

// value reads the next value. The decoder bounds the nesting depth.
func (j *jsonFile) value() (*node, error) {
	tok, err := j.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &node{pos: j.position(j.dec.InputOffset())}
	switch tok.Kind() {
	case '{':
		n.kind = kindTable
		return n, j.object(n)
	case '[':
		n.kind = kindArray
		for j.dec.PeekKind() != ']' {
			item, err := j.value()
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		_, err := j.dec.ReadToken()
		return n, err
	case '"':
		n.kind, n.text = kindString, tok.String()
	case '0':
		n.kind, n.text = kindInteger, tok.String()
		if strings.ContainsAny(n.text, ".eE") {
			n.kind = kindFloat
		}
	case 'n':
		n.kind, n.text = kindNull, tok.String()
	default:
		n.kind, n.text = kindBool, tok.String()
	}
	return n, nil
}

// object reads the members of an object and its closing brace.
func (j *jsonFile) object(n *node) error {
	n.fields = map[string]*node{}
	for j.dec.PeekKind() != '}' {
		tok, err := j.dec.ReadToken()
		if err != nil {
			return err
		}
		key := tok.String()
		keyPos := j.position(j.dec.InputOffset())
		v, err := j.value()
		if err != nil {
			return err
		}
		v.pos = keyPos
		n.keys = append(n.keys, key)
		n.fields[key] = v
	}
	_, err := j.dec.ReadToken()
	return err
}

// position returns a function that returns where the token that ends at offset end
// begins.
func (j *jsonFile) position(end int64) func() (line, column int) {
	return func() (int, int) {
		// Quotes within a string are escaped. So the opening quote is the first one,
		// going back, that follows an even number of backslashes.
		at := int(end) - 1
		if j.data[at] == '"' {
			for at--; at > 0 && (j.data[at] != '"' || backslashes(j.data[:at])%2 == 1); at-- {
			}
		}
		return lineColumn(j.data, at)
	}
}

// backslashes returns how many backslashes data ends in.
func backslashes(data []byte) int {
	return len(data) - len(bytes.TrimRight(data, `\`))
}
