package cassette

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// UnmatchedError is the error of a call without a matching interaction, with the nearest
// interaction.
type UnmatchedError struct {
	Server, Tool string // real names
	Params       []byte // raw JSON object; nil if large
	// Nearest is the interaction with the fewest differences, "" if the tool has no interactions.
	// Mocked then has the tools with interactions.
	Nearest string
	Mocked  []string
	// Differences are the differences in params, by member: the value of the interaction and the
	// value of the call.
	Differences []string
	// UsedUp is the number of uses of Nearest, if Nearest matches but has no uses left; otherwise
	// 0.
	UsedUp int
}

func (e *UnmatchedError) Error() string {
	name := e.Server + "." + e.Tool
	switch {
	case e.Nearest == "" && len(e.Mocked) == 0:
		return fmt.Sprintf("no mock answers %s: there are no mocks", name)
	case e.Nearest == "":
		return fmt.Sprintf("no mock answers %s: there are mocks of %s", name, list(e.Mocked))
	case e.UsedUp == 1:
		return fmt.Sprintf("no mock answers this call of %s: %s does, but only once, and it was used already", name, e.Nearest)
	case e.UsedUp > 1:
		return fmt.Sprintf("no mock answers this call of %s: %s does, but only %d times, and it was used that often already", name, e.Nearest, e.UsedUp)
	}
	return fmt.Sprintf("no mock answers this call of %s; the nearest is %s: %s", name, e.Nearest, strings.Join(e.Differences, "; "))
}

// reply returns a JSON-RPC error. Unlike an isError result, a JSON-RPC error is an error even for
// scripts with raw results.
func (e *UnmatchedError) reply() wire.Reply {
	return wire.Reply{Error: (&wire.RPCError{Code: wire.CodeInvalidParams, Message: e.Error()}).Raw()}
}

// maxParams is the size of the largest params kept by an UnmatchedError, in bytes.
const maxParams = 64 << 10

// maxDifferences is how many differences a message lists.
const maxDifferences = 8

// object has the raw values of a JSON object. Of several members with the same name, the last
// counts.
type object struct {
	names  []string
	values map[string][]byte
}

func members(raw []byte) object {
	o := object{values: map[string][]byte{}}
	d := jsontext.NewDecoder(strings.NewReader(string(raw)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return o
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return o
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return o
		}
		if _, again := o.values[name]; !again {
			o.names = append(o.names, name)
		}
		o.values[name] = slices.Clone(value)
	}
	return o
}

// excerpt returns the beginning of a JSON value.
func excerpt(raw []byte) string {
	const most = 80
	text := string(compact(raw))
	at := 0
	for i := range text {
		if at++; at > most {
			return text[:i] + "…"
		}
	}
	return text
}
