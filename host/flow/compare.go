package flow

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Call is a call as its server gets it.
type Call struct {
	Server, Tool string  // real names
	Arguments    []byte  // raw JSON object
	Meta         []byte  // raw JSON object: the _meta that the request has; nil for none
	Timeout      float64 // the call's own, in seconds; 0 for none
}

// Difference returns what differs between two calls: "tool", "arguments", "_meta" or "timeout";
// "" if they are the same.
func (c *Call) Difference(other *Call) string {
	switch {
	case c.Server != other.Server || c.Tool != other.Tool:
		return "tool"
	case !SameJSON(c.Arguments, other.Arguments):
		return "arguments"
	case !SameJSON(c.Meta, other.Meta):
		return "_meta"
	case c.Timeout != other.Timeout:
		return "timeout"
	}
	return ""
}

// SameJSON reports whether two raw values are the same but for white space, the order of
// members and how strings are escaped. Numbers must have the same digits. What cannot be read in
// one way only is never the same as something else.
func SameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, ok1 := canonical(a)
	y, ok2 := canonical(b)
	return ok1 && ok2 && bytes.Equal(x, y)
}

func canonical(raw []byte) ([]byte, bool) {
	value := jsontext.Value(bytes.Clone(raw))
	err := value.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.AllowInvalidUTF8(false))
	return value, err == nil
}
