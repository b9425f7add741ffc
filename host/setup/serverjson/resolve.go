package serverjson

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
)

// MissingError says which required inputs have no value.
type MissingError struct{ Inputs []Input }

func (e *MissingError) Error() string {
	names := make([]string, len(e.Inputs))
	for i, in := range e.Inputs {
		names[i] = in.Name
	}
	return "no value for " + strings.Join(names, ", ")
}

// Server returns the server for the configuration. values has the texts for inputs by name, in the
// language of the configuration: see [edit.Literal]. An input without a text gets its default. The
// error is an [*Error] or a [*MissingError].
func (o *Option) Server(values map[string][]string) (edit.Server, error) {
	if o.Problem != "" {
		return edit.Server{}, wrong(o.where, "cannot be used: %s", o.Problem)
	}
	var missing []Input
	for _, in := range o.Inputs() {
		if in.Required && in.Default == "" && len(values[in.Name]) == 0 {
			missing = append(missing, in)
		}
	}
	if missing != nil {
		return edit.Server{}, &MissingError{missing}
	}
	if o.remote != nil {
		return o.remoteServer(values)
	}
	return o.pkg.server(o.where, values)
}

// texts returns the texts of a slot in the language of the configuration; none for an omitted slot.
func (s *slot) texts(at string, values map[string][]string) ([]string, error) {
	f := s.field
	if f.Value == "" {
		return valuesOf(values, s.name, f), nil
	}
	names := s.variables()
	if len(names) == 0 {
		return []string{edit.Literal(f.Value)}, nil
	}
	count := 1
	filled := map[string][]string{}
	for _, name := range names {
		v := f.Variables[name]
		filled[name] = valuesOf(values, name, &v)
		if len(filled[name]) == 0 {
			return nil, nil // cannot be complete
		}
		if s.repeated {
			count = max(count, len(filled[name]))
		}
	}
	texts := make([]string, count)
	for i := range texts {
		var ok bool
		texts[i], ok = fill(f.Value, func(name string) (string, bool) {
			list, ok := filled[name]
			if !ok {
				return "", false
			}
			return list[min(i, len(list)-1)], true
		})
		if !ok {
			return nil, wrong(at, "%s %s has a $ before a variable, which a configuration cannot express", s.kind, quoted(s.name))
		}
	}
	return texts, nil
}

// valuesOf returns the values of an input, or its default.
func valuesOf(values map[string][]string, name string, f *Field) []string {
	switch {
	case f.Value != "":
		return []string{edit.Literal(f.Value)}
	case len(values[name]) > 0:
		return values[name]
	case f.Default != "":
		return []string{edit.Literal(f.Default)}
	}
	return nil
}

// fill replaces {name} in a template. Unknown names stay. fill returns false if the result has a $
// before a variable of the configuration.
func fill(template string, value func(name string) (string, bool)) (string, bool) {
	text, at := "", 0
	for _, m := range braces.FindAllStringIndex(template, -1) {
		filled, ok := value(template[m[0]+1 : m[1]-1])
		if !ok {
			continue
		}
		text, ok = join(text, edit.Literal(template[at:m[0]]))
		if ok {
			text, ok = join(text, filled)
		}
		if !ok {
			return "", false
		}
		at = m[1]
	}
	return join(text, edit.Literal(template[at:]))
}

// join joins two texts in the language of the configuration. A $ and a { that meet must not become
// a variable. join returns false if the language cannot express the joined text.
func join(a, b string) (string, bool) {
	switch {
	case !strings.HasSuffix(a, "$"):
	case strings.HasPrefix(b, "{"):
		a += "$" // $${ stands for ${
	case strings.HasPrefix(b, "${"):
		return "", false
	}
	return a + b, true
}

// words returns the words of arguments.
func words(at string, arguments []Argument, values map[string][]string) ([]string, error) {
	var list []string
	for i := range arguments {
		a := &arguments[i]
		s := a.slot(i)
		if s.field.Value == "" && s.isFlag() {
			list = append(list, edit.Literal(a.Name))
			continue
		}
		texts, err := s.texts(at, values)
		if err != nil {
			return nil, err
		}
		if !s.repeated && len(texts) > 1 {
			texts = texts[:1]
		}
		for _, text := range texts {
			switch {
			case a.Type != "named":
				list = append(list, text)
			case strings.HasPrefix(a.Name, "--"): // a single word, so that the value cannot be an option
				list = append(list, edit.Literal(a.Name)+"="+text)
			default:
				list = append(list, edit.Literal(a.Name), text)
			}
		}
	}
	return list, nil
}

// settings returns variables or headers with a value.
func settings(at string, list []Named, kind string, values map[string][]string) ([]edit.Setting, error) {
	var set []edit.Setting
	for i := range list {
		s := slot{list[i].Name, kind, false, &list[i].Field}
		texts, err := s.texts(at, values)
		if err != nil {
			return nil, err
		}
		again := slices.ContainsFunc(set, func(other edit.Setting) bool { return strings.EqualFold(other.Name, s.name) })
		if len(texts) > 0 && !again {
			set = append(set, edit.Setting{Name: s.name, Value: texts[0]})
		}
	}
	return set, nil
}

func (o *Option) remoteServer(values map[string][]string) (edit.Server, error) {
	headers, err := settings(o.where, o.remote.Headers, "header", values)
	if err != nil {
		return edit.Server{}, err
	}
	s := edit.Server{Transport: config.StreamableHTTP, Headers: headers}
	if o.remote.Type == "sse" {
		s.Transport = config.LegacySSE
	}
	address := o.remote.address()
	texts, err := address.texts(o.where, values)
	if err != nil {
		return edit.Server{}, err
	}
	if len(texts) > 0 {
		s.URL = texts[0]
	}
	if err := checkURL(o.where+".url", withoutVariables(s.URL)); err != nil {
		return edit.Server{}, err
	}
	return s, nil
}

// withoutVariables replaces the variables of a text in the language of the configuration.
func withoutVariables(text string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		if !ok {
			return b.String() + text
		}
		if strings.HasSuffix(before, "$") { // an escape
			b.WriteString(before + "{")
			text = rest
			continue
		}
		_, after, _ := strings.Cut(rest, "}")
		fmt.Fprintf(&b, "%sx", before)
		text = after
	}
}
