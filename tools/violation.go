package tools

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Violation is a way in which a value does not satisfy a schema.
type Violation struct {
	// Pointer is the JSON pointer (RFC 6901) to the invalid value; "" is the root.
	Pointer string `json:"pointer"`
	// Message is a short phrase without the pointer: got string "abc", want
	// integer.
	Message string `json:"message"`
}

// String returns "POINTER: MESSAGE", with the root shown as "/".
func (v Violation) String() string {
	if v.Pointer == "" {
		return "/: " + v.Message
	}
	return display.Clip(v.Pointer, 200) + ": " + v.Message
}

// ValidationError lists violations, sorted by pointer (array items by number) and without
// repetition. The list is never empty. It has at most the first [MaxViolations], or fewer if the
// pointers are very long.
type ValidationError struct {
	Violations []Violation
}

const (
	// MaxViolations is the largest number of violations reported for a value.
	MaxViolations = 1000
	// maxPointers is the total length of their pointers, in bytes.
	maxPointers = 1 << 20
)

// maxShown is the number of violations in the text of an error.
const maxShown = 20

// Error returns one violation per line, at most 20.
func (e *ValidationError) Error() string {
	var b strings.Builder
	for i, v := range e.Violations {
		if i == maxShown {
			fmt.Fprintf(&b, "\nand %d more", len(e.Violations)-maxShown)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(v.String())
	}
	return b.String()
}

// unreadable converts an error of parseValue into a ValidationError.
func unreadable(err error) *ValidationError {
	var at *jsonvalue.Error
	if errors.As(err, &at) {
		return &ValidationError{[]Violation{{at.Pointer, at.Message}}}
	}
	return &ValidationError{[]Violation{{"", err.Error()}}}
}

// finding is a violation as found in the library's error tree.
type finding struct {
	at      []string
	message string
	want    []string // the required types, for a wrong type
	choice  bool     // a violated enum or const, which often means a wrong alternative
}

// explainer converts the library's error tree into findings.
type explainer struct {
	schema *Schema
	value  any
	meter  *meter
	room   *room
}

// room is the rest of the limits for a report.
type room struct {
	findings int // including merged alternatives
	hints    int // units of work
}

// maxHints is the work for guesses at the intended name.
const maxHints = 20_000_000

// hint reports whether enough work is left for a guess, and subtracts the work.
func (x explainer) hint(units int) bool {
	if x.room.hints < units {
		return false
	}
	x.room.hints -= units
	x.meter.take(int64(units))
	return true
}

// explain lists the violations of v.
func (s *Schema) explain(m *meter, lib *jsonschema.ValidationError, v any) *ValidationError {
	x := explainer{s, v, m, &room{findings: 3 * MaxViolations, hints: maxHints}}
	found := x.sorted(x.findings(lib))
	out := make([]Violation, 0, min(len(found), MaxViolations))
	long := 0
	for _, f := range found {
		m.take(schemaCost)
		for _, name := range f.at {
			m.text(len(name))
			long += len(name)
		}
		if len(out) > 0 && (len(out) == MaxViolations || long > maxPointers) {
			break
		}
		if next := (Violation{pointer(f.at), f.message}); len(out) == 0 || next != out[len(out)-1] {
			out = append(out, next)
		}
	}
	return &ValidationError{out}
}

// sorted sorts findings: the library visits properties in random order.
func (x explainer) sorted(found []finding) []finding {
	slices.SortStableFunc(found, func(a, b finding) int {
		x.meter.poll()
		return cmp.Or(comparePointers(a.at, b.at), cmp.Compare(a.message, b.message))
	})
	return found
}

func comparePointers(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		i, errX := strconv.Atoi(x)
		j, errY := strconv.Atoi(y)
		if errX == nil && errY == nil && i != j {
			return cmp.Compare(i, j)
		}
		return cmp.Compare(x, y)
	})
}

func (x explainer) findings(e *jsonschema.ValidationError) []finding {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		var out []finding
		for _, cause := range e.Causes {
			if len(out) > 0 && x.room.findings <= 0 {
				break
			}
			out = append(out, x.findings(cause)...)
		}
		return out
	case *kind.AnyOf:
		return x.alternatives(e)
	case *kind.OneOf:
		if len(e.Causes) > 0 {
			return x.alternatives(e)
		}
	}
	x.meter.take(10 * schemaCost)
	x.room.findings--
	return x.describe(e)
}

// alternatives describes the failure of every branch of an anyOf or oneOf: as a list of types if
// only the type is wrong, as the intended branch if the other branches clearly were not meant, or
// as a list of the faults in each branch.
func (x explainer) alternatives(e *jsonschema.ValidationError) []finding {
	branches := make([][]finding, 0, len(e.Causes))
	for _, cause := range e.Causes {
		branches = append(branches, x.sorted(x.findings(cause)))
	}
	if f, ok := x.typesOnly(e.InstanceLocation, branches); ok {
		return []finding{f}
	}
	meant := slices.DeleteFunc(slices.Clone(branches), func(b []finding) bool {
		return slices.ContainsFunc(b, func(f finding) bool {
			return f.want != nil && len(f.at) == len(e.InstanceLocation)
		})
	})
	if closer := slices.DeleteFunc(slices.Clone(meant), func(b []finding) bool {
		return slices.ContainsFunc(b, func(f finding) bool { return f.choice })
	}); len(closer) > 0 {
		meant = closer
	}
	if len(meant) == 1 {
		return meant[0]
	}
	if len(meant) == 0 {
		meant = branches
	}
	return []finding{{
		at:      e.InstanceLocation,
		message: listAlternatives(e.InstanceLocation, meant, len(branches)),
	}}
}

// typesOnly merges branches that each require only another type of this value.
func (x explainer) typesOnly(at []string, branches [][]finding) (finding, bool) {
	var want []string
	for _, b := range branches {
		if len(b) != 1 || b[0].want == nil || len(b[0].at) != len(at) {
			return finding{}, false
		}
		for _, t := range b[0].want {
			if !slices.Contains(want, t) {
				want = append(want, t)
			}
		}
	}
	return x.wrongType(at, want), true
}

func (x explainer) wrongType(at, want []string) finding {
	got, _ := lookup(x.value, at)
	return finding{
		at:      at,
		message: fmt.Sprintf("got %s, want %s", describe(got), strings.Join(want, " or ")),
		want:    want,
	}
}

// listAlternatives shows up to three branches with up to three findings each.
func listAlternatives(at []string, branches [][]finding, total int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "matches none of %d alternatives", total)
	for i, branch := range branches {
		sep := "; or "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep)
		if i == 3 {
			b.WriteString("…")
			break
		}
		for j, f := range branch {
			if j > 0 {
				b.WriteString(", ")
			}
			if j == 3 {
				b.WriteString("…")
				break
			}
			if len(f.at) > len(at) {
				b.WriteString(pointer(f.at[len(at):]) + ": ")
			}
			b.WriteString(f.message)
		}
	}
	return display.Clip(b.String(), 600)
}
