package flow

import "bytes"

// Call is a call as its server gets it, and what the script wants of it.
type Call struct {
	Server, Tool string  // real names
	Arguments    []byte  // raw JSON object
	Meta         []byte  // raw JSON object: the _meta that the request has; nil for none
	Timeout      float64 // the call's own, in seconds; 0 for none
	Raw          bool    // the script gets the whole result
}

// Difference returns what differs between two calls: "tool", "arguments", "_meta", "timeout"
// or "form"; "" if they are the same. They are the same only if the server gets the same bytes: what a script
// was told can be in the order of members, and in how a number is written.
func (c *Call) Difference(other *Call) string {
	switch {
	case c.Server != other.Server || c.Tool != other.Tool:
		return "tool"
	case !bytes.Equal(c.Arguments, other.Arguments):
		return "arguments"
	case !bytes.Equal(c.Meta, other.Meta):
		return "_meta"
	case c.Timeout != other.Timeout:
		return "timeout"
	case c.Raw != other.Raw: // the answer would show which of them it is
		return "form"
	}
	return ""
}
