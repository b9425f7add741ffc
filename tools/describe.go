package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// printer words the rare kinds of violations that have no words of ours.
var printer = message.NewPrinter(language.English)

// describe words one error of the library that has no branches.
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
		return []finding{{at: at, message: describeEnum(k), choice: true}}
	case *kind.Const:
		return []finding{{at: at, message: fmt.Sprintf("got %s, want %s", describe(k.Got), display(k.Want)), choice: true}}
	case *kind.Required:
		found := missing(at, k.Missing, "")
		for i, name := range k.Missing {
			found[i].message += x.misnamed(e.SchemaURL, got, name)
		}
		return found
	case *kind.DependentRequired:
		return missing(at, k.Missing, k.Prop)
	case *kind.Dependency:
		return missing(at, k.Missing, k.Prop)
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
		return one("got %s, want a match of %s", describe(k.Got), shorten(k.Want, 200))
	case *kind.Format:
		return one("got %s, want format %s (%s)", describe(k.Got), k.Want, shorten(k.Err.Error(), 120))
	case *kind.Minimum:
		return one("got %s, want at least %s", display(got), exact(k.Want))
	case *kind.Maximum:
		return one("got %s, want at most %s", display(got), exact(k.Want))
	case *kind.ExclusiveMinimum:
		return one("got %s, want more than %s", display(got), exact(k.Want))
	case *kind.ExclusiveMaximum:
		return one("got %s, want less than %s", display(got), exact(k.Want))
	case *kind.MultipleOf:
		return one("got %s, want a multiple of %s", display(got), exact(k.Want))
	case *kind.UniqueItems:
		return one("items %d and %d are equal, want all different", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		return one("the last %d items are too many", k.Count)
	case *kind.OneOf:
		return one(`matches alternatives %d and %d of "oneOf", want exactly one`, k.Subschemas[0]+1, k.Subschemas[1]+1)
	case *kind.Not:
		return one(`got %s, which "not" rules out`, describe(got))
	}
	return one("%s", shorten(e.ErrorKind.LocalizedString(printer), 300))
}

func missing(at, names []string, because string) []finding {
	var out []finding
	for _, name := range names {
		msg := "missing property " + display(name)
		if because != "" {
			msg += fmt.Sprintf(" (needed with %s)", display(because))
		}
		out = append(out, finding{at: at, message: msg})
	}
	return out
}

// misnamed names what stands in an object under names that its schema allows
// without knowing them, where a property is missing: one of them may be meant.
func (x explainer) misnamed(location string, value any, name string) string {
	s := x.schema.byLocation[location]
	given, ok := value.(map[string]any)
	if !ok || s == nil || s.Properties[name] == nil || len(s.PatternProperties) > 0 || s.AdditionalProperties == false {
		return "" // unknown ones are told of by themselves, or are not known to be
	}
	var unknown, shown []string
	for _, n := range slices.Sorted(maps.Keys(given)) {
		if s.Properties[n] == nil {
			unknown = append(unknown, n)
			shown = append(shown, display(n))
		}
	}
	switch near := nearest(name, unknown); {
	case len(unknown) == 0:
		return ""
	case near != "":
		return fmt.Sprintf(" (got %s: did you mean %s?)", display(near), display(name))
	}
	return fmt.Sprintf(" (got %s, which the schema does not name)", shorten(strings.Join(shown, ", "), 200))
}

func describeEnum(k *kind.Enum) string {
	const most = 20
	var all, texts []string
	for i, v := range k.Want {
		if s, ok := v.(string); ok {
			texts = append(texts, s)
		}
		if i < most {
			all = append(all, display(v))
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
	if got, ok := k.Got.(string); ok {
		hint = suggest(got, texts)
	}
	return fmt.Sprintf("got %s, want %s%s%s", describe(k.Got), want, strings.Join(all, ", "), hint)
}

// unknownProperties is one finding per name, with the nearest known name.
func (x explainer) unknownProperties(e *jsonschema.ValidationError, names []string) []finding {
	known := x.knownProperties(e.SchemaURL)
	var out []finding
	for _, name := range names {
		hint := suggest(name, known)
		if hint == "" && len(known) > 0 {
			hint = fmt.Sprintf(" (known: %s)", shorten(strings.Join(known, ", "), 200))
		}
		out = append(out, finding{at: e.InstanceLocation, message: "unknown property " + display(name) + hint})
	}
	return out
}

func (x explainer) knownProperties(location string) []string {
	if s := x.schema.byLocation[location]; s != nil {
		return slices.Sorted(maps.Keys(s.Properties))
	}
	return nil
}

// notAllowed words the schema false: a property that nothing evaluated is
// reported like an additional one, at its object.
func (x explainer) notAllowed(e *jsonschema.ValidationError) []finding {
	for _, keyword := range []string{"/unevaluatedProperties", "/additionalProperties"} {
		parent, ok := strings.CutSuffix(e.SchemaURL, keyword)
		n := len(e.InstanceLocation)
		if ok && n > 0 && !slices.Contains(x.knownProperties(parent), e.InstanceLocation[n-1]) {
			up := *e
			up.SchemaURL, up.InstanceLocation = parent, e.InstanceLocation[:n-1]
			return x.unknownProperties(&up, e.InstanceLocation[n-1:])
		}
	}
	return []finding{{at: e.InstanceLocation, message: "must not be given"}}
}

func (x explainer) badName(at []string, k *nameKind) []finding {
	why := explainer{x.schema, k.name}.findings(k.why)
	reasons := make([]string, 0, len(why))
	for _, f := range why {
		reasons = append(reasons, f.message)
	}
	slices.Sort(reasons)
	return []finding{{at: at, message: fmt.Sprintf("property name %s is not allowed: %s", display(k.name), strings.Join(reasons, ", "))}}
}

// suggest names the known name that was probably meant.
func suggest(name string, known []string) string {
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf(" (did you mean %s?)", display(best))
	}
	return ""
}

// nearest is the known name that is so near that it was meant, probably; "" if
// there is none.
func nearest(name string, known []string) string {
	if len(name) > 100 {
		return ""
	}
	limit := (len(name) + 1) / 3
	if len(name) >= 4 {
		limit = max(limit, 2) // two letters swapped
	}
	best, distance := "", limit+1
	for _, k := range known {
		if len(k) > 100 {
			continue
		}
		d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(k))
		if d < distance {
			best, distance = k, d
		}
	}
	return best
}

// describe shows a value with its type: string "abc", number 5, object.
func describe(v any) string {
	switch v := v.(type) {
	case string, json.Number:
		return kindOf(v) + " " + display(v)
	case []any, map[string]any:
		return kindOf(v)
	}
	return display(v)
}

// display shows a value as JSON, shortened.
func display(v any) string {
	const most = 60
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return shorten(v.String(), most)
	case string:
		quoted, err := jsontext.AppendQuote(nil, shorten(v, most))
		if err != nil { // invalid UTF-8 cannot come from parsed JSON, but from Go callers
			return strconv.Quote(shorten(v, most))
		}
		return string(quoted)
	case []any, map[string]any:
		text, err := json.Marshal(v)
		if err != nil || len(text) > most {
			return "a certain " + kindOf(v)
		}
		return string(text)
	}
	return fmt.Sprint(v)
}

// exact writes a number of a schema without rounding it.
func exact(r *big.Rat) string {
	if r.IsInt() {
		return shorten(r.Num().String(), 60)
	}
	if prec, ok := r.FloatPrec(); ok {
		return shorten(r.FloatString(prec), 60)
	}
	return shorten(r.RatString(), 60)
}
