package flow

import "bytes"

// Call is a call as sent to its server, with the form of answer that the script wants.
type Call struct {
	Server, Tool string  // real names
	Arguments    []byte  // raw JSON object
	Meta         []byte  // raw JSON object: the _meta of the request; nil for none
	Timeout      float64 // the call's own, in seconds; 0 for none
	Raw          bool    // the script gets the whole result
}

// Difference returns the differing part of two calls: "tool", "arguments", "_meta", "timeout" or
// "form"; "" for equal calls. Equal calls send the same bytes to the server: the order of members
// and the notation of a number can carry a secret.
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
	case c.Raw != other.Raw: // the answer would show which of the two the script is
		return "form"
	}
	return ""
}
