package cassette

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/expect"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// UnmatchedError says that no interaction matches a call, and which one is nearest.
type UnmatchedError struct {
	Server, Tool string // real names
	Params       []byte // raw JSON object
	// Nearest is the interaction with the fewest differences, "" if the tool has no
	// interactions. In that case Mocked has the tools that do.
	Nearest string
	Mocked  []string
	// Differences are the differences in params, by member: what the interaction
	// wants and what the call had.
	Differences []string
	// UsedUp is not 0 if Nearest matches, but has already been used that many times
	// and cannot be used again.
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

// consider sets Nearest if an interaction has fewer differences.
func (e *UnmatchedError) consider(label string, differences []string) {
	if e.Nearest == "" || len(differences) < len(e.Differences) {
		e.Nearest, e.Differences = label, differences
	}
}

// reply returns a JSON-RPC error. Unlike an isError result, it is an error even for
// scripts that request raw results.
func (e *UnmatchedError) reply() wire.Reply {
	return wire.Reply{Error: (&wire.RPCError{Code: wire.CodeInvalidParams, Message: e.Error()}).Raw()}
}

// maxDifferences is how many differences a message lists.
const maxDifferences = 8

// differences returns how args differ from what the interaction wants; nil if they
// match.
func (i *Interaction) differences(args []byte) []string {
	if i.Params == nil {
		return nil
	}
	compare := expect.Equal
	if i.Match == Subset {
		compare = expect.Subset
	}
	whole := compare(i.Params, args)
	if whole == nil {
		return nil
	}
	want, got := members(i.Params), members(args)
	var differ []string
	for _, name := range want.names {
		g, ok := got.values[name]
		if !ok {
			differ = append(differ, fmt.Sprintf("params.%s is missing (want %s)", name, excerpt(want.values[name])))
		} else if m := compare(want.values[name], g); m != nil {
			differ = append(differ, fmt.Sprintf("params.%s%s: want %s, got %s", name, strings.TrimPrefix(m.Path, "$"),
				side(want.values[name], m.Want), side(g, m.Got)))
		}
	}
	for _, name := range got.names {
		if _, ok := want.values[name]; !ok && i.Match != Subset {
			differ = append(differ, fmt.Sprintf("params.%s is not expected (got %s)", name, excerpt(got.values[name])))
		}
	}
	if differ == nil {
		differ = []string{"params: " + whole.Error()}
	}
	if len(differ) > maxDifferences {
		differ = append(differ[:maxDifferences], fmt.Sprintf("and %d more", len(differ)-maxDifferences))
	}
	return differ
}

// side returns one side of a difference: the differing part, or the whole value if part
// is "".
func side(whole []byte, part string) string {
	if part == "" {
		return excerpt(whole)
	}
	return part
}

// object is a decoded JSON object. Of several members with the same name it has the
// last.
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
	text := []rune(string(compact(raw)))
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most]) + "…"
}
