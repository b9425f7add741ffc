package sandbox

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// encode returns the JSON of a message to the guest. Raw parts stay as they are,
// including HTML characters.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := stdjson.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// checkValue checks that text is a JSON value in valid UTF-8, at most depth deep, without duplicate
// names in an object: readers differ in their choice among duplicates.
func checkValue(b []byte, depth int) error {
	if !jsontext.Value(b).IsValid() {
		return errors.New("not a single valid JSON value")
	}
	if d := nesting(b); d > depth {
		return fmt.Errorf("nested %d deep, more than %d", d, depth)
	}
	return nil
}

// nesting returns the depth of valid JSON.
func nesting(b []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// decode reads a message of the guest. Names must match exactly, and unknown names are refused.
// extra is the depth that the message itself adds to abi.MaxDepth.
func decode(b []byte, v any, extra int) error {
	if err := checkValue(b, abi.MaxDepth+extra); err != nil {
		return err
	}
	return json.Unmarshal(b, v, json.RejectUnknownMembers(true))
}

// decodeCalls reads a batch.
func decodeCalls(b []byte) ([]abi.ToolCall, error) {
	var calls []abi.ToolCall
	if items := itemsOf(b, abi.MaxBatch+1); items > abi.MaxBatch { // before the memory for more calls is taken
		return nil, fmt.Errorf("a batch of more than %d calls", abi.MaxBatch)
	}
	if err := decode(b, &calls, 2); err != nil {
		return nil, err
	}
	if len(calls) == 0 || len(calls) > abi.MaxBatch {
		return nil, fmt.Errorf("a batch of %d calls", len(calls))
	}
	for i := range calls {
		if err := checkCall(&calls[i]); err != nil {
			return nil, fmt.Errorf("call %d: %w", i, err)
		}
	}
	return calls, nil
}

// itemsOf returns how many items the array b has, most at most.
func itemsOf(b []byte, most int) (items int) {
	d := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '[' {
		return 0
	}
	for items < most && d.PeekKind() != ']' && d.SkipValue() == nil {
		items++
	}
	return items
}

// decodeCall reads a call.
func decodeCall(b []byte) (call abi.ToolCall, err error) {
	if err = decode(b, &call, 1); err == nil {
		err = checkCall(&call)
	}
	return call, err
}

func checkCall(c *abi.ToolCall) error {
	c.Arguments, c.Meta = bytes.TrimSpace(c.Arguments), bytes.TrimSpace(c.Meta)
	switch {
	case c.Server == "" || c.Tool == "":
		return errors.New("no server or tool")
	case len(c.Arguments) == 0 || c.Arguments[0] != '{':
		return errors.New("arguments are not an object")
	case len(c.Meta) > 0 && c.Meta[0] != '{':
		return errors.New("meta is not an object")
	case c.Timeout < 0:
		return errors.New("a negative timeout")
	}
	return nil
}

// decodeError reads a script's error, and refuses types that only the host may set.
func decodeError(b []byte) (*abi.Error, error) {
	e := new(abi.Error)
	if err := decode(b, e, 2); err != nil {
		return nil, err
	}
	switch e.Type {
	case abi.ErrValidation, abi.ErrRuntime, abi.ErrTool, abi.ErrTimeout, abi.ErrResource, abi.ErrPermission, abi.ErrInternal, abi.ErrWithheld:
		return e, nil
	default:
		return nil, fmt.Errorf("error of type %q", e.Type)
	}
}
