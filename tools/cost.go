package tools

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/message"
)

// A schema of a few hundred bytes can make a validator work for years: n
// definitions that each refer twice to the next are 2^n evaluations. The
// validation runs in the host, where no fuel stops it, so its work is bounded
// before it starts. Most schemas are linear in the value whatever it is; for
// the others the number of evaluations is counted first, each pair of schema
// and value once, which takes polynomial time.
//
// The count follows $dynamicRef and $recursiveRef to their first target only.

const (
	linearWork  = 64      // evaluations of one value that count as linear
	freeWork    = 200_000 // evaluations always allowed
	workPerByte = 16      // and for each byte of the value
	// maxChain is how many schemas may apply one another to the same value in
	// a row. With MaxValueDepth it bounds the validator's stack and the size of
	// its error tree.
	maxChain = 32
)

// costKind is a value whose validation would take too long.
type costKind struct{}

func (*costKind) KeywordPath() []string { return nil }

func (*costKind) LocalizedString(*message.Printer) string {
	return "the schema is too complicated to check this value (simplify its recursive or repeated $ref)"
}

// chains measures how many schemas apply one another to one value in a row.
type chains struct {
	length map[*jsonschema.Schema]int
	cycle  *jsonschema.Schema // the first one found that leads back to itself
}

// checkChains returns why the longest chain is too long, or "". A cycle is a
// chain without end.
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
	for _, sub := range edgesOf(s).same {
		longest = max(longest, c.from(sub))
	}
	c.length[s] = min(longest+1, endless)
	return c.length[s]
}

// ownWork is what one evaluation costs beside its subschemas, in evaluations.
func ownWork(s *jsonschema.Schema) int {
	n := len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas)
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	return 1 + n/8
}

// linear reports whether no value, however built, is evaluated more than
// linearWork times for each part it has. Recursive schemas never are.
func linear(root *jsonschema.Schema) bool {
	const open = -1
	work := map[*jsonschema.Schema]int{}
	var visit func(s *jsonschema.Schema) int
	visit = func(s *jsonschema.Schema) int {
		switch w := work[s]; {
		case w == open:
			return linearWork + 1
		case w > 0:
			return w
		}
		work[s] = open
		e := edgesOf(s)
		total, widest := ownWork(s)+len(s.PatternProperties), 0
		for _, sub := range append(e.same, e.names...) {
			total = min(total+visit(sub), linearWork+1)
		}
		// A property or item meets one of Properties or PrefixItems, and
		// beside it perhaps all of the others.
		for _, sub := range e.children {
			w := visit(sub)
			if isOneOfMany(s, sub) {
				widest = max(widest, w)
				continue
			}
			total = min(total+w, linearWork+1)
		}
		work[s] = min(total+widest, linearWork+1)
		return work[s]
	}
	return visit(root) <= linearWork
}

func isOneOfMany(parent, sub *jsonschema.Schema) bool {
	for _, p := range parent.Properties {
		if p == sub {
			return true
		}
	}
	for _, p := range parent.PrefixItems {
		if p == sub {
			return true
		}
	}
	return false
}

// tooCostly reports whether validating v, of size bytes, takes more work than
// is allowed.
func tooCostly(root *jsonschema.Schema, v any, size int) bool {
	c := coster{seen: map[costKey]int{}, budget: freeWork + size*workPerByte}
	return c.value(root, v) > c.budget
}

// costKey is a schema and the object or array it is applied to, by address; 0
// is any scalar, which costs the same whatever it is.
type costKey struct {
	schema *jsonschema.Schema
	at     uintptr
}

type coster struct {
	seen   map[costKey]int
	budget int
}

func (c *coster) value(s *jsonschema.Schema, v any) int {
	if s == nil || s.Bool != nil {
		return 1
	}
	key := costKey{schema: s}
	switch v := v.(type) {
	case map[string]any:
		key.at = reflect.ValueOf(v).Pointer()
	case []any:
		if len(v) > 0 {
			key.at = reflect.ValueOf(v).Pointer()
		}
	}
	if n, ok := c.seen[key]; ok {
		return n
	}
	n := ownWork(s)
	for _, sub := range edgesOf(s).same {
		n = c.add(n, c.value(sub, v))
	}
	switch v := v.(type) {
	case map[string]any:
		n = c.object(n, s, v)
	case []any:
		n = c.array(n, s, v)
	}
	c.seen[key] = n
	return n
}

// add saturates just above the budget.
func (c *coster) add(a, b int) int { return min(a+b, c.budget+1) }

func (c *coster) object(n int, s *jsonschema.Schema, obj map[string]any) int {
	names := edgesOf(s).names
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, v := range obj {
		n = c.add(n, 1+len(s.PatternProperties))
		for _, sub := range names {
			n = c.add(n, c.value(sub, name))
		}
		if sub := s.Properties[name]; sub != nil {
			n = c.add(n, c.value(sub, v))
		}
		for _, sub := range s.PatternProperties {
			n = c.add(n, c.value(sub, v))
		}
		if additional != nil {
			n = c.add(n, c.value(additional, v))
		}
		if s.UnevaluatedProperties != nil {
			n = c.add(n, c.value(s.UnevaluatedProperties, v))
		}
	}
	return n
}

func (c *coster) array(n int, s *jsonschema.Schema, arr []any) int {
	every := []*jsonschema.Schema{s.Contains, s.UnevaluatedItems, s.Items2020}
	tuple := s.PrefixItems
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		every = append(every, items)
	case []*jsonschema.Schema:
		tuple = items
	}
	if rest, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
		every = append(every, rest)
	}
	for i, v := range arr {
		n = c.add(n, 1)
		if i < len(tuple) {
			n = c.add(n, c.value(tuple[i], v))
		}
		for _, sub := range every {
			if sub != nil {
				n = c.add(n, c.value(sub, v))
			}
		}
	}
	return n
}
