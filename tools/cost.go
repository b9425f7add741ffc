package tools

import (
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/message"
)

// A schema of a few hundred bytes can keep a validator busy for years: n definitions, each
// referring twice to the next, are 2^n evaluations. The meter limits the evaluations, this file the
// stack.

// maxChain is the number of schemas that may apply one another to the same value in a row. Together
// with MaxValueDepth maxChain limits the stack of an evaluation and the depth of the tree of
// errors.
const maxChain = 32

// costKind is the error for a validation that needs too much stack.
type costKind struct{}

func (*costKind) KeywordPath() []string { return nil }

func (*costKind) LocalizedString(*message.Printer) string {
	return "the schema is too complicated to check this value (simplify its recursive or repeated $ref)"
}

// chains counts how many schemas apply one another to the same value in a row.
type chains struct {
	length map[*jsonschema.Schema]int
	cycle  *jsonschema.Schema // the first schema found to lead back to itself
}

// checkChains says why the longest chain is too long, or returns "". A cycle is an endless
// chain.
func (s *Schema) checkChains() string {
	c := chains{length: map[*jsonschema.Schema]int{}}
	for _, at := range slices.Sorted(maps.Keys(s.byLocation)) {
		switch n := c.from(s.byLocation[at]); {
		case n == endless:
			return fmt.Sprintf(`"$ref" cycle at %s: it leads back to itself without going into the value, so it can never be satisfied`, local(c.cycle.Location))
		case n > maxChain:
			return fmt.Sprintf(`%s: more than %d subschemas apply to the same value in a row (shorten the chain of "$ref")`, local(at), maxChain)
		}
	}
	return ""
}

const endless = 1 << 30

func (c *chains) from(s *jsonschema.Schema) int {
	const open = -1
	switch n := c.length[s]; {
	case n == open:
		if c.cycle == nil {
			c.cycle = s
		}
		return endless
	case n > 0:
		return n
	}
	c.length[s] = open
	longest := 0
	for _, sub := range subschemasOf(s).same {
		longest = max(longest, c.from(sub))
	}
	c.length[s] = min(longest+1, endless)
	return c.length[s]
}
