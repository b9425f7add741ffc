package tools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
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

// printer formats the rare kinds of violations for which we have no message.
var printer = message.NewPrinter(language.English)

// describe converts an error of the library without branches.
func (x explainer) describe(e *jsonschema.ValidationError) []finding {
	at := e.InstanceLocation
	one := func(format string, args ...any) []finding {
		return []finding{{at: at, message: fmt.Sprintf(format, args...)}}
	}
	got, _ := lookup(x.value, at)
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return []finding{x.wrongType(at, k.Want)}
	case *kind.Enum:
		return []finding{{at: at, message: x.describeEnum(k), choice: true}}
	case *kind.Const:
		return []finding{{at: at, message: fmt.Sprintf("got %s, want %s", describe(k.Got), show(k.Want)), choice: true}}
	case *kind.Required:
		found := x.missing(at, k.Missing, "")
		for i := range found {
			found[i].message += x.misnamed(e.SchemaURL, got, k.Missing[i])
		}
		return found
	case *kind.DependentRequired:
		return x.missing(at, k.Missing, k.Prop)
	case *kind.Dependency:
		return x.missing(at, k.Missing, k.Prop)
	case *kind.AdditionalProperties:
		return x.unknownProperties(e, k.Properties)
	case *kind.FalseSchema:
		return x.notAllowed(e)
	case *nameKind:
		return x.badName(at, k)
	case *kind.MinLength:
		return one("got %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return one("got %d characters, want at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return one("got %d items, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return one("got %d items, want at most %d", k.Got, k.Want)
	case *kind.MinProperties:
		return one("got %d properties, want at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return one("got %d properties, want at most %d", k.Got, k.Want)
	case *kind.Pattern:
		return one("got %s, want a match of %s", describe(k.Got), display.Clip(k.Want, 200))
	case *kind.Format:
		return one("got %s, want format %s (%s)", describe(k.Got), k.Want, display.Clip(k.Err.Error(), 120))
	case *kind.Minimum:
		return one("got %s, want at least %s", show(got), exact(k.Want))
	case *kind.Maximum:
		return one("got %s, want at most %s", show(got), exact(k.Want))
	case *kind.ExclusiveMinimum:
		return one("got %s, want more than %s", show(got), exact(k.Want))
	case *kind.ExclusiveMaximum:
		return one("got %s, want less than %s", show(got), exact(k.Want))
	case *kind.MultipleOf:
		return one("got %s, want a multiple of %s", show(got), exact(k.Want))
	case *kind.UniqueItems:
		return one("items %d and %d are equal, want all different", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		return one("the last %d items are too many", k.Count)
	case *kind.OneOf:
		return one(`matches alternatives %d and %d of "oneOf", want exactly one`, k.Subschemas[0]+1, k.Subschemas[1]+1)
	case *kind.Not:
		return one(`got %s, which "not" rules out`, describe(got))
	}
	return one("%s", display.Clip(e.ErrorKind.LocalizedString(printer), 300))
}

func (x explainer) missing(at, names []string, because string) []finding {
	var out []finding
	for _, name := range x.fitting(names) {
		msg := "missing property " + show(name)
		if because != "" {
			msg += fmt.Sprintf(" (needed with %s)", show(because))
		}
		out = append(out, finding{at: at, message: msg})
	}
	return out
}

// fitting returns the names that fit into the report, at least one.
func (x explainer) fitting(names []string) []string {
	names = names[:min(len(names), max(1, x.room.findings))]
	x.room.findings -= len(names)
	x.meter.take(int64(len(names)) * 10 * schemaCost)
	return names
}

// maxGiven is the largest number of members of an object for which misspelt names are guessed.
const maxGiven = 1000

// misnamed lists unnamed but allowed members if a property is missing: one of the members may be
// meant.
func (x explainer) misnamed(location string, value any, name string) string {
	s := x.schema.byLocation[location]
	given, ok := value.(map[string]any)
	if !ok || s == nil || s.Properties[name] == nil || len(s.PatternProperties) > 0 || s.AdditionalProperties == false {
		return "" // unknown members are reported separately, or cannot be determined
	}
	if len(given) > maxGiven || !x.hint(len(given)*4*nameCost) {
		return ""
	}
	var unknown, shown []string
	for _, n := range slices.Sorted(maps.Keys(given)) {
		if s.Properties[n] == nil {
			unknown = append(unknown, n)
			shown = append(shown, show(n))
		}
	}
	switch near := x.nearest(name, unknown); {
	case len(unknown) == 0:
		return ""
	case near != "":
		return fmt.Sprintf(" (got %s: did you mean %s?)", show(near), show(name))
	}
	return fmt.Sprintf(" (got %s, which the schema does not name)", display.Clip(strings.Join(shown, ", "), 200))
}

func (x explainer) describeEnum(k *kind.Enum) string {
	const most = 20
	var all, texts []string
	for _, v := range k.Want[:min(len(k.Want), most)] {
		all = append(all, show(v))
	}
	got, isText := k.Got.(string)
	if isText && x.hint(len(k.Want)) {
		for _, v := range k.Want {
			if s, ok := v.(string); ok {
				texts = append(texts, s)
			}
		}
	}
	if len(k.Want) > most {
		all = append(all, fmt.Sprintf("… (%d in all)", len(k.Want)))
	}
	want := "one of "
	if len(all) == 1 {
		want = ""
	}
	hint := ""
	if isText {
		hint = x.suggest(got, texts)
	}
	return fmt.Sprintf("got %s, want %s%s%s", describe(k.Got), want, strings.Join(all, ", "), hint)
}

// maxKnown is the size of the list of known names in a message, in bytes.
const maxKnown = 200

// unknownProperties returns one finding per name, with the nearest known name.
func (x explainer) unknownProperties(e *jsonschema.ValidationError, names []string) []finding {
	known := x.knownProperties(e.SchemaURL)
	var out []finding
	list := display.Clip(strings.Join(known[:min(len(known), maxKnown)], ", "), maxKnown)
	for _, name := range x.fitting(names) {
		hint := x.suggest(name, known)
		if hint == "" && len(known) > 0 {
			hint = fmt.Sprintf(" (known: %s)", list)
		}
		out = append(out, finding{at: e.InstanceLocation, message: "unknown property " + show(name) + hint})
	}
	return out
}

func (x explainer) knownProperties(location string) []string {
	if s := x.schema.byLocation[location]; s != nil && x.hint(len(s.Properties)*2*nameCost) {
		return slices.Sorted(maps.Keys(s.Properties))
	}
	return nil
}

func (x explainer) knows(location, name string) bool {
	s := x.schema.byLocation[location]
	return s != nil && s.Properties[name] != nil
}

// notAllowed describes a violation of the schema false. An unevaluated property is reported like an
// additional property, at the object.
func (x explainer) notAllowed(e *jsonschema.ValidationError) []finding {
	for _, keyword := range []string{"/unevaluatedProperties", "/additionalProperties"} {
		parent, ok := strings.CutSuffix(e.SchemaURL, keyword)
		n := len(e.InstanceLocation)
		if ok && n > 0 && !x.knows(parent, e.InstanceLocation[n-1]) {
			up := *e
			up.SchemaURL, up.InstanceLocation = parent, e.InstanceLocation[:n-1]
			return x.unknownProperties(&up, e.InstanceLocation[n-1:])
		}
	}
	return []finding{{at: e.InstanceLocation, message: "must not be given"}}
}

func (x explainer) badName(at []string, k *nameKind) []finding {
	why := explainer{x.schema, k.name, x.meter, x.room}.findings(k.why)
	reasons := make([]string, 0, len(why))
	for _, f := range why {
		reasons = append(reasons, f.message)
	}
	slices.Sort(reasons)
	return []finding{{at: at, message: fmt.Sprintf("property name %s is not allowed: %s", show(k.name), strings.Join(reasons, ", "))}}
}

// suggest suggests the known name probably meant.
func (x explainer) suggest(name string, known []string) string {
	if best := x.nearest(name, known); best != "" {
		return fmt.Sprintf(" (did you mean %s?)", show(best))
	}
	return ""
}

// nearest returns the known name probably meant by name, or "" without a match or if the search
// would take too long.
func (x explainer) nearest(name string, known []string) string {
	const longest = 100
	if len(name) > longest {
		return ""
	}
	var compared []string
	for _, k := range known {
		if len(k) <= longest && x.hint(200+20*len(k)*len(name)) {
			compared = append(compared, k)
		}
	}
	return nearest.Name(name, compared, nearest.Limit(len(name)))
}

// describe formats a value with the type: string "abc", number 5, object.
func describe(v any) string {
	switch v := v.(type) {
	case string, json.Number:
		return kindOf(v) + " " + show(v)
	case []any, map[string]any:
		return kindOf(v)
	}
	return show(v)
}

// show formats a value as JSON, shortened.
func show(v any) string {
	const most = 60
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return display.Clip(v.String(), most)
	case string:
		quoted, err := jsontext.AppendQuote(nil, display.Clip(v, most))
		if err != nil { // invalid UTF-8: not from parsed JSON, but possibly from Go callers
			return strconv.Quote(display.Clip(v, most))
		}
		return string(quoted)
	case []any, map[string]any:
		if room := most; fits(v, &room) {
			if text, err := json.Marshal(v); err == nil && len(text) <= most {
				return string(text)
			}
		}
		return "a certain " + kindOf(v)
	}
	return fmt.Sprint(v)
}

// fits reports whether a value as JSON may fit into room bytes.
func fits(v any, room *int) bool {
	*room -= 1
	switch v := v.(type) {
	case string:
		*room -= len(v)
	case json.Number:
		*room -= len(v)
	case []any:
		for i := 0; i < len(v) && *room >= 0; i++ {
			fits(v[i], room)
		}
	case map[string]any:
		for name, member := range v {
			if *room -= len(name); *room < 0 || !fits(member, room) {
				break
			}
		}
	}
	return *room >= 0
}

// exact formats a number of a schema without rounding.
func exact(r *big.Rat) string {
	if r.IsInt() {
		return display.Clip(r.Num().String(), 60)
	}
	if prec, ok := r.FloatPrec(); ok {
		return display.Clip(r.FloatString(prec), 60)
	}
	return display.Clip(r.RatString(), 60)
}
